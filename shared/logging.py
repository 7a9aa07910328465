"""Log lines as JSON on standard error, one a fact; standard output belongs to what a command prints."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(level: str = "INFO", **bound: str) -> None:
    """Set up structlog for this process; `bound` is said in every line (worker, region)."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(**bound)
