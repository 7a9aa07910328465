"""The programs: an HTTP API, the consumers of the queues, the embedded fleet and the command."""
