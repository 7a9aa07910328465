"""The `gpufleet` command: a client of the API, for people and for programs."""
