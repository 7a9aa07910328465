"""SQS: sending, receiving with a heartbeat, and dead letters."""
