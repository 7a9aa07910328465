"""The structure of manifests: every field known, of the right type, every quantity in the exact grammar.

The schemas are those that `kubernetes-validate` carries (Kubernetes' own OpenAPI, closed against unknown fields). They are read as data and
compiled to closures over the few keywords that they use: the generic validator takes a third of a second to import, which the submit
handler would pay on every cold start, and twenty times as long for each manifest. A test holds both to the same verdicts.

Schemas are read and compiled at first use, each definition once.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from shared.clusters.quantities import QuantityError, parse_quantity
from shared.policy.fields import Field
from shared.policy.train_job_schema import DEFINITIONS, TRAIN_JOB

KUBERNETES_VERSION: Final = "1.36.0"
"""Whose fields are known. Newer than the clusters by a little: what a cluster doesn't know yet, it tells at the dry run or when applied."""

_DEFINED_HERE: Final = {("trainer.kubeflow.org/v1alpha1", "TrainJob"): TRAIN_JOB}

Check = Callable[[Field], None]

_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_RANGES: Final = {"int32": range(-(2**31), 2**31), "int64": range(-(2**63), 2**63)}
_TYPES: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "object": ((dict,), "an object"),
    "array": ((list,), "an array"),
    "string": ((str,), "a string"),
    "integer": ((int,), "an integer"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "null": ((type(None),), "null"),
}


def check_structure(manifest: Field, *, api_version: str, kind: str) -> None:
    """Refuse every unknown field, wrong type, missing requirement and ill-formed quantity of an object."""
    _object_check(api_version, kind)(manifest)


@cache
def _object_check(api_version: str, kind: str) -> Check:
    if (api_version, kind) in _DEFINED_HERE:
        return _compiled(_DEFINED_HERE[api_version, kind], kind)
    group, _, version = api_version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.partition(".")[0], version) if part)
    schema = json.loads((_directory() / f"{name}.json").read_text())
    return _compiled(schema, kind)


@cache
def _directory() -> Path:
    # Found without importing the package, which would import the generic validator.
    found = find_spec("kubernetes_validate")
    if found is None or not found.submodule_search_locations:
        raise RuntimeError("the package kubernetes-validate, which carries the schemas, is not installed")
    return Path(found.submodule_search_locations[0]) / "kubernetes-json-schema" / f"v{KUBERNETES_VERSION}-local-strict"


@cache
def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = json.loads((_directory() / "_definitions.json").read_text())["$defs"]
    return definitions


@cache
def _definition(name: str) -> Check:
    if name == _QUANTITY:
        return _quantity
    if name == _INT_OR_STRING:
        return _typed(["string", "integer", "null"], "int32")
    return _compiled(DEFINITIONS[name] if name in DEFINITIONS else _definitions()[name], name.rpartition(".")[2])


def _compiled(schema: dict[str, Any], title: str) -> Check:
    if "$ref" in schema:
        return _referred(schema["$ref"].rpartition("/")[2])
    if not schema.keys() & {"type", "properties"}:
        return _anything
    types = schema.get("type", "object")
    typed = _typed(types if isinstance(types, list) else [types], schema.get("format"))
    if "items" in schema:
        return _array(typed, _compiled(schema["items"], title))
    if "properties" in schema or "additionalProperties" in schema:
        return _object(typed, schema, title)
    return typed


def _referred(name: str) -> Check:
    """A check that compiles its definition when it first meets one, since definitions refer to each other in circles."""

    def check(field: Field) -> None:
        _definition(name)(field)

    return check


def _anything(_: Field) -> None:
    pass


def _typed(names: list[str], number_format: str | None) -> Check:
    accepted = tuple(kind for name in names for kind in _TYPES[name][0])
    wants_boolean = "boolean" in names
    whole = _RANGES.get(number_format or "")
    rule = "must be " + " or ".join(_TYPES[name][1] for name in names if name != "null" or len(names) == 1)

    def check(field: Field) -> None:
        value = field.value
        if not isinstance(value, accepted) or (isinstance(value, bool) and not wants_boolean):
            field.refuse(rule)
        elif whole is not None and isinstance(value, int) and value not in whole:
            field.refuse(f"must be from {whole[0]} to {whole[-1]}")

    return check


def _array(typed: Check, item: Check) -> Check:
    def check(field: Field) -> None:
        typed(field)
        for element in field.elements():
            item(element)

    return check


def _object(typed: Check, schema: dict[str, Any], title: str) -> Check:
    properties = {name: _compiled(inner, title) for name, inner in schema.get("properties", {}).items()}
    required: tuple[str, ...] = tuple(schema.get("required", ()))
    others = schema.get("additionalProperties", True)
    other = _compiled(others, title) if isinstance(others, dict) else None

    def check(field: Field) -> None:
        typed(field)
        if not isinstance(field.value, dict):
            return
        for name, inner in field.items():
            found = properties.get(name, other)
            if found is not None:
                found(inner)
            elif others is False:
                inner.refuse(_unknown(name, properties, title))
        for name in required:
            if name not in field.value:
                field[name].refuse(f"must be given in {title}")

    return check


def _quantity(field: Field) -> None:
    if field.given:
        try:
            parse_quantity(field.value)
        except QuantityError as error:
            field.refuse(str(error))


def _unknown(name: str, known: dict[str, Check], title: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:64], known, n=1)
    return f"must be a field of {title}" + (f"; did you mean '{near[0]}'?" if near else "")
