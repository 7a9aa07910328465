"""The observer of a region: what happens on the cluster becomes the states of jobs."""
