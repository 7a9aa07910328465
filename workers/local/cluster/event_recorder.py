"""Events as the components of a cluster write them: repeated ones are counted up, floods are cut, and all are forgotten after a while.

Two recorders are at work in a real cluster, and clients see both. Most components have client-go's `tools/record`: `count`,
`firstTimestamp`, `lastTimestamp`, and limits against floods. The scheduler has `tools/events`: `eventTime`, and a `series` once an event
repeats. See events_cache.go and event_broadcaster.go there.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache

from workers.local.cluster.agenda import Agenda
from workers.local.cluster.kinds import Catalogue
from workers.local.cluster.objects import Object, rfc3339, rfc3339_nanoseconds
from workers.local.cluster.randomness import Randomness
from workers.local.cluster.store import Entry, Store

SCHEDULER = "default-scheduler"
EVENT_TTL = 3600.0
"""Seconds since an event was written last; kube-apiserver, --event-ttl."""
MOST_EVENTS = 20_000
"""Of one cluster; beyond these the oldest go early. etcd has no such limit, but a laptop has."""
_BURST, _REFILL = 25.0, 1 / 300
"""Events that a component may write about one object at once, and how many a second come back; what is beyond is not written."""
_SIMILAR, _SIMILAR_SECONDS = 10, 600.0
"""So many different messages of one reason about an object become one event, until there was none for so long."""
_ACTIONS = {"Scheduled": "Binding", "Preempted": "Preempting"}
_REMEMBERED = 4096
"""Objects whose events are remembered, to count them up."""


@dataclass(slots=True)
class _Told:
    """What one component has written about one object: by reason and message, the name of the event and how often it happened."""

    last: float
    tokens: float = _BURST
    events: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)

    def of(self, reason: str, now: float) -> dict[str, tuple[str, int]]:
        """The messages of a reason; forgets them when there were too many of them some time ago."""
        messages = self.events.get(reason)
        if messages is None or (len(messages) >= _SIMILAR and now - self.last > _SIMILAR_SECONDS):
            messages = self.events[reason] = {}
        return messages

    def may_write(self, now: float) -> bool:
        self.tokens = min(_BURST, self.tokens + (now - self.last) * _REFILL)
        self.last = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class EventRecorder:
    """Writes events for all components. One that is not `enabled` writes none."""

    def __init__(self, *, store: Store, agenda: Agenda, catalogue: Catalogue, randomness: Randomness, enabled: bool = True) -> None:
        self._store = store
        self._agenda = agenda
        self._randomness = randomness
        self._enabled = enabled
        self._kind = catalogue.core("Event")
        self._namespaces = catalogue.core("Namespace")
        self._told: OrderedDict[tuple[str, str], _Told] = OrderedDict()
        self._expiries: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._planned = False
        self._count = 0

    def record(
        self, about: Entry, *, reason: str, message: str, component: str, warning: bool = False, host: str = "", part: str = ""
    ) -> None:
        """Tell what happened to an object. `host` is the node on which that was, `part` the field path of a part of the object."""
        namespace = about.namespace or "default"
        if not self._enabled or not self._takes_events(namespace):
            return
        series, now = component == SCHEDULER, self._agenda.now
        told = self._remembered(component, about.uid)
        events = told.of(reason, now)
        key = "" if series else part + message
        if not series and len(events) >= _SIMILAR - 1 and key not in events:
            key, message = "", f"(combined from similar events): {message}"
        name, count = events.get(key, ("", 0))
        entry = self._store.get(self._kind, namespace, name) if name else None
        count = count + 1 if entry is not None else 1
        events[key] = (name, count)
        if not told.may_write(now) and not series:
            return
        if entry is None:
            said = {"reason": reason, "message": message, "type": "Warning" if warning else "Normal"}
            writer = self._as_scheduler(reason) if series else self._as_component(component, host)
            name = self._create(namespace, {"involvedObject": _reference(about, part), **said, **writer})
            events[key] = (name, count)
        else:
            again = self._series(count) if series else {"count": count, "message": message, "lastTimestamp": rfc3339(now)}
            self._store.replace(entry, {**entry.obj, **again})
        self._keep((namespace, name))

    def _takes_events(self, namespace: str) -> bool:
        home = self._store.get(self._namespaces, "", namespace)
        return home is not None and "deletionTimestamp" not in home.obj["metadata"]

    def _remembered(self, component: str, uid: str) -> _Told:
        key = (component, uid)
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = _Told(self._agenda.now)
            if len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)
        return told

    def _create(self, namespace: str, event: Object) -> str:
        self._count += 1
        name = f"{event['involvedObject']['name']}.{int(self._agenda.now * 1e6):x}{self._count:06x}"
        now, uid = rfc3339(self._agenda.now), self._randomness.uid()
        self._store.create(self._kind, {"metadata": {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": now}, **event})
        return name

    def _as_component(self, component: str, host: str) -> Object:
        now = rfc3339(self._agenda.now)
        return {
            "source": _source(component, host),
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "eventTime": None,
            "reportingComponent": component,
            "reportingInstance": host,
        }

    def _as_scheduler(self, reason: str) -> Object:
        return {
            "source": {},
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": self._precise_now(),
            "action": _ACTIONS.get(reason, "Scheduling"),
            "reportingComponent": SCHEDULER,
            "reportingInstance": f"{SCHEDULER}-0",
        }

    def _series(self, count: int) -> Object:
        """A real recorder sends further counts only now and then."""
        return {"series": {"count": count, "lastObservedTime": self._precise_now()}}

    def _precise_now(self) -> str:
        """As `metav1.MicroTime`."""
        return f"{rfc3339_nanoseconds(self._agenda.now)[:-4]}Z"

    def _keep(self, place: tuple[str, str]) -> None:
        """Let an event live for its time from now on."""
        if not self._planned:
            self._planned = True
            self._agenda.after(EVENT_TTL, self._forget)
        self._expiries.pop(place, None)
        self._expiries[place] = self._agenda.now + EVENT_TTL
        if len(self._expiries) > MOST_EVENTS:
            self._remove(next(iter(self._expiries)))

    def _forget(self) -> None:
        now = self._agenda.now
        while self._expiries:
            place, expiry = next(iter(self._expiries.items()))
            if expiry > now:
                self._agenda.at(expiry, self._forget)
                return
            self._remove(place)
        self._planned = False

    def _remove(self, place: tuple[str, str]) -> None:
        del self._expiries[place]
        entry = self._store.get(self._kind, *place)
        if entry is not None:
            self._store.remove(entry)


@lru_cache(maxsize=4096)
def _source(component: str, host: str) -> Object:
    """The same dictionary in every event of a component on a host."""
    return {"component": component, "host": host} if host else {"component": component}


def _reference(about: Entry, part: str) -> Object:
    return {
        "kind": about.kind.kind,
        **({"namespace": about.namespace} if about.namespace else {}),
        "name": about.name,
        "uid": about.uid,
        "apiVersion": about.kind.api_version,
        "resourceVersion": str(about.version),
        **({"fieldPath": part} if part else {}),
    }
