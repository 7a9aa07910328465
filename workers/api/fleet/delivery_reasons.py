"""Why deliveries are held: behind which earlier event of their job, for the same webhook."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from shared.store.deliveries import Deliveries, DeliveryKey, key_of
from shared.webhooks.deliveries import Delivery, DeliveryState

AT_ONCE: Final = 16
"""Jobs that are asked for at the same time."""
FREE: Final = "nothing is before it any more; it is about to go"


async def why_held(
    deliveries: Deliveries, shown: Collection[Delivery], *, read: Collection[Delivery] | None = None
) -> Mapping[DeliveryKey, str]:
    """The reason of each delivery that is held. `read` is all that was read with those that are `shown`: what it tells isn't asked for.

    Requests: a query for each job of which it doesn't tell an attempt that is due or under way. Raises UnavailableError.
    """
    held = [delivery for delivery in shown if delivery.state is DeliveryState.HELD]
    at_hand = shown if read is None else read
    found: dict[DeliveryKey, Delivery | None] = {key_of(one): _earliest(one, at_hand) for one in held}
    # What is held itself doesn't say that nothing is before it.
    open_ones = [one for one in held if (earlier := found[key_of(one)]) is None or earlier.state is DeliveryState.HELD]
    room = asyncio.Semaphore(AT_ONCE)

    async def ask(webhook_id: str, job_id: str) -> list[Delivery]:
        async with room:
            return await deliveries.of_job(webhook_id, job_id)

    jobs = list(dict.fromkeys((one.webhook_id, one.job_id) for one in open_ones))
    told = dict(zip(jobs, await asyncio.gather(*(ask(*job) for job in jobs)), strict=True))
    for one in open_ones:
        found[key_of(one)] = _earliest(one, told[one.webhook_id, one.job_id])
    return {key: f"behind {earlier.message_id}" if earlier is not None else FREE for key, earlier in found.items()}


def _earliest(delivery: Delivery, among: Iterable[Delivery]) -> Delivery | None:
    """The first of the same job and webhook that is before a delivery and on its way."""
    before = [
        one
        for one in among
        if (one.webhook_id, one.job_id) == (delivery.webhook_id, delivery.job_id) and one.number < delivery.number and not one.state.final
    ]
    return min(before, key=lambda one: one.number, default=None)
