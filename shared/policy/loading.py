"""The policy of an installation: its defaults, changed by a JSON file of the same names (docs/policy.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from shared.clusters.manifests import load_documents
from shared.clusters.quantities import parse_quantity
from shared.clusters.trees import MAX_DEPTH, step
from shared.errors import InvalidError, Problem, TooLargeError
from shared.policy.metadata import LABEL_RULE, is_dns_label
from shared.policy.settings import FILE_SETTING, RULED_MAIN_KINDS, RULED_MANIFEST_KINDS, RULED_SUPPORTING_KINDS, Policy, Security


class PolicyFileError(InvalidError):
    """The policy file is not one that admission could use; `path` is where it stands."""

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.path = path
        super().__init__(problems)

    def __str__(self) -> str:
        """The file and all its faults."""
        return f"the policy file {self.path} ({FILE_SETTING}) is wrong: {super().__str__()}"


def load_policy(path: Path | None) -> Policy:
    """The policy in a file, or the defaults without one. Quantities are written as Kubernetes writes them (`384`, `4096Gi`).

    Raises PolicyFileError that names each unknown or malformed setting, or says why the file can't be read.
    """
    if path is None:
        return Policy()
    try:
        documents = load_documents(path.read_bytes(), content="json")
        if len(documents) != 1:
            raise InvalidError([Problem(pointer="", value=None, rule=f"must hold one object, and holds {len(documents)}")])
        return policy_from(documents[0])
    except OSError as error:
        raise PolicyFileError(path, [Problem(pointer="", value=None, rule=f"must be a file that can be read: {error.strerror}")]) from error
    except (InvalidError, TooLargeError) as error:
        raise PolicyFileError(path, error.problems) from error


def policy_from(document: dict[str, Any]) -> Policy:
    """The policy that an object describes. Raises InvalidError with every wrong setting."""
    problems: list[Problem] = []
    given: dict[str, Any] = {}
    for name, value in document.items():
        if name not in _READERS:
            problems.append(Problem(pointer=step(name), value=value, rule=_unknown(name, _READERS)))
            continue
        try:
            given[name] = _READERS[name](value)
        except _WrongError as wrong:
            problems += [Problem(pointer=step(name) + one.pointer, value=one.value, rule=one.rule) for one in wrong.problems]
        except ValueError as error:
            problems.append(Problem(pointer=step(name), value=value, rule=str(error)))
    if problems:
        raise InvalidError(problems)
    return Policy(**given)


class _WrongError(InvalidError):
    """A setting is wrong; the pointers of its problems begin within it."""


def _wrong(value: Any, rule: str, pointer: str = "") -> _WrongError:
    return _WrongError([Problem(pointer=pointer, value=value, rule=rule)])


def _unknown(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:64], list(known), n=1)
    return "must be a setting of the policy" + (f"; did you mean '{near[0]}'?" if near else f": {', '.join(known)}")


def _quantity(value: Any) -> Decimal:
    found = Decimal(parse_quantity(value))
    if found < 0:
        raise _wrong(value, "must not be negative")
    return found


def _whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    rule = f"must be a whole number of at least {low}" if high is None else f"must be a whole number from {low} to {high}"

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < low or (high is not None and value > high):
            raise _wrong(value, rule)
        return value

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, "must be true or false")
    return value


def _texts(is_good: Callable[[str], bool] = bool, rule: str = "must be a text that isn't empty") -> Callable[[Any], tuple[str, ...]]:
    def read(value: Any) -> tuple[str, ...]:
        elements = list(_elements(value))
        bad = [
            Problem(pointer=pointer, value=one, rule=rule if isinstance(one, str) else "must be a string")
            for pointer, one in elements
            if not isinstance(one, str) or not is_good(one)
        ]
        if bad:
            raise _WrongError(bad)
        return tuple(one for _, one in elements)

    return read


def _kinds(ruled: tuple[tuple[str, str], ...]) -> Callable[[Any], tuple[tuple[str, str], ...]]:
    known = ", ".join(f'["{version}", "{kind}"]' for version, kind in ruled)

    def read(value: Any) -> tuple[tuple[str, str], ...]:
        elements = list(_elements(value))
        bad = [
            Problem(pointer=pointer, value=None, rule=f"must be a pair of apiVersion and kind that admission has rules for: {known}")
            for pointer, one in elements
            if not isinstance(one, list) or tuple(one) not in ruled
        ]
        if bad:
            raise _WrongError(bad)
        return tuple((one[0], one[1]) for _, one in elements)

    return read


def _security(value: Any) -> Security:
    if not isinstance(value, dict):
        raise _wrong(value, "must be an object of switches")
    known = [field.name for field in fields(Security)]
    bad = [
        Problem(pointer=step(name), value=flag, rule="must be true or false" if name in known else _unknown(name, known))
        for name, flag in value.items()
        if name not in known or not isinstance(flag, bool)
    ]
    if bad:
        raise _WrongError(bad)
    return Security(**value)


def _elements(value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, list):
        raise _wrong(value, "must be an array")
    for index, one in enumerate(value):
        yield step(index), one


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "allowed_namespaces": _texts(is_dns_label, LABEL_RULE),
    "main_kinds": _kinds(RULED_MAIN_KINDS),
    "supporting_kinds": _kinds(RULED_SUPPORTING_KINDS),
    "manifest_kinds": _kinds(RULED_MANIFEST_KINDS),
    "max_cpu": _quantity,
    "max_memory": _quantity,
    "max_gpus": _whole(0),
    "gpu_resources": _texts(),
    "require_accelerator_toleration": _flag,
    "accelerator_taints": _texts(),
    "trusted_registries": _texts(),
    "trusted_dockerhub_orgs": _texts(),
    "allowed_service_accounts": _texts(),
    "security": _security,
    "yaml_max_depth": _whole(1, MAX_DEPTH),
    "max_object_bytes": _whole(1),
    "max_specification_bytes": _whole(1),
}
