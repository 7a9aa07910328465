"""TCP ports of the loopback interface: the only one that anything of the embedded fleet listens on, unless the API is told otherwise."""

from __future__ import annotations

import socket
from collections.abc import Iterable

LOOPBACK = "127.0.0.1"


class PortTakenError(Exception):
    """Another process listens on a port that was asked for."""

    def __init__(self, port: int, what: str, host: str = LOOPBACK) -> None:
        self.port = port
        super().__init__(f"port {port} on {host}, wanted for {what}, is taken by another process; choose another one")


def free_ports(count: int, *, avoid: Iterable[int] = ()) -> list[int]:
    """Ports that nobody listens on now, all different."""
    avoided = set(avoid)
    sockets: list[socket.socket] = []
    ports: list[int] = []
    try:
        while len(ports) < count:
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            sockets.append(one)
            one.bind((LOOPBACK, 0))
            port = one.getsockname()[1]
            if port not in avoided:
                ports.append(port)
    finally:
        for one in sockets:
            one.close()
    return ports


def require_free(port: int, what: str, host: str = LOOPBACK) -> None:
    """Raises PortTakenError unless a server could listen on the port now."""
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
    except OSError as error:
        raise PortTakenError(port, what, host) from error
