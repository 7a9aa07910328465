"""A small region in one process: the API with the loops of its workers, composed of what the programs of their own are made of."""
