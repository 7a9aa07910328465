"""How well the fleet itself is: one snapshot of it, read in a bounded number of requests, and the forms in which it is told."""
