"""Webhooks: endpoints of users that are told of their jobs."""
