"""Ingest: takes jobs from the submissions queue."""
