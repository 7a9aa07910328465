"""Secret values, in AWS Secrets Manager and nowhere else: never in the table, in a log or in an answer.

No message of an error here holds a value: botocore's own may, where it refuses parameters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import UnavailableError

_MISSING = "ResourceNotFoundException"


class Secrets:
    """The secrets of one installation, behind an aiobotocore Secrets Manager client. All raise UnavailableError.

    `prefix` keeps installations in one account apart, and is what an IAM policy grants.
    """

    def __init__(self, client: Any, *, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    async def create(self, name: str, value: str, *, description: str) -> None:
        """Keep a new secret. Whoever makes a name up must make it up once: one that stands is an error."""
        async with _translated("create", name):
            await self._client.create_secret(Name=self._full(name), SecretString=value, Description=description)

    async def put(self, name: str, value: str, *, description: str) -> None:
        """Replace the value of a secret, or keep a new one where there is none."""
        async with _translated("put", name):
            try:
                await self._client.put_secret_value(SecretId=self._full(name), SecretString=value)
            except ClientError as error:
                if _code(error) != _MISSING:
                    raise
                await self._client.create_secret(Name=self._full(name), SecretString=value, Description=description)

    async def get(self, name: str) -> str | None:
        """The value of a secret; None where there is none."""
        async with _translated("get", name):
            try:
                answer = await self._client.get_secret_value(SecretId=self._full(name))
            except ClientError as error:
                if _code(error) == _MISSING:
                    return None
                raise
        return str(answer["SecretString"])

    async def delete(self, name: str) -> None:
        """Delete a secret for good, at once; nothing happens where there is none."""
        async with _translated("delete", name):
            try:
                await self._client.delete_secret(SecretId=self._full(name), ForceDeleteWithoutRecovery=True)
            except ClientError as error:
                if _code(error) != _MISSING:
                    raise

    def _full(self, name: str) -> str:
        return f"{self._prefix}/{name}"


@asynccontextmanager
async def _translated(what: str, name: str) -> AsyncIterator[None]:
    try:
        yield
    except ClientError as error:
        raise UnavailableError(f"Secrets Manager {what} {name}: {_code(error)}") from None
    except (BotoCoreError, OSError, TimeoutError) as error:
        raise UnavailableError(f"Secrets Manager {what} {name}: {type(error).__name__}") from None


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
