"""`gpufleet policy`: what admission says of manifests, asked here without an API, and the policy that an API enforces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.cli import output
from workers.cli.failures import CommandError, ExitCode, Fault
from workers.cli.options import API, Api, AsJson, Key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.errors import Problem
    from shared.policy import Admission, Policy

app = typer.Typer(help="What manifests may ask for.", no_args_is_help=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judged:
    """One object of a file, or one submission, and what admission says of it."""

    source: str
    name: str
    """Kind and name, as its author calls it."""
    admission: Admission | None
    problems: Sequence[Problem]

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"source": self.source, "name": self.name, "admitted": self.admission is not None}
        if self.admission is not None:
            found |= {"kind": self.admission.kind, "namespace": self.admission.namespace} | _held(self.admission)
        return found | {"problems": [{"pointer": one.pointer, "value": one.told, "rule": one.rule} for one in self.problems]}


@app.command("check")
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="JSON or YAML; several documents are fine. - is standard input.")],
    policy: Annotated[
        Path | None, typer.Option("--policy", envvar="GPUFLEET_POLICY_FILE", help="The policy file; without one its defaults hold.")
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="For objects that name none; one that names another is refused.")] = None,
    queue: Annotated[bool, typer.Option("--queue", help="Judge what gpufleet submit would send: jobs for the queue.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Say whether manifests would be admitted, and all that is wrong with them; no API is asked, and nothing is sent.

    Each object is judged as one that is applied to a cluster directly, as the manifests of the API are. With --queue, each Job and the
    objects that stand with it in its file are judged as one submission, for which a few more rules hold.

    The policy is that of the file here: `gpufleet policy show` tells which one an API enforces. What only a cluster knows (quotas, names
    that are taken, its own version of Kubernetes) is left to it. Places begin with the document's number, from 0.
    """
    rules = _policy(policy)
    judge = _submissions if queue else _objects
    judged = [one for file in files for one in judge(file, namespace, rules)]
    if as_json:
        output.write_json({"admitted": all(one.admission for one in judged), "manifests": [one.as_json() for one in judged]})
    else:
        _report(judged, policy)
    return ExitCode.OK if all(one.admission for one in judged) else ExitCode.FAILED


@app.command("show")
def show(api: Api = API, key: Key = None, as_json: AsJson = False) -> None:
    """Show the policy that an API enforces, and what its cluster enforces besides."""
    from workers.cli.client import FleetClient

    with FleetClient(api, key) as client:
        answer = client.policy()
    if as_json:
        output.write_json(answer)
        return
    policy: Mapping[str, Any] = answer["policy"]
    output.pairs([("cluster", answer.get("cluster_id")), *_lines(policy)])
    for namespace, found in answer["cluster_enforcement"].items():
        output.write("")
        output.pairs([("namespace", namespace), *_enforced(found)])


def _policy(path: Path | None) -> Policy:
    from shared.policy.loading import PolicyFileError, load_policy

    try:
        return load_policy(path)
    except PolicyFileError as error:
        faults = [Fault.of(problem, source=str(path)) for problem in error.problems]
        raise CommandError(f"{path}: not a policy that can be used", code=ExitCode.USAGE, faults=faults) from error


def _objects(file: str, namespace: str | None, policy: Policy) -> Iterator[_Judged]:
    from shared.policy.manifests import judge_parts
    from workers.cli.files import load_objects, read_file, source_of

    parts = load_objects(read_file(file), source=file)
    if not parts:
        raise CommandError.at(source_of(file), "", "must hold at least one manifest")
    for (_, manifest), verdict in zip(parts, judge_parts(parts, namespace=namespace, policy=policy), strict=True):
        yield _Judged(source=source_of(file), name=_called(manifest), admission=verdict.admission, problems=verdict.problems)


def _submissions(file: str, namespace: str | None, policy: Policy) -> Iterator[_Judged]:
    from shared.errors import ForbiddenError, InvalidError, TooLargeError
    from shared.jobs.fields import DEFAULT_NAMESPACE
    from shared.policy import check as admit
    from workers.cli.bundles import load_bundles
    from workers.cli.files import read_file

    for bundle in load_bundles(read_file(file), source=file):
        admission: Admission | None = None
        problems: Sequence[Problem] = ()
        try:
            admission = admit(bundle.manifest, bundle.supporting, namespace=namespace or DEFAULT_NAMESPACE, policy=policy)
        except (InvalidError, ForbiddenError, TooLargeError) as refusal:
            problems = refusal.problems
        yield _Judged(source=bundle.source, name=_called(bundle.manifest), admission=admission, problems=problems)


def _called(manifest: Mapping[str, Any]) -> str:
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{manifest.get('kind') or '(no kind)'}/{name or '(unnamed)'}"


def _held(admission: Admission) -> dict[str, Any]:
    """What would be held of the cluster, as Kubernetes writes quantities."""
    from shared.clusters.quantities import format_bytes, format_quantity

    demand = admission.demand
    return {"gpus": admission.gpus, "cpu": format_quantity(demand.cpu), "memory": format_bytes(demand.memory)}


def _report(judged: Sequence[_Judged], policy: Path | None) -> None:
    """The verdicts are what was asked for, and go to standard output with all faults."""
    output.say(f"by the policy in {policy}" if policy is not None else "by the default policy; --policy names another")
    for one in judged:
        if one.admission is None:
            output.write(f"{one.source}: {one.name}: refused")
            for problem in one.problems:
                output.write(f"  {Fault.of(problem)}")
            continue
        held = _held(one.admission)
        runs = f"  {held['gpus']} GPUs, {held['cpu']} cores, {held['memory']} of memory" if any(_amounts(one.admission)) else ""
        output.write(f"{one.source}: {one.name}: admitted{runs}")


def _amounts(admission: Admission) -> tuple[Any, ...]:
    return admission.demand.gpus, admission.demand.cpu, admission.demand.memory


def _lines(policy: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    caps = (policy.get("manifest_caps") or {}).get("configured") or {}
    for name, value in policy.items():
        if name == "manifest_caps":
            yield from caps.items()
        elif name == "allowed_api_versions":
            continue  # the kinds say it, but for programs
        elif name == "manifest_security_policy":
            yield from value.items()
        else:
            yield name, value


def _enforced(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if found.get("status") != "ok":
        yield "cluster", f"{found.get('status')}: {found.get('reason')}"
        return
    for name, hard in found["resource_quotas"].items():
        yield f"quota {name}", hard
    for name, limits in found["limit_ranges"].items():
        for limit in limits:
            yield f"limits {name}", limit
    if not found["resource_quotas"] and not found["limit_ranges"]:
        yield "cluster", "no quotas and no limit ranges"
