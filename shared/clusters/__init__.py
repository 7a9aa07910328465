"""Kubernetes: manifests and quantities, and the client that applies, releases, observes and deletes."""
