"""A bucket in memory behind a client with aiobotocore's method names."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from tests.simulation.faults import COMMON, Fault, Gate


class Bucket:
    """The service: the objects of one bucket by key."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def get(self, key: str) -> bytes:
        """An object. Raises the client's error where there is none."""
        if key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey", "Message": key}}, "GetObject")
        return self.objects[key]


class S3Client:
    """What the store and the keeper of logs call."""

    def __init__(self, bucket: Bucket, gate: Gate) -> None:
        self._bucket = bucket
        self._gate = gate

    async def put_object(self, *, Key: str, Body: bytes, **_: Any) -> Any:  # noqa: N803 - the names of the real client
        """PutObject."""
        return await self._gate.call(
            f"PutObject {Key}", lambda: self._bucket.objects.__setitem__(Key, bytes(Body)), possible=COMMON, failure=_failure
        )

    async def get_object(self, *, Key: str, **_: Any) -> Any:  # noqa: N803 - as above
        """GetObject."""
        data = await self._gate.call(f"GetObject {Key}", lambda: self._bucket.get(Key), possible=COMMON, failure=_failure)
        return {"Body": _Body(data)}


class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aenter__(self) -> _Body:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    async def read(self) -> bytes:
        return self._data


def _failure(fault: Fault) -> Any:
    if fault is Fault.REFUSED:
        return EndpointConnectionError(endpoint_url="https://s3")
    return ReadTimeoutError(endpoint_url="https://s3")
