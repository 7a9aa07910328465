"""What `cdk synth` wrote: templates and assets, as an emulator can take them.

What the emulator's CloudFormation doesn't know is left out by an explicit list, and whatever refers to it with it; all of that is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file, and where a template expects it."""

    file: Path
    bucket: str
    key: str


class Assembly:
    """A folder that was synthesized."""

    def __init__(self, folder: Path, *, account: str) -> None:
        self._folder = folder
        self._account = account

    def template(self, stack: str) -> Json:
        """The template of a stack."""
        found: Json = json.loads((self._folder / f"{stack}.template.json").read_text())
        return found

    def assets(self, stack: str, region: str) -> Iterator[Asset]:
        """The zipped files of a stack. Folders are those of CDK's own handlers, which nothing here calls."""
        files = json.loads((self._folder / f"{stack}.assets.json").read_text())["files"]
        for one in files.values():
            source = self._folder / one["source"]["path"]
            for place in one["destinations"].values():
                if source.is_file() and source.suffix == ".zip":
                    yield Asset(file=source, bucket=self._filled(place["bucketName"], region), key=place["objectKey"])

    def _filled(self, text: str, region: str) -> str:
        return text.replace("${AWS::AccountId}", self._account).replace("${AWS::Region}", region).replace("${AWS::Partition}", "aws")


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A template without what an emulator doesn't know, and what that was: types, and the types of what referred to it."""

    template: Json
    unknown: frozenset[str]
    dangling: frozenset[str]


def pruned(template: Json, unknown: Mapping[str, str], *, without: Callable[[Json], bool] = lambda _: False) -> Pruned:
    """Leave out the resources whose types are keys of `unknown`, those that `without` says, and what refers to them.

    The order of creation is kept among the rest.
    """
    resources = dict(template["Resources"])
    gone = {name for name, one in resources.items() if one["Type"] in unknown or without(one)}
    types = frozenset(resources[name]["Type"] for name in gone)
    dangling: set[str] = set()
    while True:
        more = {name for name, one in resources.items() if name not in gone | dangling and _refers(_without_order(one), gone | dangling)}
        if not more:
            break
        dangling |= more
    kept = {name: _ordered(one, gone | dangling) for name, one in resources.items() if name not in gone | dangling}
    outputs = {name: one for name, one in template.get("Outputs", {}).items() if not _refers(one, gone | dangling)}
    return Pruned(
        template={**template, "Resources": kept, "Outputs": outputs},
        unknown=types,
        dangling=frozenset(resources[name]["Type"] for name in dangling),
    )


def _without_order(resource: Json) -> Json:
    return {name: value for name, value in resource.items() if name not in {"DependsOn", "Metadata"}}


def _ordered(resource: Json, gone: set[str]) -> Json:
    before = resource.get("DependsOn", [])
    before = [before] if isinstance(before, str) else before
    rest = {name: value for name, value in resource.items() if name not in {"DependsOn", "Metadata"}}
    after = [name for name in before if name not in gone]
    return {**rest, "DependsOn": after} if after else rest


def _refers(value: Any, names: set[str]) -> bool:
    if isinstance(value, dict):
        if value.get("Ref") in names:
            return True
        attribute = value.get("Fn::GetAtt")
        if isinstance(attribute, list) and attribute[0] in names:
            return True
        return any(_refers(one, names) for one in value.values())
    return isinstance(value, list) and any(_refers(one, names) for one in value)
