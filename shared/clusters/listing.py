"""Lists of an API server read page by page, so that no answer is larger than its sender and we can hold."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from shared.clusters.api import KubernetesApi

PAGE: Final = 500
"""Objects in one page; what kubectl and client-go ask for."""


async def whole_list(
    api: KubernetesApi, path: str, query: Mapping[str, str] | None = None, *, page: int = PAGE
) -> AsyncGenerator[dict[str, Any], None]:
    """The objects of a list, each page read when the one before was taken.

    Raises UnavailableError, ApiError; of these ExpiredError where the consumer was so slow that the list can't go on (five minutes).
    """
    asked = {**(query or {}), "limit": str(page)}
    while True:
        answer = await api.request("GET", path, query=asked)
        for found in answer.get("items") or ():
            yield found
        token = (answer.get("metadata") or {}).get("continue")
        if not token:
            return
        asked["continue"] = token
