"""Webhooks: endpoints that take, refuse, mend and are gone."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from shared.webhooks.endpoints import STRIKES
from tests.infra.privileges.visit.visitor import NAMESPACE, Visitor, until

ROUND = 30
"""What the endpoint that mends takes before it breaks again."""


async def webhooks_are_made(visitor: Visitor) -> None:
    """One that takes everything, two that are gone, one of them only at a second try, one that mends, and one where nobody is."""
    events = ["job.queued", "job.started", "job.completed", "job.failed", "job.cancelled"]
    ends = [f"{visitor.gone.url}/{path}" for path in ("gone", "later", "mends")]
    for url in (visitor.receiver.url, *ends, "http://127.0.0.1:9/nobody"):
        heard = ["job.cancelled"] if url.endswith("/later") else events
        body = {"url": url, "events": heard, "namespace": NAMESPACE, "secret": visitor.receiver.secret}
        await visitor.ask("POST", "/api/v1/webhooks", status=201, json=body)


async def webhooks_are_administered(visitor: Visitor) -> None:
    """Tried, disabled, enabled, given another secret, told again, deleted."""
    listed = (await visitor.ask("GET", "/fleet/v1/webhooks", params={"namespace": NAMESPACE}))["webhooks"]
    await visitor.ask("GET", "/fleet/v1/webhooks")
    taking, refusing = (next(one["id"] for one in listed if one["url"].endswith(end)) for end in ("/hook", "/nobody"))
    await until(lambda: _told(visitor, taking), "a delivery was taken")
    await until(lambda: _disabled(visitor, 2), "both that are gone are disabled")
    await visitor.ask("POST", f"/fleet/v1/webhooks/{taking}/test")
    await visitor.ask("POST", f"/fleet/v1/webhooks/{refusing}/disable", json={"reason": "nobody is there"})
    await until(lambda: _told(visitor, refusing, "failed"), "deliveries of a disabled webhook have failed")
    await visitor.ask("POST", f"/fleet/v1/webhooks/{refusing}/enable")
    await visitor.ask("POST", f"/fleet/v1/webhooks/{refusing}/redeliver", json={})
    first = (await _told(visitor, taking))[0]
    path = f"/fleet/v1/webhooks/{taking}/deliveries/{first['job_id']}/{first['number']}"
    await visitor.ask("GET", path)
    await visitor.ask("POST", f"{path}/redeliver")
    await visitor.ask("POST", f"/fleet/v1/webhooks/{taking}/rotate", json={})
    for webhook in listed:
        await visitor.ask("DELETE", f"/api/v1/webhooks/{webhook['id']}")


async def an_endpoint_mends(visitor: Visitor) -> None:
    """What was put off while an endpoint was being spared is let go by both who deliver.

    Who of them does is chance, and there is half a minute for it each time that the endpoint mends: so it breaks again until both have.
    """
    await until(lambda: _backlog_is_read(visitor), "what was put off for an endpoint that mends is told by both who deliver", every=1.0)


async def _backlog_is_read(visitor: Visitor) -> bool:
    readers = {one.caller for one in visitor.fleet.asked() if one.resource.endswith("/index/by_namespace")}
    if {"gpufleet-webhooks", "gpufleet-webhooks-sweep"} <= readers:
        return True
    if visitor.gone.taken >= ROUND:
        visitor.gone.breaks()
    await visitor.submit("told")  # so that there is something to tell
    return False


async def _disabled(visitor: Visitor, count: int) -> bool:
    found = (await visitor.ask("GET", "/fleet/v1/webhooks"))["webhooks"]
    return sum(one["disabled_at"] is not None for one in found) >= count


async def _told(visitor: Visitor, webhook: str, state: str = "delivered") -> list[dict[str, Any]]:
    found = await visitor.ask("GET", f"/fleet/v1/webhooks/{webhook}/deliveries", params={"state": state})
    return list(found["deliveries"])


class Gone:
    """A server whose path `/gone` is gone, and `/later` too after a first try that it asks to make again in five seconds.

    `/mends` fails so often that it is spared, and then is well until it `breaks` again.
    """

    def __init__(self) -> None:
        self._tried = False
        self._failures = STRIKES
        self.taken = 0
        """What `/mends` took since it broke."""
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Gone:
        app = web.Application()
        app.router.add_post("/{path}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def breaks(self) -> None:
        """`/mends` fails again for a while."""
        self._failures, self.taken = STRIKES, 0

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == "/later" and not self._tried:
            self._tried = True
            return web.Response(status=503, headers={"Retry-After": "5"})
        if request.path == "/mends":
            if self._failures > 0:
                self._failures -= 1
                return web.Response(status=503)
            self.taken += 1
            return web.Response(status=204)
        return web.Response(status=410)
