"""`python -m workers.probe [livez|readyz|URL]`: asks the worker of this container how it is; the health check of the image.

A URL asks another program, whose image has no client of HTTP. Ends with 0 where it is well, with 1 and the reason where it isn't. The
standard library alone, since it runs again and again.
"""

from __future__ import annotations

import argparse
import http.client
import os
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from workers.loopback import reachable_at

SECONDS = 4.0


def ask(which: str, variables: Mapping[str, str]) -> tuple[bool, str]:
    """Whether the worker whose environment has these variables is well, and what it says."""
    port = variables.get("GPUFLEET_PROBE_PORT", "")
    if not port.isdecimal():
        return False, "GPUFLEET_PROBE_PORT must be the port at which the worker answers probes"
    return _get(reachable_at(variables.get("GPUFLEET_PROBE_HOST", "127.0.0.1")), int(port), f"/{which}")


def ask_url(url: str) -> tuple[bool, str]:
    """Whether a program that answers at a URL is well, and what it says. Raises ValueError for what is no `http` URL."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        raise ValueError(f"{url}: must be an http URL")
    return _get(parts.hostname, parts.port or 80, parts.path or "/")


def _get(host: str, port: int, path: str) -> tuple[bool, str]:
    connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == http.HTTPStatus.OK, answer.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer at {host}:{port}: {error or type(error).__name__}"
    finally:
        connection.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m workers.probe", description=__doc__)
    parser.add_argument("which", nargs="?", default="readyz", help="livez, readyz, or the http URL of another program")
    which = parser.parse_args(arguments).which
    if which in ("livez", "readyz"):
        well, told = ask(which, os.environ)
    else:
        try:
            well, told = ask_url(which)
        except ValueError as error:
            parser.error(str(error))
    sys.stdout.write(f"{told}\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
