"""What every controller of one cluster shares: its store, its time, its chance, its pace, and the recorder of events."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from workers.local.cluster.agenda import Agenda
from workers.local.cluster.kinds import Catalogue
from workers.local.cluster.objects import Object, rfc3339
from workers.local.cluster.randomness import Randomness
from workers.local.cluster.store import Entry, Store

# kube-apiserver, --event-ttl.
_EVENT_TTL = 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How long things take, in simulated seconds. A real cluster is some fifty times slower in all but the first."""

    controller_delay: float = 0.005
    """Between a write and a controller's answer to it."""
    container_start: float = 0.05
    """Between the placing of a pod and its containers running: image pull and start."""
    default_duration: float = 0.5
    """How long a pod runs that carries no `simulation.gpufleet.io/duration`."""
    termination: float = 0.2
    """How long a running pod takes to go once it was told to, at most its grace period."""
    backoff_base: float = 0.2
    """The Job controller's wait after the first failed pod; doubles with each one. 10 on a real cluster."""
    backoff_limit: float = 12.0
    """The longest such wait. 600 on a real cluster."""
    node_notice: float = 0.4
    """Between the interruption of a node and its end. 120 for an EC2 spot instance."""
    node_return: float = 5.0
    """Between the end of an interrupted node and its replacement."""


class World:
    """The shared parts, by name."""

    def __init__(
        self,
        *,
        name: str,
        region: str,
        catalogue: Catalogue,
        store: Store,
        agenda: Agenda,
        randomness: Randomness,
        pace: Pace,
    ) -> None:
        self.name = name
        self.region = region
        self.catalogue = catalogue
        self.store = store
        self.agenda = agenda
        self.randomness = randomness
        self.pace = pace
        self.jobs = catalogue.core("Job")
        self.pods = catalogue.core("Pod")
        self.nodes = catalogue.core("Node")
        self._events = catalogue.core("Event")
        self._namespaces = catalogue.core("Namespace")
        self._recorded: deque[tuple[float, str, str]] = deque()
        self._event_count = 0

    @property
    def timestamp(self) -> str:
        """Now, as Kubernetes writes it."""
        return rfc3339(self.agenda.now)

    def metadata(self, *, name: str, namespace: str = "", **more: object) -> Object:
        """The metadata of a new object."""
        place = {"namespace": namespace} if namespace else {}
        return {"name": name, **place, "uid": self.randomness.uid(), "creationTimestamp": self.timestamp, **more}

    def record(self, about: Entry, *, type: str, reason: str, message: str, component: str) -> None:  # noqa: A002 - its name in v1
        """Store an Event about an object; it goes after an hour."""
        namespace = about.namespace or "default"
        home = self.store.get(self._namespaces, "", namespace)
        if home is None or "deletionTimestamp" in home.obj["metadata"]:
            return
        self._event_count += 1
        name = f"{about.name}.{int(self.agenda.now * 1e6):x}{self._event_count:06x}"
        place = {"namespace": about.namespace} if about.namespace else {}
        self.store.create(
            self._events,
            {
                "metadata": self.metadata(name=name, namespace=namespace),
                "involvedObject": {
                    "kind": about.kind.kind,
                    **place,
                    "name": about.name,
                    "uid": about.uid,
                    "apiVersion": about.kind.api_version,
                    "resourceVersion": str(about.version),
                },
                "reason": reason,
                "message": message,
                "source": {"component": component},
                "firstTimestamp": self.timestamp,
                "lastTimestamp": self.timestamp,
                "count": 1,
                "type": type,
                "eventTime": None,
                "reportingComponent": component,
                "reportingInstance": "",
            },
        )
        if not self._recorded:
            self.agenda.after(_EVENT_TTL, self._forget_events)
        self._recorded.append((self.agenda.now + _EVENT_TTL, namespace, name))

    def _forget_events(self) -> None:
        recorded, now = self._recorded, self.agenda.now
        while recorded and recorded[0][0] <= now:
            _, namespace, name = recorded.popleft()
            entry = self.store.get(self._events, namespace, name)
            if entry is not None:
                self.store.remove(entry)
        if recorded:
            self.agenda.at(recorded[0][0], self._forget_events)
