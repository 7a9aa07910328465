"""A whole simulated cluster behind one call: requests in, answers and streams out, and time from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from workers.local.cluster import service_accounts, usage
from workers.local.cluster.agenda import Agenda
from workers.local.cluster.answers import RefusedError, Response, Stream, no_such_path, not_allowed, not_found
from workers.local.cluster.bodies import refuse_unreadable
from workers.local.cluster.container_logs import read_log
from workers.local.cluster.deletion import Deletion
from workers.local.cluster.discovery import Discovery
from workers.local.cluster.event_recorder import EventRecorder
from workers.local.cluster.exporters import NAMESPACES as EXPORTER_NAMESPACES
from workers.local.cluster.exporters import Exporters
from workers.local.cluster.job_controller import JobController
from workers.local.cluster.kinds import Catalogue, Kind
from workers.local.cluster.kubelet import Kubelet
from workers.local.cluster.machines import Machines
from workers.local.cluster.node_shapes import NodeShape
from workers.local.cluster.objects import Object, controller_of, to_json
from workers.local.cluster.queue_admission import QueueAdmission
from workers.local.cluster.randomness import Randomness
from workers.local.cluster.reading import Reading
from workers.local.cluster.removing import Removing
from workers.local.cluster.routes import Route, Router
from workers.local.cluster.scheduler import Scheduler
from workers.local.cluster.selectors import Selector
from workers.local.cluster.store import Entry, Store
from workers.local.cluster.workloads import Workloads
from workers.local.cluster.world import Pace, World
from workers.local.cluster.writing import Writing

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A pod whose containers have started: the proof of how often a Job was let run.

    For a pod without a Job, the Job's fields are the pod's own. `annotations` are those of the Job.
    """

    job_uid: str
    job_name: str
    namespace: str
    annotations: Mapping[str, str]
    pod_name: str
    time: float


