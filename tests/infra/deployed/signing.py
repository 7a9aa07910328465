"""Requests to the HTTP API as its IAM authorizer wants them: signed for `execute-api`."""

from __future__ import annotations

from collections.abc import Generator

import httpx
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials


class Signed(httpx.Auth):
    """Signs with some credentials. A header that an HTTP client adds later is not signed, which is allowed."""

    requires_request_body = True

    def __init__(self, key: str, secret: str, token: str | None = None, *, region: str) -> None:
        self._signer = SigV4Auth(Credentials(key, secret, token), "execute-api", region)

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        kept = {name: value for name, value in request.headers.items() if name in {"content-type", "idempotency-key"}}
        signed = AWSRequest(method=request.method, url=str(request.url), data=request.content, headers=kept)
        self._signer.add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        yield request
