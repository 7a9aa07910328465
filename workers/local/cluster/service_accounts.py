"""Tokens of service accounts, as the TokenRequest API gives them.

https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/. A token here is what `access` takes for one:
the name of the account's user with his groups.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from workers.local.cluster.answers import RefusedError, Response, bad_request
from workers.local.cluster.objects import to_json

_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600


def answer(namespace: str, name: str, body: bytes | None, *, now: float) -> Response:
    """The answer to a TokenRequest for an account that there is. Raises RefusedError for one that asks for too short a time."""
    try:
        asked: dict[str, Any] = json.loads(body or b"{}")
        spec: dict[str, Any] = asked.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or _DEFAULT_SECONDS)
    except (ValueError, TypeError, AttributeError) as error:
        raise bad_request(str(error)) from error
    if seconds < _LEAST_SECONDS:
        rule = "may not specify a duration less than 10 minutes"
        raise RefusedError(422, "Invalid", f"spec.expirationSeconds: Invalid value: {seconds}: {rule}")
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    until = datetime.fromtimestamp(now, UTC) + timedelta(seconds=seconds)
    document = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "expirationSeconds": seconds},
        "status": {
            "token": ";".join((f"system:serviceaccount:{namespace}:{name}", *groups)),
            "expirationTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }
    return Response(status=201, body=to_json(document))
