"""What deploys the fleet: the stacks, the Lambda packages, the roles of each worker."""
