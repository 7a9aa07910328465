"""The `gpufleet` command, a client of the API."""
