"""Large objects in S3: manifests that no item should hold, logs, and files of costs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import UnavailableError

_PAGE = 1000
"""The most that S3 lists at once."""
_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "412", "409", "404"}
"""What S3 says to a conditional write when the object isn't as it was said to be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """An object as a listing tells of it; `tag` is its ETag, `size` in bytes."""

    key: str
    size: int
    modified: datetime
    tag: str


class S3Objects:
    """The fleet's bucket behind an aiobotocore S3 client."""

    def __init__(self, client: Any, bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    async def put(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> None:
        """Write an object whole. Raises UnavailableError."""
        try:
            await self._client.put_object(Bucket=self._bucket, Key=key, Body=data, ContentType=content_type)
        except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"S3 put {key}: {error}") from error

    async def get(self, key: str, *, bucket: str | None = None, limit: int | None = None) -> bytes | None:
        """Read an object; None where there is none. With `limit`, at most that many bytes and one more, so that too large shows."""
        extra = {"Range": f"bytes=0-{limit}"} if limit is not None else {}
        try:
            answer = await self._client.get_object(Bucket=bucket or self._bucket, Key=key, **extra)
            async with answer["Body"] as body:
                return bytes(await body.read())
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code in {"NoSuchKey", "NoSuchBucket", "404"}:
                return None
            if code == "InvalidRange":  # what S3 says to any range of an empty object
                return b""
            raise UnavailableError(f"S3 get {key}: {error}") from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"S3 get {key}: {error}") from error

    async def get_tagged(self, key: str) -> tuple[bytes, str] | None:
        """An object and its ETag; None where there is none. Raises UnavailableError."""
        try:
            answer = await self._client.get_object(Bucket=self._bucket, Key=key)
            async with answer["Body"] as body:
                return bytes(await body.read()), answer["ETag"]
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in {"NoSuchKey", "404"}:
                return None
            raise UnavailableError(f"S3 get {key}: {error}") from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"S3 get {key}: {error}") from error

    async def put_if(self, key: str, data: bytes, *, tag: str | None, content_type: str = "application/octet-stream") -> str | None:
        """Write an object whole where it still has this ETag (None: where there is none); its new one. None where that isn't so.

        Whoever repeats a write that had no answer may be told None though it was done. Raises UnavailableError.
        """
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        try:
            answer = await self._client.put_object(Bucket=self._bucket, Key=key, Body=data, ContentType=content_type, **condition)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _CHANGED:
                return None
            raise UnavailableError(f"S3 put {key}: {error}") from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"S3 put {key}: {error}") from error
        return str(answer["ETag"])

    async def tag_of(self, key: str) -> str | None:
        """An object's ETag; None where there is none. Raises UnavailableError."""
        try:
            return str((await self._client.head_object(Bucket=self._bucket, Key=key))["ETag"])
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in {"NoSuchKey", "NotFound", "404"}:
                return None
            raise UnavailableError(f"S3 head {key}: {error}") from error
        except (BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"S3 head {key}: {error}") from error

    async def folders(self, prefix: str) -> list[str]:
        """What comes next in keys that begin so, up to and with the next slash, in order. Raises UnavailableError."""
        found: list[str] = []
        further: dict[str, Any] = {}
        while True:
            try:
                answer = await self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, Delimiter="/", **further)
            except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
                raise UnavailableError(f"S3 list {prefix}: {error}") from error
            found += [one["Prefix"].removeprefix(prefix) for one in answer.get("CommonPrefixes", ())]
            if not answer.get("IsTruncated"):
                return found
            further = {"ContinuationToken": answer["NextContinuationToken"]}

    async def listed(self, prefix: str, *, limit: int | None = None) -> list[Listed]:
        """The objects whose keys begin so, by key, at most `limit`; a request for each thousand. Raises UnavailableError."""
        found: list[Listed] = []
        further: dict[str, Any] = {}
        while limit is None or len(found) < limit:
            count = _PAGE if limit is None else min(_PAGE, limit - len(found))
            try:
                answer = await self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=count, **further)
            except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
                raise UnavailableError(f"S3 list {prefix}: {error}") from error
            found += [
                Listed(key=one["Key"], size=one["Size"], modified=one["LastModified"].astimezone(UTC), tag=one["ETag"])
                for one in answer.get("Contents", ())
            ]
            if not answer.get("IsTruncated"):
                break
            further = {"ContinuationToken": answer["NextContinuationToken"]}
        return found
