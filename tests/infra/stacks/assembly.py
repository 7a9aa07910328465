"""What the stacks synthesize, as documents."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

from infra.functions import FUNCTIONS
from infra.resources import Names
from tests.infra.stacks.installations import INSTALLATIONS

ACCOUNT = "123456789012"
KEY = "KEY"


class Assemblies:
    """Synthesizes each installation when it is first asked for. What all say of rights and rules is checked each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.packages = folder / "packages"
        self.packages.mkdir()
        for function in FUNCTIONS:
            with zipfile.ZipFile(self.packages / f"{function.name}.zip", "w") as archive:
                archive.writestr(zipfile.ZipInfo("stand_in.py"), "")
        self._made = {}

    def __getitem__(self, name):
        if name not in self._made:
            self._made[name] = self.make(name, INSTALLATIONS[name]())
        return self._made[name]

    def make(self, name, installation):
        from infra.cdk.app import build

        outdir = self._folder / name
        build(installation, packages=self.packages, outdir=outdir).synth()
        return Assembly(outdir=outdir, installation=installation)


@dataclass(frozen=True)
class Assembly:
    """The templates of an installation."""

    outdir: Path
    installation: object

    @property
    def control(self):
        return self.template("control")

    @property
    def monitoring(self):
        return self.template("monitoring")

    def template(self, stack):
        return Template(json.loads((self.outdir / f"{self.installation.name}-{stack}.template.json").read_text()))

    @property
    def templates(self):
        return [self.template(stack) for stack in ("control", "monitoring", *self.installation.region_names)]

    @property
    def names(self):
        """The names by which rights are rendered, for this account."""
        one = self.installation
        return Names(
            account=ACCOUNT,
            control_region=one.control_region,
            regions=one.region_names,
            table=one.name,
            bucket=f"{one.name}-{ACCOUNT}-{one.control_region}",
            queue_prefix=one.name,
            clusters=dict.fromkeys(one.region_names, one.name),
            key=KEY,
        )


class Template:
    """A template of CloudFormation."""

    def __init__(self, document) -> None:
        self.document = document
        self.resources = document["Resources"]

    def of(self, kind):
        """Properties of the resources of a type, by their logical ids."""
        return {name: one.get("Properties", {}) for name, one in self.resources.items() if one["Type"] == kind}

    def named(self, kind, field):
        """Properties of the resources of a type, by one of them, resolved."""
        having = [one for one in self.of(kind).values() if field in one]
        found = {self.resolve(one[field]): one for one in having}
        assert len(found) == len(having)
        return found

    def one(self, kind):
        (found,) = self.of(kind).values()
        return found

    def resolve(self, value):
        """A value with what is known of references put in; the key's is `KEY`, others are the logical id, with the attribute."""
        if isinstance(value, list):
            return [self.resolve(one) for one in value]
        if not isinstance(value, dict):
            return value
        match value:
            case {"Ref": "AWS::AccountId"}:
                return ACCOUNT
            case {"Ref": "AWS::Partition"}:
                return "aws"
            case {"Ref": name}:
                return name
            case {"Fn::GetAtt": [name, attribute]}:
                return KEY if self.resources[name]["Type"] == "AWS::KMS::Key" else f"{name}.{attribute}"
            case {"Fn::Join": [separator, parts]}:
                return separator.join(str(self.resolve(part)) for part in parts)
            case {"Fn::Sub": text}:
                return text.replace("${AWS::AccountId}", ACCOUNT).replace("${AWS::URLSuffix}", "amazonaws.com")
            case {"Fn::ImportValue": name}:
                return name
        return {key: self.resolve(one) for key, one in value.items()}

    def statements(self):
        """Every statement of every policy, with the logical id of what it is in."""
        for name, resource in self.resources.items():
            yield from ((name, one) for one in _statements(resource.get("Properties", {})))


def _statements(value):
    if isinstance(value, list):
        for one in value:
            yield from _statements(one)
    elif isinstance(value, dict):
        if value.get("Effect") in {"Allow", "Deny"} and ("Action" in value or "NotAction" in value):
            yield value
        for one in value.values():
            yield from _statements(one)
