"""Which URLs a webhook may have, so that nobody can make the fleet speak to what only the fleet can reach (SSRF).

A URL is taken apart here, by one grammar, and never again: whoever sends to it uses the host, the port and the addresses that were
checked, and asks again before each attempt, since a name may have come to mean another address. Redirects must not be followed.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from shared.errors import FleetError
from shared.settings import Settings
from shared.webhooks.addresses import is_loopback, is_public, unwrapped

MAX_URL: Final = 2048
"""Characters of a URL."""
RESOLVE_SECONDS: Final = 5.0
"""How long a name is looked up."""
PORTS: Final = (443, 8443)
"""The ports of https endpoints, unless an installation says otherwise."""
_LOOKUPS: Final = 32
"""Names looked up at the same time. They have threads of their own: a resolver that hangs must hold up nothing else."""

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a host, as text. Blocks; raises OSError."""

_UNFIT: Final = re.compile(r"[^\x21-\x5b\x5d-\x7e\u00a1-\U0010ffff]")
"""Blanks, control characters and backslashes, of which every reader of URLs makes something else."""
_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,9}))?")
_HOST_NAME: Final = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0[xX][0-9a-fA-F]*)")
"""A host whose last part is a number: old resolvers read such an address in many forms (`127.1`, `0x7f000001`, `2130706433`)."""


