"""Requests signed with AWS credentials (Signature Version 4), for an API behind API Gateway whose authorizer is IAM.

Where the address is one of API Gateway's own and no key is given, each request is signed; of an address of one's own the environment
names the region, in `GPUFLEET_SIGN_REGION`. Credentials come from where the AWS CLI takes them: environment, profile, SSO, role.

Rules: IAM User Guide, "Create a signed AWS API request"; the service that a request to API Gateway is signed for is `execute-api`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import Any, Final

import httpx

from workers.cli.failures import CommandError, ExitCode

REGION_VARIABLE: Final = "GPUFLEET_SIGN_REGION"
SERVICE: Final = "execute-api"
_GATEWAY: Final = re.compile(r"[a-z0-9]+\.execute-api\.(?P<region>[a-z]{2}(?:-[a-z]+)+-[0-9])\.amazonaws\.com(?:\.cn)?")
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-[0-9]")


class SigningAuth(httpx.Auth):
    """Signs each request at the moment at which it is sent, so that one that is sent again has a time of its own."""

    requires_request_body = True

    def __init__(self, credentials: Any, region: str) -> None:
        self._credentials = credentials
        self._region = region

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Raises CommandError where the credentials have ended and can't be renewed."""
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        # A space is %20 to whoever checks the signature, and a plus to whoever encodes forms.
        request.url = request.url.copy_with(query=request.url.query.replace(b"+", b"%20"))
        signed = AWSRequest(method=request.method, url=str(request.url), data=request.content)
        try:
            SigV4Auth(self._credentials.get_frozen_credentials(), SERVICE, self._region).add_auth(signed)
        except BotoCoreError as error:
            raise _no_credentials(str(error)) from error
        request.headers.update(dict(signed.headers.items()))
        yield request


def signing_for(api: str, key: str | None) -> SigningAuth | None:
    """What signs requests to an API; None where none is needed. Raises CommandError for a region that is none, and without credentials."""
    region = _region(httpx.URL(api).host)
    if key or region is None:
        return None
    from botocore.exceptions import BotoCoreError
    from botocore.session import get_session

    try:
        credentials = get_session().get_credentials()
    except BotoCoreError as error:
        raise _no_credentials(str(error)) from error
    if credentials is None:
        raise _no_credentials("none were found")
    return SigningAuth(credentials, region)


def _region(host: str) -> str | None:
    named = os.environ.get(REGION_VARIABLE)
    if not named:
        found = _GATEWAY.fullmatch(host)
        return found["region"] if found else None
    if not _REGION.fullmatch(named):
        raise CommandError.at(REGION_VARIABLE, named, "must be an AWS region, such as us-east-1")
    return named


def _no_credentials(why: str) -> CommandError:
    hint = "requests to API Gateway are signed with them unless a key is given (--key, GPUFLEET_KEY)"
    return CommandError(f"AWS credentials: {why}; {hint}", code=ExitCode.USAGE)
