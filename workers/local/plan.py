"""Which children an embedded fleet has, in which order they start, and with which command line and environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workers.local import environment, outside, readiness
from workers.local.child import ChildSpec
from workers.local.options import Options
from workers.loopback import is_loopback, reachable_at

FOUNDATION, WORKERS = 0, 1
"""Stages. Bootstrap runs between the two; the workers do not wait for one another, so they may start side by side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where everything of one fleet is: ports of the loopback interface, and files. `api_host` is where the API listens."""

    aws_port: int
    api_port: int
    api_host: str = "127.0.0.1"
    cluster_ports: Mapping[str, int]
    metrics_port: int = 0
    """Where `/metrics` is served; 0: wherever there is room."""
    kubeconfig: Path
    spot_prices: Path
    scratch: Path

    @property
    def aws_endpoint(self) -> str:
        """The address of the AWS emulator."""
        return f"http://127.0.0.1:{self.aws_port}"

    @property
    def metrics_url(self) -> str:
        """Where Prometheus finds the metrics of GPUs."""
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def api_url(self) -> str:
        """The address of the API, from this machine."""
        host = reachable_at(self.api_host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.api_port}"


def foundation(options: Options, layout: Layout, *, namespaces: Sequence[str]) -> list[ChildSpec]:
    """The emulator, and the simulated clusters unless real ones are used. What they know is in memory, so both are vital.

    The simulated clusters have the namespaces from the start; real ones have theirs made by whoever runs them.
    """
    emulator = ChildSpec(
        name="aws",
        arguments=_module("ministack"),
        environment=environment.emulator(layout.aws_port, layout.scratch),
        stage=FOUNDATION,
        ready=readiness.answers(layout.aws_port, "/_ministack/ready"),
        vital=True,
        stop_seconds=0.2,  # it has nothing to save, and would wait for its connections
    )
    if options.kubeconfig is not None:
        return [emulator]
    pairs = layout.cluster_ports.items()
    clusters = ChildSpec(
        name="clusters",
        arguments=[
            *_module("workers.local.cluster"),
            *(part for region, port in pairs for part in ("--region", region, "--port", str(port))),
            *("--nodes", options.nodes),
            *(part for namespace in namespaces for part in ("--namespace", namespace)),
            *("--kubeconfig", str(layout.kubeconfig)),
            "--exporters",
        ],
        environment=environment.base(),
        stage=FOUNDATION,
        ready=readiness.every([readiness.answers(port, "/readyz") for _, port in pairs]),
        vital=True,
    )
    return [emulator, clusters]


def workers(options: Options, layout: Layout) -> list[ChildSpec]:
    """The API and every worker."""
    shared = worker_environment(options, layout)
    api = ChildSpec(
        name="api",
        arguments=_module("workers.api"),
        environment=shared | {"GPUFLEET_API_HOST": layout.api_host, "GPUFLEET_API_PORT": str(layout.api_port)},
        stage=WORKERS,
        ready=readiness.answers(layout.api_port, "/readyz", host=reachable_at(layout.api_host)),
        stop_seconds=_stop_seconds(shared),
    )
    dispatchers = [
        _worker(f"dispatcher-{region}-{number}", shared, "workers.dispatcher", "--region", region)
        for region in options.regions
        for number in range(1, options.dispatchers + 1)
    ]
    observers = [_worker(f"observer-{region}", shared, "workers.observer", "--region", region) for region in options.regions]
    ingest, *alone = [_worker(name, shared, f"workers.{name}") for name in ("ingest", "sweeper", "webhooks", "costs")]
    metrics = _worker("metrics", shared | {"GPUFLEET_METRICS_PORT": str(layout.metrics_port)}, "workers.metrics")
    return [api, ingest, *dispatchers, *observers, *alone, metrics]


def worker_environment(options: Options, layout: Layout) -> dict[str, str]:
    """What the workers have in common, and what one more of them would need."""
    settings = {"GPUFLEET_SPOT_PRICES_FILE": str(layout.spot_prices), "GPUFLEET_USAGE_WRITE_SECONDS": "10", **options.settings}
    if is_loopback(layout.api_host):  # else others could have this machine's own services called, which ask for no credentials
        settings.setdefault("GPUFLEET_WEBHOOK_LOCAL", "true")
    if options.kubeconfig is not None:
        settings |= outside.carried(os.environ)
    return environment.worker(layout.aws_endpoint, regions=options.regions, kubeconfig=layout.kubeconfig, more=settings)


def _worker(name: str, env: Mapping[str, str], module: str, *arguments: str) -> ChildSpec:
    return ChildSpec(
        name=name,
        arguments=[*_module(module), *arguments],
        environment=env,
        stage=WORKERS,
        ready=readiness.says_started(),
        stop_seconds=_stop_seconds(env),
    )


def _stop_seconds(env: Mapping[str, str]) -> float:
    """What a worker is given to end: what it gives itself, and a little for Python."""
    return float(env["GPUFLEET_SHUTDOWN_SECONDS"]) + 4.0


def _module(name: str) -> Sequence[str]:
    return [sys.executable, "-m", name]
