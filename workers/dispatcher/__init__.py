"""The dispatcher of a region: claims ready jobs and applies them to the cluster."""
