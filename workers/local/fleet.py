"""The embedded fleet: `async with EmbeddedFleet(Options(...)) as fleet` gives a whole one, on this machine, without Docker.

The AWS emulator and the simulated clusters first, then the table, queues and bucket, then the API and every worker; all of it as processes
of their own, supervised, and gone when the block ends, however it ends.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from workers.local import environment, plan, reaching, spot, user_settings
from workers.local.child import Child
from workers.local.kubeconfig import require_contexts, usable
from workers.local.options import Options
from workers.local.ports import free_ports, require_free
from workers.local.state import StateDirectory
from workers.local.supervisor import Notice, Supervisor

FIRST_KEY = "admin.key"
"""The file in the state directory with the key of the first administrator."""


class EmbeddedFleet:
    """A fleet as child processes. Raises UnusableError, PortTakenError, KubeconfigError or ChildFailedError when it can't be started."""

    def __init__(self, options: Options | None = None, *, notice: Notice = lambda _: None) -> None:
        self.options = options or Options()
        self._notice = notice
        self._temporary: Path | None = None
        self._state: StateDirectory | None = None
        self._layout: plan.Layout | None = None
        self._namespaces: tuple[str, ...] = ()
        self._key_file: Path | None = None
        self._supervisor: Supervisor | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop(failed=True)
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._stop(failed=kind is not None)

    async def _start(self) -> None:
        from shared.policy.loading import load_policy

        options = self.options
        settings = user_settings.check(options.settings, api_host=options.api_host)
        if options.kubeconfig is not None:
            require_contexts(options.kubeconfig, options.regions)
        self._namespaces = load_policy(settings.policy_file).allowed_namespaces
        self._state = held = StateDirectory(self._place())
        if options.api_port is not None:
            require_free(options.api_port, "the API", options.api_host)
        held.prepare()
        state = held.path
        spot.write_prices(state / "spot-prices.json", options.regions)
        self._layout = layout = _lay_out(options, state)
        self._supervisor = supervisor = Supervisor(logs=state / "logs", notice=self._notice)
        await supervisor.start(plan.foundation(options, layout, namespaces=self._namespaces))
        await self._bootstrap(with_key="keys" in settings.identity)
        await supervisor.start(plan.workers(options, layout))

    def _place(self) -> Path:
        if self.options.state is not None:
            return self.options.state
        self._temporary = Path(tempfile.mkdtemp(prefix="gpufleet-"))
        return self._temporary

    async def _bootstrap(self, *, with_key: bool) -> None:
        from workers.local.bootstrapping import bootstrap_at, first_key_at

        await bootstrap_at(self.layout.aws_endpoint, self.worker_env)
        if with_key:
            assert self._state is not None
            text = await first_key_at(self.layout.aws_endpoint, self.worker_env)
            self._key_file = self._state.keep_secret(FIRST_KEY, text)

    async def _stop(self, *, failed: bool) -> None:
        if self._supervisor is not None:
            await self._supervisor.stop()
        if self._state is not None:
            self._state.release()
            self._state = None
        if self._temporary is not None and not failed:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._temporary)

    @property
    def layout(self) -> plan.Layout:
        """Where everything is."""
        if self._layout is None:
            raise RuntimeError("the fleet is not running")
        return self._layout

    @property
    def supervisor(self) -> Supervisor:
        """Who keeps its processes."""
        if self._supervisor is None:
            raise RuntimeError("the fleet is not running")
        return self._supervisor

    @property
    def key_file(self) -> Path | None:
        """Where the key of the first administrator is, which nobody but its owner can read; None where the API knows no keys."""
        return self._key_file

    @property
    def api_url(self) -> str:
        """Where the API listens."""
        return self.layout.api_url

    @property
    def aws_env(self) -> dict[str, str]:
        """The environment that a producer needs."""
        return environment.aws(self.layout.aws_endpoint)

    @property
    def worker_env(self) -> dict[str, str]:
        """The environment of the workers, as for one more of them."""
        return plan.worker_environment(self.options, self.layout)

    @property
    def queue_url(self) -> str:
        """The submissions queue, for a producer."""
        return f"{self.layout.aws_endpoint}/000000000000/gpufleet-submissions"

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig with one context per region: the user's own, where there is one."""
        return self.options.kubeconfig or self.layout.kubeconfig

    @property
    def gpus(self) -> int:
        """How many GPUs the machines of its simulated clusters have, all regions together."""
        from workers.local.cluster.node_shapes import parse_shapes

        return sum(shape.gpus for shape in parse_shapes(self.options.nodes)) * len(self.options.regions)

    async def look(self) -> dict[str, reaching.Found]:
        """How it stands with real clusters, by region; simulated ones were asked before the workers started."""
        if self.options.kubeconfig is None:
            return {}
        return await reaching.look(self.options.kubeconfig, self.options.regions, namespaces=self._namespaces)

    @property
    def logs(self) -> Path:
        """The directory with a log file of each child."""
        return self.supervisor.logs

    @property
    def processes(self) -> Mapping[str, Child]:
        """The children by name: `aws`, `clusters`, `api`, `ingest`, `dispatcher-<region>-<n>`, `observer-<region>`, `sweeper`,
        `webhooks`, `metrics`."""
        return self.supervisor.children

    def kill(self, worker: str) -> int:
        """SIGKILL for a child; the supervisor starts it again. Returns the process id that it had."""
        return self.supervisor.kill(worker)


def _lay_out(options: Options, state: Path) -> plan.Layout:
    avoid = () if options.api_port is None else (options.api_port,)
    aws_port, api_port, metrics_port, *cluster_ports = free_ports(3 + len(options.regions), avoid=avoid)
    return plan.Layout(
        aws_port=aws_port,
        api_port=options.api_port or api_port,
        api_host=options.api_host,
        cluster_ports=dict(zip(options.regions, cluster_ports, strict=True)),
        metrics_port=int(options.settings.get("GPUFLEET_METRICS_PORT", 0)) or metrics_port,
        kubeconfig=_kubeconfig(options, state),
        spot_prices=state / "spot-prices.json",
        scratch=state / "scratch",
    )


def _kubeconfig(options: Options, state: Path) -> Path:
    """Where the simulated clusters write theirs, or what the workers use of the user's."""
    place = state / "kubeconfig"
    return place if options.kubeconfig is None else usable(options.kubeconfig, options.regions, copy=place)
