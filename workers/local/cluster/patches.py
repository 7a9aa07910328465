"""Merge patches, JSON patches and strategic merge patches, applied to whole objects."""

from __future__ import annotations

from typing import Any

import jsonpatch

from workers.local.cluster.answers import RefusedError, bad_request
from workers.local.cluster.list_keys import identity, is_set, keys_of
from workers.local.cluster.objects import Object, thaw


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386; shares with `target` what does not change."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def json_patch(target: Object, operations: Any) -> Object:
    """RFC 6902. What cannot be applied, a failed `test` among it, is a 422, as kube-apiserver answers."""
    try:
        patch = jsonpatch.JsonPatch(operations)
        result: Object = patch.apply(thaw(target))
    except jsonpatch.InvalidJsonPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise RefusedError(422, "Invalid", message) from error
    return result


def strategic_merge(target: Any, patch: Any) -> Any:
    """Like `merge`, but lists whose items have an identity merge item by item, with the `$patch` directives."""
    if not isinstance(patch, dict):
        return patch
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/") and isinstance(value, list):
            field = key.partition("/")[2]
            result[field] = [item for item in result.get(field) or () if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, list):
            here = result.get(key)
            result[key] = _merge_lists(key, here, value) if isinstance(here, list) else _without_directives(value)
        else:
            result[key] = strategic_merge(result.get(key), value)
    return result


def _without_directives(items: list[Any]) -> list[Any]:
    return [strategic_merge(None, item) for item in items if not (isinstance(item, dict) and item.get("$patch"))]


def _merge_lists(field: str, target: list[Any], patch: list[Any]) -> list[Any]:
    if is_set(field):
        return [*target, *(item for item in patch if item not in target)]
    if not all(isinstance(item, dict) for item in (*target, *patch)):
        return patch
    keys = keys_of(field, [*target, *patch])
    if keys is None:
        return _without_directives(patch)
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    items = {identity(item, keys): item for item in target}
    for item in patch:
        name = identity(item, keys)
        if item.get("$patch") == "delete":
            items.pop(name, None)
        else:
            items[name] = strategic_merge(items.get(name), item)
    return list(items.values())
