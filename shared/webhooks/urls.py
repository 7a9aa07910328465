"""Which URLs a webhook may have, so that nobody can make the fleet speak to what only the fleet can reach (SSRF).

A URL is taken apart here, by one grammar, and never again: whoever sends to it uses the host, the port and the addresses that were
checked, and asks again before each attempt, since a name may have come to mean another address. Redirects must not be followed.

What is kept and shown is `Target.url`, put together of those parts: readers of URLs differ about full-width digits
and ideographic dots in a host, and none about `https://1.1.1.1/`.
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
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
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

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The URL in its normal form: only what was checked, a default port left out (RFC 3986, 6.2). Of itself it is the same."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """The host with its port, as the Host header has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

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

    `allowed_hosts` are the only ones there may be, where any are named. `local` allows this machine's own loopback interface, with http
    and every port, as the embedded fleet and tests need it; for all others nothing changes.
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
        self._allowed = frozenset(map(_allowed_host, allowed_hosts))
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
        if not all(map(is_loopback, addresses)):
            self._require_public_form(target)
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
        target = Target(scheme=scheme, host=_host(split[1]), port=self._port(scheme, split[2]), path=path)
        if len(target.url) > MAX_URL:  # names become longer in ASCII
            raise UrlRefusedError(f"must have at most {MAX_URL} characters, its host in ASCII")
        if self._allowed and target.host not in self._allowed:
            raise UrlRefusedError("its host must be one that this installation allows (GPUFLEET_WEBHOOK_ALLOWED_DOMAINS)")
        return target

    def _port(self, scheme: str, written: str | None) -> int:
        # None, or a colon with nothing behind it, which means the same (RFC 3986, 3.2.3).
        port = int(written) if written else _DEFAULT_PORTS[scheme]
        if not self._local:
            self._require_port(port)
        elif not 1 <= port <= 65535:
            raise UrlRefusedError("its port must be from 1 to 65535")
        return port

    def _require_public_form(self, target: Target) -> None:
        if target.scheme != "https":
            raise UrlRefusedError("must begin with https://; http is for the loopback interface alone")
        self._require_port(target.port)

    def _require_port(self, port: int) -> None:
        if port not in self._ports:
            raise UrlRefusedError(f"its port must be {' or '.join(map(str, sorted(self._ports)))} (GPUFLEET_WEBHOOK_PORTS)")

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


def _allowed_host(written: str) -> str:
    """A host of a setting as targets have it; an IPv6 address may stand there without brackets."""
    host = written.strip()
    try:
        return _host(f"[{host}]" if ":" in host and not host.startswith("[") else host)
    except UrlRefusedError:
        return host.lower()  # no target has such a one


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
