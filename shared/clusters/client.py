"""Connecting to real clusters with the Kubernetes library: kubeconfig or service account, TLS, tokens, and the pool of connections.

Nothing else imports the library, which takes half a second to load; everything above speaks to a `Transport`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import aiohttp
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.rest import RESTClientObject, RESTResponse

from shared.clock import Clock
from shared.clusters.api import REQUEST_SECONDS, KubernetesApi
from shared.clusters.eks import EksCluster, EksTokens
from shared.errors import UnavailableError

POOL_SIZE: Final = 64
CONNECT_SECONDS: Final = 5.0
_ONE_GO: Final = 1024 * 1024
TOKEN_LOOK_SECONDS: Final = 60.0
"""How often a token of an exec plugin (`aws eks get-token`: 15 minutes) is looked at; the plugin runs when it is about to expire."""


@asynccontextmanager
async def connect(
    *,
    kubeconfig: Path | None,
    context: str | None = None,
    pool_size: int = POOL_SIZE,
    timeout: float = REQUEST_SECONDS,
    clock: Clock | None = None,
) -> AsyncIterator[KubernetesApi]:
    """The API server of a kubeconfig's context, or of the cluster that this process runs in. Make one for each cluster and process.

    Raises UnavailableError where the kubeconfig or the service account can't be used.
    """
    async with _connected(await _configuration(kubeconfig, context, pool_size), timeout=timeout, clock=clock) as api:
        yield api


@asynccontextmanager
async def connect_eks(
    cluster: EksCluster, tokens: EksTokens, *, pool_size: int = POOL_SIZE, timeout: float = REQUEST_SECONDS, clock: Clock | None = None
) -> AsyncIterator[KubernetesApi]:
    """The API server of an EKS cluster, with a token of AWS credentials. Raises UnavailableError where its certificates can't be used."""
    configuration = Configuration(host=cluster.endpoint, connection_pool_maxsize=pool_size)
    configuration.ca_cert_data = cluster.certificates
    # Python 3.13 wants of every certificate what those that EKS makes for clusters don't have, an authority key identifier; RFC 5280
    # doesn't want it of one that is its own root. The chain and the host's name are checked all the same.
    configuration.disable_strict_ssl_verification = True

    async def renew(renewed: Configuration) -> None:
        renewed.api_key["BearerToken"] = await tokens.token()

    configuration.api_key_prefix["BearerToken"] = "Bearer"
    configuration.refresh_api_key_hook = renew
    await renew(configuration)
    async with _connected(configuration, timeout=timeout, clock=clock) as api:
        yield api


@asynccontextmanager
async def _connected(configuration: Configuration, *, timeout: float, clock: Clock | None) -> AsyncIterator[KubernetesApi]:
    try:
        client = ApiClient(configuration)
    except ssl.SSLError as error:
        raise UnavailableError(f"the certificates of {configuration.host} can't be used: {error}") from error
    client.rest_client = _Rest(configuration)
    api = KubernetesApi(RestTransport(client), timeout=timeout, clock=clock)
    try:
        yield api
    finally:
        await api.close()


class RestTransport:
    """Requests over the library's ApiClient, which brings authentication and the pool.

    No retries of its own, since callers have theirs; but aiohttp sends a GET or DELETE again that met a closed connection of the pool.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._client.user_agent = "gpufleet"

    async def send(self, method: str, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], body: Any) -> RestAnswer:
        """Send a request."""
        _, url, all_headers, _, _ = await self._client.param_serialize(
            method, path, query_params=list(query.items()), header_params=dict(headers), auth_settings=["BearerToken"]
        )
        # Time limits are the caller's. The library would set one of five minutes on the whole body, and so end every watch.
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        try:
            answer = await self._client.call_api(method, url, header_params=all_headers, body=body, _request_timeout=limits)
        except aiohttp.ClientError as error:
            raise _broken(error) from error
        return RestAnswer(answer.response)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()


class _Rest(RESTClientObject):  # type: ignore[misc]  # mypy doesn't follow the library, which is slow to read
    """The library's pool of connections, with JSON written in UTF-8.

    The library writes it in ASCII: every letter of most scripts as six bytes, by which an object that etcd would store can be larger than
    the three mebibytes that an API server reads (`MaxRequestBodyBytes`).
    """

    pool_manager: Any

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        post_params: Any = None,
        _request_timeout: Any = None,
    ) -> RESTResponse:
        """Send a request; `body` is a JSON document or None."""
        del post_params
        if self.pool_manager is None:
            self.pool_manager = self._create_pool_manager()
        options = {
            "server_hostname": self.configuration.tls_server_name,
            "proxy": self.proxy,
            "proxy_headers": self.proxy_headers,
        }
        response = await self.pool_manager.request(
            method,
            url,
            headers=headers,
            data=_payload(body) if body is not None else None,
            timeout=_request_timeout,
            **{name: value for name, value in options.items() if value},
        )
        return RESTResponse(response)


def _payload(body: Any) -> bytes | BytesIO:
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    # aiohttp writes bytes in one go, however many.
    return data if len(data) <= _ONE_GO else BytesIO(data)


class RestAnswer:
    """An answer of aiohttp, whose errors become OSError."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""
        return self._response.headers

    async def read(self) -> bytes:
        """The whole body."""
        try:
            return await self._response.read()
        except aiohttp.ClientError as error:
            raise _broken(error) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except aiohttp.ClientError as error:
            raise _broken(error) from error

    def close(self) -> None:
        """Let go; a connection whose body was read to its end has gone back to the pool by then."""
        self._response.close()


def _broken(error: aiohttp.ClientError) -> OSError:
    return ConnectionError(str(error) or type(error).__name__)


async def _configuration(kubeconfig: Path | None, context: str | None, pool_size: int) -> Configuration:
    configuration = Configuration(connection_pool_maxsize=pool_size)
    try:
        if kubeconfig is None:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
            return configuration
        # persist_config would write to the user's file.
        loader = await kubernetes_config.load_kube_config(
            config_file=str(kubeconfig), context=context, client_configuration=configuration, persist_config=False
        )
    except (kubernetes_config.ConfigException, OSError) as error:
        raise UnavailableError(f"no cluster in {kubeconfig or 'the service account'}: {error}") from error
    configuration.refresh_api_key_hook = _Renewal(loader).renew
    return configuration


class _Renewal:
    """Keeps the token of an exec plugin fresh. The plugin is a child process; one at a time, and only when its token is about to expire."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._lock = asyncio.Lock()
        self._next_look = 0.0
        # The loader tells in no public way which kind of user it found; only those of plugins carry an expiry.
        self._expires = hasattr(loader, "exec_plugin_expiry")

    async def renew(self, configuration: Configuration) -> None:
        """Called by the library before every request."""
        now = asyncio.get_running_loop().time()
        if not self._expires or now < self._next_look:
            return
        async with self._lock:
            if now < self._next_look:
                return
            await self._loader.load_from_exec_plugin()
            configuration.api_key["BearerToken"] = self._loader.token
            self._next_look = now + TOKEN_LOOK_SECONDS
