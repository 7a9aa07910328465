"""`python -m bench.stub_aws PORT`: AWS that says yes at once, enough of DynamoDB and SQS for submissions, and nothing behind it.

For measurements of what a process does between its calls: the emulator would take most of the time of any server that calls it, and so
make a slow one look like a fast one. It is a protocol on the bare event loop, since every microsecond that it takes is one that hides ours.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Final

_ANSWERS: Final = {
    b"TransactWriteItems": ("application/x-amz-json-1.0", {}),
    b"GetQueueUrl": ("application/x-amz-json-1.0", {"QueueUrl": "http://127.0.0.1/000000000000/bench"}),
    b"SendMessage": ("application/x-amz-json-1.0", {"MessageId": "0" * 36, "MD5OfMessageBody": "0" * 32}),
}
_HEAD_END: Final = b"\r\n\r\n"


def _response(status: str, kind: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


_RESPONSES: Final = {operation: _response("200 OK", *answer) for operation, answer in _ANSWERS.items()}
_HEALTHY: Final = _response("200 OK", "application/json", {})
_UNKNOWN: Final = _response("400 Bad Request", "application/x-amz-json-1.0", {"__type": "UnknownOperationException"})


class _Connection(asyncio.Protocol):
    """Reads requests one after the other; each is answered when the last byte of its body has come."""

    def __init__(self) -> None:
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(_HEAD_END)) >= 0:
            head = bytes(self._received[:end])
            length = int(_header(head, b"content-length") or 0)
            if len(self._received) < end + len(_HEAD_END) + length:
                return
            del self._received[: end + len(_HEAD_END) + length]
            self._transport.write(_answer(head))


def _answer(head: bytes) -> bytes:
    if head.startswith(b"GET "):
        return _HEALTHY
    operation = (_header(head, b"x-amz-target") or b"").rpartition(b".")[2]
    return _RESPONSES.get(operation, _UNKNOWN)


def _header(head: bytes, name: bytes) -> bytes | None:
    start = head.lower().find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : end if end >= 0 else None].strip()


async def main(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
