"""Which addresses are of public hosts.

Python's `is_global` says yes to what is no public host: multicast, the deprecated site-local block, IPv4 addresses that are wrapped in
IPv6 ones (compatible ones of RFC 4291, NAT64, 6to4), blocks that were reserved after its release. So the blocks stand here, after IANA's
registries of special-purpose addresses (https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry).
Anycast services of the network itself are no hosts of users either.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

_NOT_PUBLIC_4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # shared by carriers
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local: AWS's instance metadata among it
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_UNICAST_6: Final = IPv6Network("2000::/3")
"""All of IPv6 that IANA has given out as global unicast; nothing outside of it is a public host, but for NAT64."""
_NOT_PUBLIC_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, AMT and others
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4, which wraps an IPv4 address
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""What DNS64 makes of the address of a host that has IPv4 only (RFC 6052); subnets of AWS that have no IPv4 reach such hosts by it."""


def unwrapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv4-mapped one is (`::ffff:192.0.2.1`), which sockets treat as the same."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of a host on the public internet."""
    address = unwrapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in block for block in _NOT_PUBLIC_4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _UNICAST_6 and not any(address in block for block in _NOT_PUBLIC_6)


def is_loopback(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is this machine's own."""
    return unwrapped(address).is_loopback
