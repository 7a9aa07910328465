"""The consumer that scrapes GPU metrics."""
