"""When a failed attempt is tried again, and how long from now. Interruptions use up no attempt."""

from __future__ import annotations

from datetime import timedelta

from shared.jobs.model import RetryPolicy

CLUSTER_BACKOFF = RetryPolicy(max_attempts=20, backoff_seconds=5, max_backoff_seconds=600)
"""How often an execution may be given back because its cluster accepted nothing: 20 times in a row, about two and a half hours."""


def delay(policy: RetryPolicy, failures: int, jitter: float) -> timedelta:
    """How long to wait after the `failures`-th failure in a row (from 1).

    Doubles from `backoff_seconds` to `max_backoff_seconds`; `jitter` in [0, 1) spreads it over the upper half, so that jobs that failed
    together don't come back together.
    """
    full = min(policy.backoff_seconds * 2.0 ** min(failures - 1, 30), float(policy.max_backoff_seconds))
    return timedelta(seconds=full * (0.5 + jitter / 2))


def may_retry(policy: RetryPolicy, failures: int) -> bool:
    """Whether another attempt is due after the `failures`-th failure."""
    return failures < policy.max_attempts


def may_continue_after_interruption(policy: RetryPolicy, interruptions: int) -> bool:
    """Whether another execution is due after the `interruptions`-th interruption."""
    return interruptions <= policy.max_interruptions
