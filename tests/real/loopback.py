"""Brings up the loopback device of a fresh network namespace, which begins with it down, and then becomes another program."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import sys

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
_REQUEST = "16sh14x"


def bring_up(device: str = "lo") -> None:
    """What `ip link set lo up` does, where there is no `ip`."""
    name = device.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        _, flags = struct.unpack(_REQUEST, fcntl.ioctl(control, SIOCGIFFLAGS, struct.pack(_REQUEST, name, 0)))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack(_REQUEST, name, flags | IFF_UP))


if __name__ == "__main__":
    bring_up()
    os.execv(sys.argv[1], sys.argv[1:])
