"""A fleet whose every worker has the rights of its role and no more: the emulator enforces IAM, the simulated clusters enforce RBAC.

What it is made of (table, queues, roles, functions) comes from an `Installation`; its dispatchers and observers are processes here, as
they would be pods. Both the emulator and the clusters write down what was asked for, and whether it was allowed.
"""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import boto3

from tests.infra.emulator.record import Asked, read
from workers.local import environment, plan, readiness, spot
from workers.local.child import ChildSpec
from workers.local.cluster.kubeconfig import write_kubeconfig
from workers.local.fleet import EmbeddedFleet, _lay_out
from workers.local.options import Options
from workers.local.state import StateDirectory
from workers.local.supervisor import Supervisor

ROOT = Path(__file__).parents[2]
USERS = {
    "api": "gpufleet:api",
    "metrics": "gpufleet:metrics",
    "dispatcher": "system:serviceaccount:gpufleet:dispatcher",
    "observer": "system:serviceaccount:gpufleet:observer",
}
"""Who a worker is to a cluster: a group of an access entry, or a service account."""


VISITOR = "visitor"
"""A user of the clusters who is nobody of the fleet."""
_VISITOR = f"""
kind: ClusterRole
metadata: {{name: {VISITOR}}}
rules:
  - apiGroups: ["", batch]
    resources: [jobs, services, configmaps]
    verbs: [create, get, delete]
---
kind: ClusterRoleBinding
metadata: {{name: {VISITOR}}}
roleRef: {{kind: ClusterRole, name: {VISITOR}}}
subjects: [{{kind: User, name: {VISITOR}}}]
"""


