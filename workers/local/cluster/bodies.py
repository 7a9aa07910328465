"""From the bytes of a request to an object, with the API server's complaints about what is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from workers.local.cluster.answers import bad_request, too_large, unreadable
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import Object
from workers.local.cluster.routes import Route

# kube-apiserver, the limit on any request body.
_BODY_LIMIT = 3 * 1024 * 1024
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_READ = ("application/json", "application/yaml")


def media_type(headers: Mapping[str, str]) -> str:
    """The content type without its parameters."""
    for name, value in headers.items():
        if name.lower() == "content-type":
            return value.partition(";")[0].strip().lower()
    return "application/json"


def refuse_unreadable(headers: Mapping[str, str], body: bytes | None) -> None:
    """Refuse a body in protobuf, which this server doesn't read: of all resources, as an API server does that has no such encoding.

    `kubectl drain` evicts that way.
    """
    if body and media_type(headers) == _PROTOBUF:
        raise unreadable(f"the body of the request was in an unknown format - accepted media types include: {', '.join(_READ)}")


def manager_name(query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Who writes: the `fieldManager`, or else the first part of the user agent."""
    if query.get("fieldManager"):
        return query["fieldManager"]
    agent = next((value for name, value in headers.items() if name.lower() == "user-agent"), "")
    return agent.partition("/")[0] or "unknown"


def decode(body: bytes | None, *, as_yaml: bool = False) -> Any:
    """The value in a body."""
    if body is not None and len(body) > _BODY_LIMIT:
        raise too_large(f"Request entity too large: limit is {_BODY_LIMIT}")
    try:
        if as_yaml and body and not body.lstrip().startswith(b"{"):
            return yaml.safe_load(body)
        return json.loads(body or b"{}")
    except (ValueError, yaml.YAMLError) as error:
        raise bad_request(f"error decoding the request body: {error}") from error


def decode_object(route: Route, body: bytes | None, *, as_yaml: bool = False) -> Object:
    """An object of the route's kind, without `kind` and `apiVersion`, in the route's namespace."""
    obj = decode(body, as_yaml=as_yaml)
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object)")
    check_kind(route.kind, obj)
    metadata = obj.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    if route.kind.namespaced:
        namespace = metadata.get("namespace") or route.namespace
        if namespace != route.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata = {**metadata, "namespace": namespace}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return {**rest, "metadata": metadata}


def check_kind(kind: Kind, obj: Object) -> None:
    """Refuse an object that says that it is something else; one that says nothing is taken for what the path says."""
    api_version, name = obj.get("apiVersion") or kind.api_version, obj.get("kind") or kind.kind
    if (api_version, name) != (kind.api_version, kind.kind):
        raise bad_request(
            f"{name} in version {api_version!r} cannot be handled as a {kind.kind}: the API version in the data ({api_version})"
            f" does not match the expected API version ({kind.api_version})"
        )
