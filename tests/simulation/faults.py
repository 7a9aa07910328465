"""What can go wrong at a call, and the gate that every call of every process passes.

Each seed draws how often something goes wrong and which kinds of faults it knows at all, so that some runs are drowned in one kind and
others are nearly well. After `calm_at` nothing goes wrong any more, and the system has to come to rest.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any, TypeVar

from tests.simulation.processes import KilledError, Life
from tests.simulation.trace import Trace

T = TypeVar("T")


class Fault(StrEnum):
    """Everything that is injected."""

    SLOW = "slow"  # the answer takes seconds
    FROZEN = "frozen"  # the whole process stands still for longer than a lease, before or after the effect
    LOST = "lost answer"  # the effect happened, the answer never came
    LATE = "late effect"  # the caller's patience ended before the effect, which happens all the same
    REFUSED = "refused"  # throttled, a server error, no connection: no effect
    REPEATED = "repeated by the client library"  # sent twice; the second answer is what the caller gets
    CRASH_BEFORE = "crash before"  # the process is killed, no effect
    CRASH_AFTER = "crash after"  # the process is killed when the effect has happened
    BUSY = "transaction conflict"  # DynamoDB cancels a transaction that met another one
    STALE = "stale index"  # a secondary index answers as it was a moment ago
    DUPLICATE = "duplicate message"  # SQS delivers a message that somebody already has
    DELAYED = "delayed message"  # SQS takes its time
    CONFLICT = "409 conflict"  # the API server could not apply a patch
    TOO_MANY = "429 too many requests"  # with Retry-After
    GATEWAY_TIMEOUT = "504 after the effect"
    WATCH_EXPIRED = "watch expired"  # 410 inside a 200
    WATCH_CLOSED = "watch closed early"
    OUTAGE = "outage"  # a service answers nobody, or not this process, for a while
    CLOCK_JUMP = "clock jump"


COMMON = (Fault.SLOW, Fault.FROZEN, Fault.LOST, Fault.LATE, Fault.REFUSED, Fault.CRASH_BEFORE, Fault.CRASH_AFTER)
"""What can happen to any request."""

_RARE = {Fault.FROZEN: 0.3, Fault.CRASH_BEFORE: 0.4, Fault.CRASH_AFTER: 0.4, Fault.SLOW: 2.0}
_RATES = (0.0, 0.01, 0.03, 0.06, 0.12, 0.25)


class Faults:
    """Decides, from a seed, what goes wrong."""

    def __init__(self, chance: random.Random, *, loop: asyncio.AbstractEventLoop, trace: Trace, calm_at: float) -> None:
        self.chance = chance
        self.calm_at = calm_at
        self._loop = loop
        self._trace = trace
        self._outages: dict[tuple[str, str | None], float] = {}
        self.rate = chance.choice(_RATES)
        known = [fault for fault in Fault if chance.random() < 0.7]
        self._weights = {fault: _RARE.get(fault, 1.0) * chance.choice((0.3, 1.0, 3.0)) for fault in known}

    @property
    def calm(self) -> bool:
        """Whether the time of faults is over."""
        return self._loop.time() >= self.calm_at

    def choose(self, possible: Collection[Fault]) -> Fault | None:
        """A fault for a call that can suffer these; mostly none."""
        if self.calm or self.chance.random() >= self.rate:
            return None
        known = [fault for fault in possible if fault in self._weights]
        if not known:
            return None
        return self.chance.choices(known, [self._weights[fault] for fault in known])[0]

    def begin_outage(self, service: str, who: str | None, seconds: float) -> None:
        """A service is away for a time, for one process or for all. Nothing is away any more when the time of faults is over."""
        self._outages[service, who] = min(self._loop.time() + seconds, self.calm_at)

    def out(self, service: str, who: str) -> bool:
        """Whether a service is away for a process."""
        now = self._loop.time()
        return bool(self._outages) and any(self._outages.get((service, one), 0.0) > now for one in (None, who))

    def happens(self, fault: Fault) -> bool:
        """Whether this one fault happens now."""
        return self.choose((fault,)) is fault

    def tell(self, who: str, fault: Fault, where: str) -> None:
        """A fault is injected."""
        self._trace.count(f"fault: {fault}")
        self._trace.step(who, f"!! {fault}: {where}")


class Gate:
    """The way of one process's life to one service."""

    def __init__(self, service: str, life: Life, faults: Faults, trace: Trace) -> None:
        self.service = service
        self.life = life
        self.faults = faults
        self._loop = life.process.loop
        self._trace = trace

    async def call(
        self,
        label: str,
        effect: Callable[[], T],
        *,
        possible: Collection[Fault] = COMMON,
        failure: Callable[[Fault], BaseException | T],
    ) -> T:
        """Send a request: `effect` is what it does, at one instant. `failure` is the answer that a fault gives: an exception or a value."""
        await self.life.thaw()
        chance = self.faults.chance
        fault = self.faults.choose(possible)
        if self.faults.out(self.service, self.life.process.name):
            fault = Fault.REFUSED
        elif fault is not None:
            self.faults.tell(self.life.name, fault, label)
        if fault is Fault.CRASH_BEFORE:
            self.crash()
        freeze_first = fault is Fault.FROZEN and chance.random() < 0.5
        if freeze_first:
            await self._freeze()
        await asyncio.sleep(self.latency(slow=fault is Fault.SLOW))
        self.life.check()
        if fault is Fault.LATE:
            return await self._too_late(label, effect, failure)
        if fault in _WITHOUT_EFFECT:
            self._trace.step(self.life.name, f"{label} -> {fault}")
            return _answer(failure(fault))
        outcome = self._carry_out(label, effect)
        if fault is Fault.REPEATED:
            await asyncio.sleep(self.latency(slow=chance.random() < 0.3))
            self.life.check()
            outcome = self._carry_out(f"{label} (again)", effect)
        if fault is Fault.CRASH_AFTER:
            self.crash()
        if fault is Fault.FROZEN and not freeze_first:
            await self._freeze()
        await asyncio.sleep(self.latency())
        await self.life.thaw()
        return _answer(failure(fault)) if fault in _ANSWER_LOST else _answer(outcome)

    def latency(self, *, slow: bool = False) -> float:
        """How long one way takes: milliseconds, and seconds where it is slow."""
        return self.faults.chance.uniform(1.0, 8.0) if slow else self.faults.chance.uniform(0.001, 0.02)

    def crash(self) -> None:
        """Kill the process, the caller among its tasks."""
        self.life.kill()
        raise KilledError(self.life.name)

    async def _freeze(self) -> None:
        self.life.freeze(self.faults.chance.choice((10.0, 61.0, 90.0, 200.0)) * self.faults.chance.uniform(0.9, 1.3))
        await self.life.thaw()

    async def _too_late(self, label: str, effect: Callable[[], T], failure: Callable[[Fault], BaseException | T]) -> T:
        """The request hangs somewhere on its way; it arrives when its sender no longer counts on it, or even lives."""
        chance = self.faults.chance
        patience = chance.uniform(1.0, 25.0)
        self._loop.call_later(
            patience + chance.choice((0.05, 1.0, 20.0, 90.0)) * chance.random(), self._carry_out, f"{label} (late)", effect
        )
        await asyncio.sleep(patience)
        await self.life.thaw()
        return _answer(failure(Fault.LATE))

    def _carry_out(self, label: str, effect: Callable[[], T]) -> Any:
        """The effect's answer, or the error that is its answer."""
        try:
            outcome: Any = effect()
        except Exception as error:  # noqa: BLE001 - whatever the service answers with, it is the caller's
            outcome = error
        self._trace.step(self.life.name, f"{label} -> {_shown(outcome)}")
        return outcome


_WITHOUT_EFFECT = frozenset({Fault.REFUSED, Fault.BUSY, Fault.CONFLICT, Fault.TOO_MANY})
_ANSWER_LOST = frozenset({Fault.LOST, Fault.GATEWAY_TIMEOUT})


def _answer(outcome: Any) -> Any:
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _shown(outcome: Any) -> str:
    text = f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) else getattr(outcome, "shown", None) or "ok"
    return text if len(text) <= 140 else f"{text[:137]}..."