class Installation(Protocol):
    """What makes the fleet's resources, and knows its roles."""

    cluster_arguments: Sequence[str]
    """What the clusters have beside their nodes."""

    def manifests(self) -> str:
        """What is applied to each cluster, its roles and their bindings among it, as YAML."""
        ...

    async def install(self, fleet: EnforcedFleet) -> None:
        """Make everything; the emulator and the clusters stand."""
        ...

    def pod_environment(self, fleet: EnforcedFleet, worker: str, region: str) -> Mapping[str, str]:
        """What a worker in a region's cluster has beside its credentials."""
        ...

    def role(self, worker: str, region: str | None = None) -> str:
        """The name of a worker's role."""
        ...

    def api_specs(self, fleet: EnforcedFleet) -> list[ChildSpec]:
        """The API's own process, where it is one."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What a worker signs with."""

    key: str
    secret: str
    token: str

    @property
    def variables(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_SESSION_TOKEN": self.token}


@dataclass
class Paths:
    """The files of such a fleet."""

    folder: Path
    record: Path = field(init=False)
    audit: Path = field(init=False)
    rbac: Path = field(init=False)

    def __post_init__(self) -> None:
        self.record = self.folder / "asked.jsonl"
        self.audit = self.folder / "audit.jsonl"
        self.rbac = self.folder / "rbac.yaml"


class EnforcedFleet(EmbeddedFleet):
    """An embedded fleet under AWS's and Kubernetes' rights."""

    def __init__(self, installation: Installation, options: Options | None = None) -> None:
        super().__init__(options)
        self.installation = installation
        self.paths: Paths

    async def _start(self) -> None:
        options = self.options
        self._namespaces = ("gco-jobs",)
        self._state = held = StateDirectory(self._place())
        held.prepare()
        self.paths = Paths(held.path)
        self.paths.rbac.write_text(f"{self.installation.manifests()}\n---\n{_VISITOR}")
        spot.write_prices(held.path / "spot-prices.json", options.regions)
        self._layout = layout = _lay_out(options, held.path)
        self._supervisor = supervisor = Supervisor(logs=held.path / "logs")
        await supervisor.start([self._emulator(), self._clusters()])
        for worker, user in USERS.items():
            urls = {region: f"http://127.0.0.1:{port}" for region, port in layout.cluster_ports.items()}
            write_kubeconfig(self.kubeconfig_of(worker), urls, token=user)
        await self.installation.install(self)
        await supervisor.start([*self.installation.api_specs(self), *self._pods()])

    async def _stop(self, *, failed: bool) -> None:
        await self.installation.close()
        await super()._stop(failed=failed)

    def _emulator(self) -> ChildSpec:
        variables = environment.emulator(self.layout.aws_port, self.layout.scratch) | {
            "AUTH": "true",
            "LAMBDA_EXECUTOR": "local",
            "PYTHONPATH": str(ROOT),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        (spec,) = (one for one in plan.foundation(self.options, self.layout, namespaces=()) if one.name == "aws")
        return _changed(spec, arguments=_module("tests.infra.emulator", str(self.paths.record)), environment=variables, start_seconds=60.0)

    def _clusters(self) -> ChildSpec:
        (spec,) = (one for one in plan.foundation(self.options, self.layout, namespaces=self._namespaces) if one.name == "clusters")
        more = ("--rbac", str(self.paths.rbac), "--audit", str(self.paths.audit), *self.installation.cluster_arguments)
        return _changed(spec, arguments=[*spec.arguments, *more])

    def kubeconfig_of(self, worker: str) -> Path:
        """The kubeconfig with which a worker asks clusters."""
        return self.layout.kubeconfig.with_name(f"kubeconfig-{worker}")

    def credentials(self, worker: str, region: str | None = None) -> Credentials:
        """A session of a worker's role, as Lambda or Pod Identity would give it."""
        role = self.installation.role(worker, region)
        with urllib.request.urlopen(f"{self.layout.aws_endpoint}/_sessions/{role}", timeout=30) as answer:
            return Credentials(**json.loads(answer.read()))

    @contextmanager
    def client(self, service: str, region: str = "us-east-1", credentials: Credentials | None = None) -> Iterator[Any]:
        """A client of plain boto3: of the account's root unless it is said whose."""
        own = credentials or Credentials(key="test", secret="test", token="")
        made = boto3.session.Session().client(
            service,
            endpoint_url=self.layout.aws_endpoint,
            region_name=region,
            aws_access_key_id=own.key,
            aws_secret_access_key=own.secret,
            aws_session_token=own.token or None,
        )
        try:
            yield made
        finally:
            made.close()

    def _pods(self) -> list[ChildSpec]:
        names = [(worker, region) for region in self.options.regions for worker in ("dispatcher", "observer")]
        return [self._pod(worker, region) for worker, region in names]

    def _pod(self, worker: str, region: str) -> ChildSpec:
        variables = {
            **environment.base(),
            "AWS_ENDPOINT_URL": self.layout.aws_endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.installation.pod_environment(self, worker, region),
            **self.credentials(worker, region).variables,
            "GPUFLEET_KUBECONFIG": str(self.kubeconfig_of(worker)),
        }
        suffix = "-1" if worker == "dispatcher" else ""
        return ChildSpec(
            name=f"{worker}-{region}{suffix}",
            arguments=_module(f"workers.{worker}", "--region", region),
            environment=variables,
            stage=plan.WORKERS,
            ready=readiness.says_started(),
            start_seconds=60.0,
        )

    @property
    def aws_env(self) -> dict[str, str]:
        """A producer's environment: the account's root."""
        return environment.aws(self.layout.aws_endpoint) | {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

    @contextmanager
    def paused(self, *workers: str) -> Iterator[None]:
        """Let some workers stand still, as on a machine that hangs."""
        for worker in workers:
            self.processes[worker].signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for worker in workers:
                self.processes[worker].signal(signal.SIGCONT)

    def asked(self) -> set[Asked]:
        """What was asked of AWS until now."""
        return read(self.paths.record)

    async def invoke(self, function: str, payload: str) -> str:
        """Call a Lambda function as a schedule does, and wait for its answer. Raises AssertionError where it failed."""

        def call() -> str:
            with self.client("lambda") as functions:
                answer = functions.invoke(FunctionName=function, Payload=payload.encode())
                told = answer["Payload"].read().decode()
                assert "FunctionError" not in answer, f"{function}: {told}"
                return str(told)

        return await asyncio.to_thread(call)


def _module(name: str, *arguments: str) -> list[str]:
    return [*plan._module(name), *arguments]


def _changed(spec: ChildSpec, **fields: Any) -> ChildSpec:
    return replace(spec, **fields)
