"""`python -m tests.infra.emulator RECORD`: ministack, with what IAM is asked written to a file.

With `AUTH=true` ministack verifies every signature and holds every caller to his policies. What its evaluator is not told is added here:
the partition keys of a request, the namespace of metrics, the names that AWS has for batches; and that S3 tells of a missing object only
to those who may list the bucket. Its functions are replaced by name, so a release that moves them is noticed at once.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ministack import app as ministack
from ministack.core import iam_actions, iam_evaluator

from tests.infra.emulator import prices, sessions
from tests.infra.emulator.checks import action_of, called, leading_keys, namespace_of
from tests.infra.emulator.record import Asked, RecordFile

_OBJECT_MISSING = 404
_FORBIDDEN = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_PRICES = b"AWSPriceListService."

_request: ContextVar[tuple[bytes, str]] = ContextVar("request", default=(b"", ""))
"""The body of a request under way, and its type."""


class Checks:
    """Stands before the emulator's own checks."""

    def __init__(self, record: RecordFile) -> None:
        self._record = record
        self._extract = iam_actions.extract_iam_action
        self._enforce = iam_evaluator.enforce

    def install(self) -> None:
        """Put this in front of the emulator's checks."""
        iam_actions.extract_iam_action = self.extract
        iam_evaluator.enforce = self.enforce
        # What is refused without TLS is not to be refused here: this is plain HTTP on the loopback interface.
        pin = iam_evaluator.pin_request_origin
        ministack.pin_request_origin = lambda address, _secure: pin(address, True)
        ministack.app = self.app(ministack.app)

    def extract(self, service: str, method: str, path: str, headers: Any, body: bytes, params: Any) -> str | None:
        """The action of a request; its body is kept for `enforce`, which comes next."""
        _request.set((body, headers.get("content-type", "")) if service in {"dynamodb", "monitoring"} else (b"", ""))
        return called(service, path) or self._extract(service, method, path, headers, body, params)

    def enforce(self, access_key: str, action: str, service: str, region: str, resource_arn: str = "*", service_context: Any = None) -> Any:
        """One check, with what the emulator leaves out, written down with its outcome."""
        action, keys = action_of(action), {"aws:RequestedRegion": [region]}
        if service == "dynamodb" and (found := leading_keys(_request.get()[0])):
            keys["dynamodb:LeadingKeys"] = found
        if action == "cloudwatch:PutMetricData":
            keys["cloudwatch:namespace"] = [namespace_of(*_request.get())]
        context = {**(service_context or {}), **{key: value if len(value) > 1 else value[0] for key, value in keys.items()}}
        denied = self._enforce(access_key, action, service, region, resource_arn=resource_arn, service_context=context)
        self._tell(access_key, action, resource_arn, [(key, tuple(values)) for key, values in keys.items()], allowed=denied is None)
        return denied

    def app(self, inner: Any) -> Any:
        """The emulator's app, in which who may not list a bucket isn't told that an object is missing."""

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            if scope["path"].startswith(sessions.PATH):
                await sessions.answer(scope["path"], send)
                return
            headers = dict(scope["headers"])
            key = _access_key(headers)
            if headers.get(b"x-amz-target", b"").startswith(_PRICES):  # which the emulator doesn't know at all
                self._tell(key, f"pricing:{headers[b'x-amz-target'].decode().rpartition('.')[2]}", "*", (), allowed=True)
            await inner(scope, receive, self._telling(scope, key, send))

        return app

    def _telling(self, scope: Any, key: str, send: Any) -> Any:
        hidden = False

        async def tell(message: Any) -> None:
            nonlocal hidden
            if message["type"] == "http.response.start" and message["status"] == _OBJECT_MISSING and _is_object(scope):
                bucket = f"arn:aws:s3:::{scope['path'].split('/')[1]}"
                hidden = self.enforce(key, "s3:ListBucket", "s3", "us-east-1", resource_arn=bucket) is not None
                if hidden:
                    await send(message | {"status": 403, "headers": [(b"content-type", b"application/xml")]})
                    return
            if hidden and message["type"] == "http.response.body":
                message |= {"body": b"" if scope["method"] == "HEAD" else _FORBIDDEN, "more_body": False}
            await send(message)

        return tell

    def _tell(self, access_key: str, action: str, resource: str, keys: Any, *, allowed: bool) -> None:
        caller = (iam_evaluator.resolve_caller_identity(access_key) or {}).get("userArn", "")
        if ":assumed-role/" in caller:
            role = caller.split("/")[1]
            self._record.tell(Asked(caller=role, action=action, resource=resource, keys=tuple(keys), allowed=allowed))


def _is_object(scope: Any) -> bool:
    """Whether a request reads an object, by a path with its bucket."""
    scoped = dict(scope["headers"]).get(b"authorization", b"").partition(b"Credential=")[2].split(b",")[0].split(b"/")
    return scope["method"] in {"GET", "HEAD"} and len(scoped) > 3 and scoped[3] == b"s3" and len(scope["path"].split("/")) > 2


def _access_key(headers: dict[bytes, bytes]) -> str:
    return headers.get(b"authorization", b"").partition(b"Credential=")[2].split(b"/")[0].decode()


def main() -> None:
    """Run until asked to end."""
    path = Path(sys.argv.pop(1))
    path.touch()
    Checks(RecordFile(path)).install()
    prices.install()
    ministack.main()


if __name__ == "__main__":
    main()