class UrlRefusedError(FleetError):
    """A URL may not be a webhook's; `rule` says why. `unresolved`: its host has no address now, and may have one later."""

    def __init__(self, rule: str, *, unresolved: bool = False) -> None:
        self.rule = rule
        self.unresolved = unresolved
        super().__init__(f"Invalid webhook URL: {rule}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A URL taken apart: `host` is a name in lower case and ASCII, or an address; `path` is the rest, with its query."""

    url: str
    scheme: str
    host: str
    port: int
    path: str

    @property
    def address(self) -> Address | None:
        """The host, where it is an address."""
        try:
            return ip_address(self.host)
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A URL that may be sent to, at one of these addresses and no other; TLS and the Host header go by the target's host."""

    target: Target
    addresses: tuple[Address, ...]


def _system(host: str, port: int) -> list[str]:
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class UrlRules:
    """The rules of one installation.

    `allowed_hosts` are the only ones there may be, where any are named. `local` allows http, every port, and this machine's own loopback
    interface, as the embedded fleet and tests need it.
    """

    def __init__(
        self,
        *,
        allowed_hosts: Collection[str] = (),
        ports: Collection[int] = PORTS,
        local: bool = False,
        resolve: Resolve = _system,
    ) -> None:
        self._ports = frozenset(ports)
        self._lookups: dict[tuple[str, int], asyncio.Future[Sequence[str]]] = {}
        self._allowed = frozenset(host.strip().rstrip(".").lower() for host in allowed_hosts)
        self._local = local
        self._resolve = resolve
        self._threads = ThreadPoolExecutor(max_workers=_LOOKUPS, thread_name_prefix="webhook-dns")

    @classmethod
    def of(cls, settings: Settings) -> UrlRules:
        """The rules that an installation has set."""
        return cls(allowed_hosts=settings.webhook_allowed_domains, ports=settings.webhook_ports, local=settings.webhook_local)

    async def check(self, url: str) -> Endpoint:
        """The endpoint behind a URL, looked up now. To be called again before each attempt. Raises UrlRefusedError."""
        target = self.parse(url)
        literal = target.address
        addresses = (literal,) if literal is not None else await self._addresses(target)
        for address in addresses:
            if not (is_public(address) or (self._local and is_loopback(address))):
                which = f"{address} is none" if literal is not None else f"{target.host} has {address}"
                raise UrlRefusedError(f"its host must have public addresses only, and {which}")
        return Endpoint(target=target, addresses=tuple(dict.fromkeys(map(unwrapped, addresses))))

    def parse(self, url: str) -> Target:
        """Take a URL apart, without looking anything up. Raises UrlRefusedError."""
        if len(url) > MAX_URL:
            raise UrlRefusedError(f"must have at most {MAX_URL} characters")
        if _UNFIT.search(url):
            raise UrlRefusedError("must not contain blanks, control characters or backslashes")
        schemes = ("https", "http") if self._local else ("https",)
        parts = _PARTS.match(url)
        if parts is None or parts[1].lower() not in schemes:
            raise UrlRefusedError(f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        scheme, authority, path = parts[1].lower(), parts[2], parts[3]
        if parts.end() != len(url):
            raise UrlRefusedError("must not have a fragment (#)")
        if "@" in authority:
            raise UrlRefusedError("must not have a user or a password")
        if not path.isascii():
            raise UrlRefusedError("its path and query must be ASCII; write other characters as %XX")
        split = _AUTHORITY.fullmatch(authority)
        if split is None:
            raise UrlRefusedError("must have a host, and after a colon a port")
        target = Target(url=url, scheme=scheme, host=_host(split[1]), port=self._port(scheme, split[2]), path=path)
        if self._allowed and target.host not in self._allowed:
            raise UrlRefusedError("its host must be one that this installation allows (GPUFLEET_WEBHOOK_ALLOWED_DOMAINS)")
        return target

    def _port(self, scheme: str, written: str | None) -> int:
        if not written:  # none, or a colon with nothing behind it, which means the same (RFC 3986, 3.2.3)
            return 443 if scheme == "https" else 80
        port = int(written)
        if self._local:
            if not 1 <= port <= 65535:
                raise UrlRefusedError("its port must be from 1 to 65535")
        elif port not in self._ports:
            raise UrlRefusedError(f"its port must be {' or '.join(map(str, sorted(self._ports)))} (GPUFLEET_WEBHOOK_PORTS)")
        return port

    async def _addresses(self, target: Target) -> tuple[Address, ...]:
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await asyncio.shield(self._lookup(target.host, target.port))
        except TimeoutError as error:
            raise UrlRefusedError(f"its host {target.host} could not be looked up in {RESOLVE_SECONDS:.0f} s", unresolved=True) from error
        except (OSError, UnicodeError) as error:
            raise UrlRefusedError(f"its host {target.host} can't be found", unresolved=True) from error
        if not found:
            raise UrlRefusedError(f"its host {target.host} has no address", unresolved=True)
        return tuple(map(ip_address, found))

    def _lookup(self, host: str, port: int) -> asyncio.Future[Sequence[str]]:
        """The lookup of a name that is under way, or a new one: a name whose servers hang occupies one thread, however many ask for it."""
        found = self._lookups.get((host, port))
        loop = asyncio.get_running_loop()
        if found is None or found.get_loop() is not loop:
            found = loop.run_in_executor(self._threads, self._resolve, host, port)
            self._lookups[host, port] = found
            found.add_done_callback(lambda lookup: self._looked_up(host, port, lookup))
        return found

    def _looked_up(self, host: str, port: int, lookup: asyncio.Future[Sequence[str]]) -> None:
        if self._lookups.get((host, port)) is lookup:
            del self._lookups[host, port]
        if not lookup.cancelled():
            lookup.exception()  # seen, though nobody may be waiting for it any more


def _host(written: str) -> str:
    if written.startswith("["):
        try:
            address = IPv6Address(written[1:-1])
        except ValueError:
            address = None
        if address is None or address.scope_id is not None:
            raise UrlRefusedError("what is in brackets must be an IPv6 address without a zone")
        return str(address)
    host = written
    if not host.isascii():
        import idna  # a third of a megabyte of tables, for few

        try:
            host = idna.encode(host, uts46=True, std3_rules=True).decode()
        except idna.IDNAError:
            raise UrlRefusedError("its host must be a name that DNS can hold (IDNA 2008)") from None
    host = host.lower().removesuffix(".")
    if _NUMERIC.fullmatch(host):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise UrlRefusedError("an IPv4 address must be four decimal numbers without leading zeros") from None
    if _HOST_NAME.fullmatch(host) is None:
        raise UrlRefusedError("must have a host: a name as DNS has it, or an address")
    return host
