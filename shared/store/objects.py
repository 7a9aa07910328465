"""Large objects in S3: manifests that no item should hold, and logs."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import UnavailableError


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
