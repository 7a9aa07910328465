"""What the fleet's clusters cost, by namespace: reports that a worker writes to S3 from what OpenCost measures."""
