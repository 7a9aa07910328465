"""What a job is and how it may change. Nothing here knows AWS, Kubernetes or HTTP: those stand behind `ports`."""
