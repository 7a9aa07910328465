"""What every controller of one cluster shares: its store, its time, its chance, its pace, and the recorder of events."""

from __future__ import annotations

from dataclasses import dataclass

from workers.local.cluster.agenda import Agenda
from workers.local.cluster.event_recorder import EventRecorder
from workers.local.cluster.kinds import Catalogue
from workers.local.cluster.objects import Object, rfc3339
from workers.local.cluster.randomness import Randomness
from workers.local.cluster.store import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How long things take, in simulated seconds. A real cluster is some fifty times slower in all but the first."""

    controller_delay: float = 0.005
    """Between a write and a controller's answer to it."""
    container_start: float = 0.05
    """Between the placing of a pod and its containers running: image pull and start."""
    first_sample: float = 0.3
    """Between the start of a pod's containers and the first sample of what they use; 15 to 30 on a real cluster."""
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
        events: EventRecorder,
    ) -> None:
        self.name = name
        self.region = region
        self.catalogue = catalogue
        self.store = store
        self.agenda = agenda
        self.randomness = randomness
        self.pace = pace
        self.events = events
        self.jobs = catalogue.core("Job")
        self.pods = catalogue.core("Pod")
        self.nodes = catalogue.core("Node")

    @property
    def timestamp(self) -> str:
        """Now, as Kubernetes writes it."""
        return rfc3339(self.agenda.now)

    def metadata(self, *, name: str, namespace: str = "", **more: object) -> Object:
        """The metadata of a new object."""
        place = {"namespace": namespace} if namespace else {}
        return {"name": name, **place, "uid": self.randomness.uid(), "creationTimestamp": self.timestamp, **more}
