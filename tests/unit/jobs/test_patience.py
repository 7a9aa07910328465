"""Trying again: how often, with which number, and with which failure in the end."""

import asyncio

import pytest
import tenacity

from shared.errors import UnavailableError
from shared.jobs.patience import again, patiently


def three_times() -> tenacity.AsyncRetrying:
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(UnavailableError),
        wait=tenacity.wait_none(),
        stop=tenacity.stop_after_attempt(3),
        reraise=True,
    )


class Call:
    """Fails so many times, then answers."""

    def __init__(self, failures: int, error: type[Exception] = UnavailableError) -> None:
        self.tries: list[int] = []
        self._failures = failures
        self._error = error

    async def __call__(self, tries: int) -> str:
        self.tries.append(tries)
        if len(self.tries) <= self._failures:
            raise self._error(f"failure {len(self.tries)}")
        return "answer"


async def test_a_call_that_answers_is_made_once():
    call = Call(failures=0)

    assert await again(call, three_times) == "answer"
    assert call.tries == [0]


async def test_each_further_try_has_its_number():
    call = Call(failures=2)

    assert await again(call, three_times) == "answer"
    assert call.tries == [0, 1, 2]


async def test_the_last_failure_is_raised_when_the_tries_are_over():
    call = Call(failures=5)

    with pytest.raises(UnavailableError, match="failure 3"):
        await again(call, three_times)
    assert call.tries == [0, 1, 2]


async def test_a_failure_that_no_further_try_would_mend_is_raised_at_once():
    call = Call(failures=1, error=ValueError)

    with pytest.raises(ValueError, match="failure 1"):
        await again(call, three_times)
    assert call.tries == [0]


async def test_no_further_try_is_made_when_it_would_come_too_late():
    call = Call(failures=1)

    with pytest.raises(UnavailableError, match="failure 1"):
        await patiently(lambda: call(0), until=asyncio.get_running_loop().time() - 1)
    assert call.tries == [0]
