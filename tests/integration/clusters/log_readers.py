"""Jobs that write, and a reader of their logs who remembers what was shown, and where."""

import asyncio
from contextlib import aclosing

from shared.clusters.kinds import JOB
from shared.clusters.log_following import LogFollower
from shared.clusters.log_items import Choice, Ended, Lines, Notice, Opened
from shared.clusters.log_positions import decode
from tests.integration.clusters.builders import NAMESPACE

PREFIX = "simulation.gpufleet.io/"
JOBS = JOB.path(NAMESPACE)


def numbered(count, name="line"):
    return [f"{name} {number}" for number in range(count)]


def a_job(*, containers=("main",), init=(), restart="Never", backoff_limit=0, parallelism=1, completions=None, **steer):
    """A Job; `steer` tells its pods what to do, `logs__side` what the container `side` writes."""
    annotations = {}
    for key, value in steer.items():
        text = "\n".join(value) if isinstance(value, list) else str(value)
        annotations[PREFIX + key.replace("__", ".").replace("_", "-")] = text
    spec = {
        "restartPolicy": restart,
        "containers": [{"name": name, "image": "busybox:1"} for name in containers],
        "initContainers": [{"name": name, "image": "busybox:1"} for name in init],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "backoffLimit": backoff_limit,
            "parallelism": parallelism,
            "completions": completions or parallelism,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


async def create(api, **options):
    return await api.request("POST", JOBS, body=a_job(**options))


class Shown:
    """What a reader has seen, with the position after each line, as it goes over the wire."""

    def __init__(self):
        self.lines: list[tuple[str, str, str]] = []
        self.positions: list[str] = []
        self.notices: list[str] = []
        self.opened: set[str] = set()
        self.end: Ended | None = None

    @property
    def texts(self):
        return [text for _, _, text in self.lines]

    def of(self, container):
        return [text for _, name, text in self.lines if name == container]

    async def read(self, follower, *, until=None):
        """Read to the end, or so many lines."""
        async with asyncio.timeout(20), aclosing(follower.items()) as items:
            async for item in items:
                match item:
                    case Lines():
                        for line in item.lines:
                            self.lines.append((item.source.pod, item.source.container, line.text))
                            self.positions.append(follower.position_after(item.source, line.at))
                            if until is not None and len(self.lines) >= until:
                                return self
                    case Notice():
                        self.notices.append(item.message)
                    case Opened():
                        self.opened.add(item.source.container)
                    case Ended():
                        self.end = item
        return self


async def follow(api, job, *, position=None, until=None, shown=None, ends_with_pod=False, **choice):
    follower = LogFollower(api, job, Choice(**choice), position and decode(position), ends_with_pod=ends_with_pod)
    return await (shown or Shown()).read(follower, until=until)
