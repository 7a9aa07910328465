"""Samples that a Prometheus keeps (or what speaks its HTTP API: Thanos, Mimir, Amazon's managed one), which scrapes our text endpoint.

PromQL is built of the query's value; every value of a label is quoted, so that none can become a part of it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final

import httpx
import structlog

from shared.clock import Clock, SystemClock
from shared.errors import SHOWN, UnavailableError
from shared.metrics.steps import MINUTE, Slots
from shared.metrics.windows import Group, Statistic, Values, Wanted, WindowQueries, last_minute

log = structlog.get_logger()

SECONDS: Final = 30.0
"""How long an answer may take; Prometheus itself gives up after two minutes, unless it is told (`timeout`)."""
LARGEST_ANSWER: Final = 64 * 1024 * 1024
_OVER_DEVICES: Final = {Statistic.COUNT: "sum", Statistic.SUM: "sum", Statistic.MAX: "max"}
_OVER_TIME: Final = {Statistic.COUNT: "count_over_time", Statistic.SUM: "sum_over_time", Statistic.MAX: "max_over_time"}


@asynccontextmanager
async def prometheus_queries(
    url: str, *, token: str | None = None, clock: Clock | None = None, seconds: float = SECONDS
) -> AsyncIterator[WindowQueries]:
    """`MetricQueries` of the Prometheus at an address, such as `http://prometheus:9090`; `token` is a bearer token."""
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token is not None else {})
    # A Prometheus stands in the same network, and what the environment says of proxies is not meant for it.
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=httpx.Timeout(seconds + 5, connect=5.0), trust_env=False) as client:
        yield WindowQueries(PrometheusWindows(client, seconds=seconds), clock or SystemClock())


class PrometheusWindows:
    """`Windows` over Prometheus' HTTP API (`/api/v1/query_range`, by POST, since a query can be longer than an address may be)."""

    def __init__(self, client: httpx.AsyncClient, *, seconds: float = SECONDS) -> None:
        self._client = client
        self._seconds = seconds

    async def read(self, wanted: Sequence[Wanted], slots: Slots) -> list[Values]:
        """One request for each. Raises UnavailableError with what Prometheus says is wrong."""
        return list(await asyncio.gather(*(self._one(one, slots) for one in wanted)))

    async def _one(self, wanted: Wanted, slots: Slots) -> Values:
        ends = evaluated_at(slots)
        query = {"query": promql(wanted, slots.lookback), "timeout": f"{self._seconds:g}s"}
        if len(ends) == 1:
            answer = await self._ask("/api/v1/query", query | {"time": _time(ends[0])}, "vector")
        else:
            span = {"start": _time(ends[0]), "end": _time(ends[-1]), "step": str(slots.step)}
            answer = await self._ask("/api/v1/query_range", query | span, "matrix")
        return _values(answer, wanted, {_time(end): index for index, end in enumerate(ends)})

    async def _ask(self, path: str, form: Mapping[str, str], kind: str) -> Sequence[Any]:
        try:
            async with self._client.stream("POST", path, data=dict(form)) as response:
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > LARGEST_ANSWER:
                        raise UnavailableError(f"Prometheus: its answer is larger than {LARGEST_ANSWER} bytes; ask for less at a time")
        except httpx.TimeoutException as error:
            raise UnavailableError(f"Prometheus: no answer within {self._seconds:g} s") from error
        except httpx.HTTPError as error:
            raise UnavailableError(f"Prometheus: {str(error) or type(error).__name__}") from error
        return _result(response, bytes(body), kind)


def evaluated_at(slots: Slots) -> list[datetime]:
    """Where windows end: at the last whole minute before each slot, so far as one grid of that step can have them (see `windows`)."""
    shift = timedelta(seconds=int(slots.start.timestamp()) - last_minute(slots.start)) if slots.step % MINUTE == 0 else timedelta(0)
    return [time - shift for time in slots.times]


def promql(wanted: Wanted, lookback: int) -> str:
    """The statistic of the windows of so many seconds that end where the query is evaluated.

    `offset 1ms` leaves a sample at the very end to the next window. Of the two ends of what is left, version 2 of Prometheus takes in both
    and version 3 the later one; they differ by the one millisecond before the window.
    """
    matchers = [f"{label}={_quoted(value)}" for label, value in sorted(wanted.filters.items())]
    matchers += [f'{label}!=""' for label in wanted.by if label not in wanted.filters]
    window = f"{wanted.name}{{{', '.join(matchers)}}}[{lookback}s] offset 1ms"
    return f"{_OVER_DEVICES[wanted.statistic]} by ({', '.join(wanted.by)}) ({_OVER_TIME[wanted.statistic]}({window}))"


def _quoted(value: str) -> str:
    """A string of PromQL. It has Go's escapes, and JSON's are among them as long as other characters stay as they are."""
    return json.dumps(value, ensure_ascii=False)


def _time(moment: datetime) -> str:
    return str(int(moment.timestamp()))


def _result(response: httpx.Response, body: bytes, kind: str) -> Sequence[Any]:
    """The result of an answer, which says `success`, is of the kind that was asked for, and may carry warnings."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or answer.get("status") != "success":
        raise UnavailableError(_refusal(response, answer), retry_after=_retry_after(response))
    for warning in [*(answer.get("warnings") or ()), *(answer.get("infos") or ())]:
        log.warning("prometheus warns", warning=str(warning)[:SHOWN])
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) and data.get("resultType") == kind else None
    if not isinstance(result, list):
        raise UnavailableError(f"Prometheus: its answer is no {kind}")
    return result


def _refusal(response: httpx.Response, answer: Any) -> str:
    """What to tell. A body that isn't Prometheus' own is some proxy's, and of no use to anybody."""
    if isinstance(answer, dict) and answer.get("status") == "error":
        return f"Prometheus: {answer.get('errorType')}: {str(answer.get('error'))[: 4 * SHOWN]}"
    return f"Prometheus: its address answers {response.status_code} and is no Prometheus API"


def _retry_after(response: httpx.Response) -> float | None:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdigit() and len(value) < 6 else None


def _values(result: Sequence[Any], wanted: Wanted, places: Mapping[str, int]) -> Values:
    """By group; a sample counts only at its slot, and one that is no number not at all."""
    found: dict[Group, list[float | None]] = {}
    try:
        for one in result:
            group = tuple(one["metric"][label] for label in wanted.by)
            values: list[float | None] = [None] * len(places)
            for time, text in one["values"] if "values" in one else [one["value"]]:
                value = float(text)
                place = places.get(str(int(time))) if time == int(time) else None
                if place is not None and math.isfinite(value):
                    values[place] = value
            found[group] = values
    except (KeyError, TypeError, ValueError) as error:
        raise UnavailableError("Prometheus: its answer holds something else than series") from error
    return found
