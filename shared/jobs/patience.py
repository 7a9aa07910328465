"""Trying again while a part does not answer, and giving up in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import tenacity

from shared.errors import FleetError, UnavailableError

T = TypeVar("T")
_backoff = tenacity.wait_random_exponential(multiplier=0.2, max=5.0)


async def patiently(call: Callable[[], Awaitable[T]], *, until: float) -> T:
    """Call until it answers; UnavailableError is passed on when the event loop's time has reached `until`.

    A Retry-After of the error is honoured: the next call is not made earlier, and not at all when it would come too late.
    """

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.retry_after if isinstance(error, UnavailableError) and error.retry_after else 0.0
        return max(_backoff(state), asked)

    def too_late(state: tenacity.RetryCallState) -> bool:
        return asyncio.get_running_loop().time() + state.upcoming_sleep >= until

    def retrying() -> tenacity.AsyncRetrying:
        return tenacity.AsyncRetrying(retry=tenacity.retry_if_exception_type(UnavailableError), wait=pause, stop=too_late, reraise=True)

    return await again(lambda _: call(), retrying)


async def again(call: Callable[[int], Awaitable[T]], retrying: Callable[[], tenacity.AsyncRetrying]) -> T:
    """Call, with the number of the try (from 0), until it answers or what `retrying` makes gives up; then the last failure is raised.

    The first try goes without tenacity, which takes a third of a millisecond of its own: as much as all that a dispatcher does
    between the calls of one job.
    """
    try:
        return await call(0)
    except FleetError as error:
        failure = error
    async for attempt in retrying():
        with attempt:
            tries = attempt.retry_state.attempt_number - 1
            if not tries:
                raise failure
            return await call(tries)
    raise AssertionError("unreachable: the last failure is raised")
