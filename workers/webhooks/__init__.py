"""The consumer that delivers webhooks: from the events of jobs to signed requests that arrive."""
