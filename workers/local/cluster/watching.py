"""Watches: the history after a version, then every write as it comes, bookmarks, and the end.

Two ways in which a real API server breaks a naive client are here on purpose: an expired version is told inside a
successful stream (an ERROR event with code 410), and an object that stops matching the selector arrives as DELETED.
"""

from __future__ import annotations

from collections.abc import Mapping

from workers.local.cluster.agenda import Agenda, Timer
from workers.local.cluster.answers import WATCH, Stream, expired
from workers.local.cluster.kinds import Kind
from workers.local.cluster.objects import to_json
from workers.local.cluster.parameters import is_true, number_in
from workers.local.cluster.randomness import Randomness
from workers.local.cluster.selectors import Selector
from workers.local.cluster.store import ADDED, DELETED, MODIFIED, Change, Store, event_line

# kube-apiserver, --min-request-timeout: a watch without timeoutSeconds lives between this and twice this.
_MIN_REQUEST_TIMEOUT = 1800.0
# kube-apiserver's cacher sends a bookmark about once a minute.
_BOOKMARK_INTERVAL = 60.0


class Watch(Stream):
    """One client's view of one kind."""

    def __init__(self, *, kind: Kind, namespace: str, selector: Selector, store: Store, agenda: Agenda) -> None:
        super().__init__(WATCH)
        self._kind = kind
        self._namespace = namespace
        self._selector = selector
        self._store = store
        self._agenda = agenda
        self._timers: list[Timer] = []
        self._stop = store.watch(kind, self.see)

    def see(self, change: Change) -> None:
        """Pass a write on, as it looks through the selector."""
        if self._namespace and change.new.namespace != self._namespace:
            return
        if self._selector.empty:
            self.push(change.line(change.type))
            return
        was = change.old is not None and self._selector.matches(change.old.obj)
        now = change.type != DELETED and self._selector.matches(change.new.obj)
        if was or now:
            self.push(change.line(MODIFIED if was and now else ADDED if now else DELETED))

    def end_at(self, moment: float) -> None:
        """Close the stream at that time, as the server does when the request's time is over."""
        self._timers.append(self._agenda.at(moment, self.close))

    def bookmark_every(self, seconds: float) -> None:
        """Send a BOOKMARK now and then, so that a quiet watch keeps a version that history still reaches."""

        def send() -> None:
            version = str(self._store.version)
            bookmark = {
                "kind": self._kind.kind,
                "apiVersion": self._kind.api_version,
                "metadata": {"resourceVersion": version, "creationTimestamp": None},
            }
            self.push(to_json({"type": "BOOKMARK", "object": bookmark}) + b"\n")
            self._timers[0] = self._agenda.after(seconds, send)

        self._timers.insert(0, self._agenda.after(seconds, send))

    def fail(self, version: int) -> None:
        """Tell that history does not reach back to a version, and end."""
        error = expired(f"too old resource version: {version} ({self._store.version})").status()
        self.push(to_json({"type": "ERROR", "object": error}) + b"\n")
        self.close()

    def close(self) -> None:
        """End the stream and leave nothing behind."""
        self._stop()
        for timer in self._timers:
            timer.cancel()
        super().close()


def open_watch(
    *,
    kind: Kind,
    namespace: str,
    selector: Selector,
    query: Mapping[str, str],
    store: Store,
    agenda: Agenda,
    randomness: Randomness,
) -> Watch:
    """Start a watch; without `resourceVersion`, or with "0", it begins with what is there as ADDED."""
    version, seconds = number_in(query, "resourceVersion"), number_in(query, "timeoutSeconds")
    watch = Watch(kind=kind, namespace=namespace, selector=selector, store=store, agenda=agenda)
    if not version:
        for entry in store.select(kind, namespace, selector):
            watch.push(event_line(ADDED, entry))
    else:
        missed = store.since(kind, version)
        if missed is None:
            watch.fail(version)
            return watch
        for change in missed:
            watch.see(change)
    if is_true(query, "allowWatchBookmarks"):
        watch.bookmark_every(_BOOKMARK_INTERVAL)
    timeout = seconds or _MIN_REQUEST_TIMEOUT + randomness.between(0, _MIN_REQUEST_TIMEOUT)
    watch.end_at(agenda.now + timeout)
    return watch
