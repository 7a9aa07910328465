"""Sessions of roles as Pod Identity hands them to pods, which the emulator's EKS doesn't: `GET /_sessions/<role>`."""

from __future__ import annotations

import json
import secrets
from typing import Any, Final

from ministack.services import sts

from tests.infra.accounts import ACCOUNT

PATH: Final = "/_sessions/"


async def answer(path: str, send: Any) -> None:
    """Credentials of a new session of a role, as a document."""
    role = path.removeprefix(PATH)
    found = {"key": f"ASIA{secrets.token_hex(8).upper()}", "secret": secrets.token_hex(20), "token": secrets.token_hex(32)}
    about = {
        "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/{role}/pod",
        "UserId": f"{role}:pod",
        "SecretAccessKey": found["secret"],
        "SessionToken": found["token"],
    }
    sts.register_session(found["key"], about)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(found).encode()})
