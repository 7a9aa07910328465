"""An EKS that knows one cluster, and that cluster's API server behind TLS, which lets nobody in whom STS doesn't know.

What stands in for EKS is its REST call; the certificates are real ones, and a token is verified as the authenticator of EKS does it:
decoded, held against its rules, and its URL asked of STS, which is the emulator's.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
from aiohttp import ClientSession, web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from shared.clusters.eks import RENEW_AFTER

PREFIX = "k8s-aws-v1."
LIFETIME = timedelta(minutes=15)
HOP_BY_HOP = {"transfer-encoding", "connection", "content-length", "content-encoding"}


@dataclass
class EksStage:
    """The cluster `name`: what EKS tells of it can be changed; who asked the API server, and with which tokens, is kept."""

    name: str
    region: str
    sts: str
    upstream: str
    described: dict[str, Any]
    eks: str = ""
    descriptions: int = 0
    callers: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """EKS answers while it is set."""

    async def describe(self, request: web.Request) -> web.Response:
        """GET /clusters/{name}."""
        self.descriptions += 1
        await self.answers.wait()
        if request.match_info["name"] != self.name:
            headers = {"x-amzn-ErrorType": "ResourceNotFoundException"}
            return web.json_response({"message": "No cluster found"}, status=404, headers=headers)
        return web.json_response({"cluster": self.described})

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Any request to the API server."""
        fault, caller = await self.caller_of(request.headers.get("Authorization", ""))
        if fault is not None:
            self.refused.append(fault)
            return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}, status=401)
        self.callers.append(caller)
        async with (
            ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                self.upstream + request.raw_path,
                headers={"Accept": "application/json", "Content-Type": request.headers.get("Content-Type", "application/json")},
                data=await request.read() or None,
            ) as answer,
        ):
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            return web.Response(status=answer.status, headers=headers, body=await answer.read())

    async def caller_of(self, authorization: str) -> tuple[str | None, str]:
        """What is wrong with a token, or whose it is."""
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or not token.startswith(PREFIX):
            return f"no token: {authorization[:20]!r}", ""
        self.tokens.append(token)
        encoded = token.removeprefix(PREFIX)
        url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if fault := self.fault_of(url.scheme + "://" + url.netloc, query):
            return fault, ""
        if self.signature(url.geturl(), query["X-Amz-Date"]) != query["X-Amz-Signature"]:  # which the emulator's STS doesn't look at
            return "not signed for this cluster", ""
        async with ClientSession() as session, session.get(url.geturl(), headers={"x-k8s-aws-id": self.name}) as answer:
            found = re.search(r"<Arn>(.*?)</Arn>", await answer.text())
        return (None, found[1]) if found else (f"STS says {answer.status}", "")

    def signature(self, url: str, date: str) -> str:
        """What the signature of a URL must be, with the header that names this cluster."""
        signer = SigV4Auth(Credentials("test", "test"), "sts", self.region)
        request = AWSRequest("GET", url.partition("&X-Amz-Signature=")[0], headers={"x-k8s-aws-id": self.name})
        request.context["timestamp"] = date
        return signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)

    def fault_of(self, address: str, query: Mapping[str, str]) -> str | None:
        """What the authenticator finds wrong before it asks STS."""
        if address != self.sts:
            return f"not of this region's STS: {address}"
        if query.get("Action") != "GetCallerIdentity":
            return f"another action: {query.get('Action')}"
        if "x-k8s-aws-id" not in query.get("X-Amz-SignedHeaders", "").split(";"):
            return "names no cluster"
        if not 0 < int(query.get("X-Amz-Expires", 0)) <= 900:
            return "no proper expiry"
        if f"/{self.region}/sts/" not in query["X-Amz-Credential"]:
            return "signed for another region"
        signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        return "too old" if self.now() - signed >= LIFETIME else None


@asynccontextmanager
async def eks_stage(*, upstream: str, sts: str, name: str, region: str) -> AsyncIterator[EksStage]:
    """The stage over a simulated cluster's URL and the emulator's."""
    assert RENEW_AFTER < LIFETIME
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    stage = EksStage(name=name, region=region, sts=sts, upstream=upstream, described={})
    async with AsyncExitStack() as stack:
        address = await _listening(stack, stage.serve, "/{path:.*}", context)
        stage.eks = await _listening(stack, stage.describe, "/clusters/{name}", None)
        certificates = base64.b64encode(authority.cert_pem.bytes()).decode()
        stage.described |= {"name": name, "status": "ACTIVE", "endpoint": address, "certificateAuthority": {"data": certificates}}
        stage.answers.set()
        yield stage


async def _listening(stack: AsyncExitStack, handler: Any, path: str, context: ssl.SSLContext | None) -> str:
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    return f"http{'s' if context else ''}://127.0.0.1:{runner.addresses[0][1]}"
