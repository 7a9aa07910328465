"""EKS clusters reached with AWS credentials alone: their address by DescribeCluster, and bearer tokens as `aws eks get-token` makes them.

A token is a presigned GetCallerIdentity of STS that names the cluster in a signed header; the cluster asks STS with it who signed it
(https://github.com/kubernetes-sigs/aws-iam-authenticator#api-authorization-from-outside-a-cluster). It holds for 15 minutes from its
signing, whatever the URL says of its own expiry; and making one asks nobody anything.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from shared.clock import Clock
from shared.errors import UnavailableError

SERVICES: Final = ("eks", "sts")
DESCRIBE_SECONDS: Final = 10.0
"""How long EKS may take to say where a cluster is, tries included: whoever asks waits, behind API Gateway for 29 s at most."""
RENEW_AFTER: Final = timedelta(minutes=10)
"""Of its 15 minutes: what is left covers a clock that goes wrong by some, and a request that waits."""
_PREFIX: Final = "k8s-aws-v1."
_CLUSTER_HEADER: Final = "x-k8s-aws-id"
_EXPIRES_SECONDS: Final = 60
"""As the command says it in the URL; an authenticator takes at most 900."""
_REACHABLE: Final = {"ACTIVE", "UPDATING"}


@dataclass(frozen=True, kw_only=True, slots=True)
class EksCluster:
    """Where a cluster's API server is, and by which certificates it is known (PEM)."""

    name: str
    region: str
    endpoint: str
    certificates: str


async def describe(eks: Any, *, name: str, region: str) -> EksCluster:
    """Ask EKS for a cluster. Raises UnavailableError, which names it, where there is none, it isn't up or may not be seen."""
    place = f"the EKS cluster {name} in {region}"
    try:
        async with asyncio.timeout(DESCRIBE_SECONDS):
            found = (await eks.describe_cluster(name=name))["cluster"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") == "ResourceNotFoundException":
            raise UnavailableError(f"there is no EKS cluster {name} in {region} (GPUFLEET_EKS_CLUSTERS)") from error
        raise UnavailableError(f"{place} can't be looked at: {error}") from error
    except TimeoutError as error:
        raise UnavailableError(f"{place} can't be looked at: EKS didn't answer within {DESCRIBE_SECONDS:g} s") from error
    except (BotoCoreError, OSError) as error:
        raise UnavailableError(f"{place} can't be looked at: {error}") from error
    if found.get("status") not in _REACHABLE or not found.get("endpoint"):
        raise UnavailableError(f"{place} is {found.get('status', 'unknown')} and has no address to use")
    try:
        certificates = base64.b64decode(found.get("certificateAuthority", {}).get("data") or "", validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UnavailableError(f"{place} has certificates that can't be read: {error}") from error
    if "BEGIN CERTIFICATE" not in certificates:
        raise UnavailableError(f"{place} has no certificates to know it by")
    return EksCluster(name=name, region=region, endpoint=found["endpoint"].rstrip("/"), certificates=certificates)


class EksTokens:
    """Bearer tokens of one cluster, each used until it is ten minutes old.

    Ages are told by the wall clock: a frozen Lambda function's monotonic clock may stand still. `sts` is a client of the cluster's region,
    so that a token doesn't depend on another one.
    """

    def __init__(self, sts: Any, *, cluster: str, clock: Clock) -> None:
        self._sts = sts
        self._cluster = cluster
        self._clock = clock
        self._token = ""
        self._made_at: datetime | None = None
        self._making = asyncio.Lock()
        sts.meta.events.register("before-sign.sts.GetCallerIdentity", self._name_cluster)

    async def token(self) -> str:
        """A token that holds for five minutes at least. Raises UnavailableError where there are no credentials to sign it with."""
        async with self._making:
            now = self._clock.now()
            if self._made_at is None or not timedelta(0) <= now - self._made_at < RENEW_AFTER:
                self._token, self._made_at = await self._make(), now
            return self._token

    async def _make(self) -> str:
        try:
            url: str = await self._sts.generate_presigned_url("get_caller_identity", ExpiresIn=_EXPIRES_SECONDS, HttpMethod="GET")
        except (BotoCoreError, ClientError, OSError, TimeoutError) as error:
            raise UnavailableError(f"no token for the EKS cluster {self._cluster}: {error}") from error
        return _PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")

    def _name_cluster(self, request: Any, **_: Any) -> None:
        request.headers[_CLUSTER_HEADER] = self._cluster
