"""The core of gpufleet: jobs, their store, queues, clusters and policy. It imports nothing of `workers`."""