class SimulatedCluster:
    """The API server and the controllers of one Kubernetes cluster.

    It has no clock, no threads and no chance of its own: `clock` gives unix seconds, `seed` decides every identifier, and things
    happen only inside `request` and `advance`. A driver calls `advance` when `next_wakeup` is due; `request` does so by itself
    for what is due already. Equal seeds, clocks and requests give equal clusters, to the byte.

    `etcd_limit_bytes` is etcd's `--max-request-bytes`. `backoff_base_seconds` is the Job controller's first wait after a failed
    pod, where it differs from that of `pace`. `extra_kinds` are served and stored, as custom resources are. With `queues`
    Kueue is there: local queues, in every namespace, with what may run in each at once, such as `{"gpus": {"nvidia.com/gpu": "8"}}`.
    Without `metrics` there is no metrics server. Without `events` no component writes any, which saves a third of the work. With
    `exporters` every node with GPUs has a pod that tells of them.
    """

    def __init__(
        self,
        *,
        name: str,
        region: str,
        nodes: Sequence[NodeShape],
        clock: Callable[[], float],
        seed: int,
        etcd_limit_bytes: int = 1_572_864,
        backoff_base_seconds: float | None = None,
        pace: Pace | None = None,
        namespaces: Iterable[str] = (),
        extra_kinds: Iterable[Kind] = (),
        queues: Mapping[str, Mapping[str, str]] | None = None,
        events: bool = True,
        metrics: bool = True,
        exporters: bool = False,
        history_limit: int = 20_000,
    ) -> None:
        self.name = name
        self.region = region
        pace = pace or Pace()
        if backoff_base_seconds is not None:
            pace = replace(pace, backoff_base=backoff_base_seconds, backoff_limit=backoff_base_seconds * 60)
        self.pace = pace
        self.started: list[Started] = []
        self.on_pod_started: list[Callable[[Object, Object], None]] = []
        catalogue = Catalogue((*extra_kinds, *(usage.KINDS if metrics else ())))
        self._agenda = Agenda(clock)
        self._store = Store(history_limit=history_limit)
        recorder = EventRecorder(
            store=self._store, agenda=self._agenda, catalogue=catalogue, randomness=Randomness(seed, f"{name}/events"), enabled=events
        )
        self._world = World(
            name=name,
            region=region,
            catalogue=catalogue,
            store=self._store,
            agenda=self._agenda,
            randomness=Randomness(seed, name),
            pace=pace,
            events=recorder,
        )
        deletion = Deletion(self._world)
        self._scheduler = Scheduler(self._world)
        self._jobs = JobController(self._world, deletion)
        self._queues = QueueAdmission(self._world, queues) if queues is not None else None
        self._kubelet = Kubelet(self._world, deletion, on_started=self._note_start)
        self._usage = usage.Usage(self._world, started=self._kubelet.running_since)
        self._workloads = Workloads(self._world)
        self._writing = Writing(self._world, deletion, etcd_limit=etcd_limit_bytes)
        self._reading = Reading(self._world)
        self._removing = Removing(self._world, deletion)
        self._router = Router(catalogue)
        self._discovery = Discovery(catalogue)
        self.exporters = Exporters(self._world, seed=seed, started=self._kubelet.running_since) if exporters else None
        for namespace in dict.fromkeys((*NAMESPACES, *(EXPORTER_NAMESPACES if exporters else ()), *namespaces)):
            body = to_json({"metadata": {"name": namespace}})
            self.request("POST", "/api/v1/namespaces", {}, {}, body)
        self._machines = Machines(self._world, self._kubelet, nodes)

    @property
    def resource_version(self) -> int:
        """The version of the last write."""
        return self._store.version

    def advance(self) -> None:
        """Let everything happen that is due by the clock."""
        self._agenda.run()

    def next_wakeup(self) -> float | None:
        """The unix time at which something is to happen next, or None when nothing is planned."""
        return self._agenda.next()

    def on_earlier_wakeup(self, callback: Callable[[], None]) -> None:
        """Call `callback` when `next_wakeup` may have become earlier. There is one such callback: the driver's."""
        self._agenda.alarm = callback

    def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> Response | Stream:
        """Answer one request. `path` is decoded and without its query. Never raises for what a client sends."""
        self._agenda.run()
        try:
            return self._answer(method, path, query, headers, body)
        except RefusedError as refusal:
            return refusal.response()

    def _answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> Response | Stream:
        route = self._router.find(path)
        if route is None:
            proxied = self.exporters.answer(method, path) if self.exporters is not None else None
            if proxied is not None:
                return proxied
            page = self._discovery.page(path)
            if page is None:
                raise no_such_path()
            return page
        refuse_unreadable(headers, body)
        if route.kind.group == usage.GROUP:
            return self._usage.answer(method, route, query)
        if route.subresource in ("log", "eviction", "token"):
            return self._action(method, route, query, body)
        if route.name:
            return self._answer_for_object(method, route, query, headers, body)
        match method:
            case "GET":
                return self._reading.list_or_watch(route, query)
            case "POST":
                return self._writing.create(route, query, headers, body)
            case "DELETE":
                return self._removing.delete_collection(route, query, body)
            case _:
                raise not_allowed()

    def _answer_for_object(
        self, method: str, route: Route, query: Mapping[str, str], headers: Mapping[str, str], body: bytes | None
    ) -> Response:
        match method:
            case "GET":
                return self._reading.get(route)
            case "PUT":
                return self._writing.update(route, query, headers, body)
            case "PATCH":
                return self._writing.patch(route, query, headers, body)
            case "DELETE":
                return self._removing.delete(route, query, body)
            case _:
                raise not_allowed()

    def _action(self, method: str, route: Route, query: Mapping[str, str], body: bytes | None) -> Response | Stream:
        entry = self._store.get(route.kind, route.namespace, route.name)
        if entry is None:
            raise not_found(route.kind, route.name)
        if route.subresource == "log" and method == "GET":
            return read_log(entry, self._kubelet.log_of(entry.uid), query, self._agenda)
        if route.subresource == "eviction" and method == "POST":
            self._kubelet.disrupt(entry, reason="EvictionByEvictionAPI")
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
            return Response(status=201, body=to_json(status))
        if route.subresource == "token" and method == "POST":
            return service_accounts.answer(route.namespace, route.name, body, now=self._agenda.now)
        raise not_allowed()

    def interrupt_node(
        self, name: str, *, reason: str = "DeletionByTaintManager", back_after: float | None = None, returns: bool = True
    ) -> None:
        """Take a node away as a spot interruption does: its pods are disrupted, it goes, and comes back after a while.

        `back_after` is in seconds after its end, by default `pace.node_return`. Raises KeyError for a node that isn't there.
        """
        self._agenda.run()
        wait = self.pace.node_return if back_after is None else back_after
        self._machines.interrupt(name, reason=reason, back_after=wait if returns else None)

    def preempt_job(self, namespace: str, name: str) -> None:
        """Suspend a running Job as Kueue does for the sake of another; it waits in its queue again.

        Raises KeyError for a Job that isn't there, and RuntimeError where there is no Kueue.
        """
        self._agenda.run()
        job = self._store.get(self._world.jobs, namespace, name)
        if job is None:
            raise KeyError(f"{namespace}/{name}")
        if self._queues is None:
            raise RuntimeError("this cluster has no queues")
        self._queues.suspend(job.uid)

    @property
    def node_names(self) -> list[str]:
        """The nodes that are there now."""
        return sorted(entry.name for entry in self._store.select(self._world.nodes, "", Selector(self._world.nodes)))

    def compact(self) -> None:
        """Forget the history, as etcd does: watches from an older version and unfinished lists get their 410."""
        self._agenda.run()
        self._store.compact()
        self._reading.forget_unfinished()

    def _note_start(self, pod: Entry) -> None:
        if self.exporters is not None and self.exporters.is_one(pod.uid):
            return
        reference = controller_of(pod.obj)
        owner = self._store.by_uid(reference["uid"]) if reference is not None else None
        job = owner or pod
        self.started.append(
            Started(
                job_uid=reference["uid"] if reference is not None else pod.uid,
                job_name=reference["name"] if reference is not None else pod.name,
                namespace=pod.namespace,
                annotations=job.obj["metadata"].get("annotations") or {},
                pod_name=pod.name,
                time=self._agenda.now,
            )
        )
        for listener in self.on_pod_started:
            listener(job.whole(), pod.whole())
