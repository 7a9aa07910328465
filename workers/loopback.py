"""Which hosts nobody but this machine reaches."""

from __future__ import annotations

import ipaddress
import socket


def is_loopback(host: str) -> bool:
    """Whether every address of a host, as a server would listen on it, is of the loopback interface. An empty host means all addresses."""
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host or "0.0.0.0", None)}
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses)


def reachable_at(host: str) -> str:
    """The address at which this machine reaches a server that listens on a host: all addresses are reached on the loopback interface."""
    try:
        address = ipaddress.ip_address(host or "0.0.0.0")
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "::1" if address.version == 6 else "127.0.0.1"


def is_local_name(name: str) -> bool:
    """Whether a name can mean nothing but this machine: a loopback address, or `localhost` (RFC 6761, section 6.3). Asks no resolver."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        lowered = name.lower().rstrip(".")
        return lowered == "localhost" or lowered.endswith(".localhost")
