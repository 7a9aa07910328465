"""The fleet's own door, under /fleet/v1: what the command needs and no other system has an endpoint for."""
