"""A simulated cluster with a clock that the test moves, and short ways to ask it."""

from __future__ import annotations

import json
from typing import Any

from workers.local.cluster import NodeShape, Pace, SimulatedCluster, Stream, parse_shapes

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
BEGINNING = 1_800_000_000.0


class Answer:
    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.status = status
        self.text = body.decode()
        self.headers = headers

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def items(self) -> list[dict[str, Any]]:
        return self.json["items"]

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.items]

    @property
    def refusal(self) -> tuple[int, str]:
        assert self.json["kind"] == "Status"
        assert self.json["code"] == self.status
        return self.status, self.json["reason"]


class Bench:
    def __init__(self, *, nodes: list[NodeShape] | str = "2xm5.4xlarge", seed: int = 7, pace: Pace | None = None, **options: Any) -> None:
        self.now = BEGINNING
        shapes = parse_shapes(nodes) if isinstance(nodes, str) else nodes
        self.cluster = SimulatedCluster(
            name="test", region="eu-west-1", nodes=shapes, clock=lambda: self.now, seed=seed, pace=pace, **options
        )

    def run(self, seconds: float) -> None:
        """Let time go by, from one thing that is due to the next."""
        end = self.now + seconds
        while (due := self.cluster.next_wakeup()) is not None and due <= end:
            self.now = max(self.now, due)
            self.cluster.advance()
        self.now = end
        self.cluster.advance()

    def call(self, method: str, path: str, body: Any = None, *, media: str = "application/json", **query: Any) -> Answer:
        content = None if body is None else json.dumps(body).encode()
        texts = {name.rstrip("_"): str(value) for name, value in query.items()}
        answer = self.cluster.request(method, path, texts, {"Content-Type": media, "User-Agent": "tests/1"}, content)
        assert not isinstance(answer, Stream)
        return Answer(answer.status, answer.body, dict(answer.headers))

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path, **query)

    def post(self, path: str, body: Any, **query: Any) -> Answer:
        return self.call("POST", path, body, **query)

    def patch(self, path: str, body: Any, media: str = MERGE, **query: Any) -> Answer:
        return self.call("PATCH", path, body, media=media, **query)

    def delete(self, path: str, body: Any = None, **query: Any) -> Answer:
        return self.call("DELETE", path, body, **query)

    def stream(self, path: str, **query: Any) -> Stream:
        texts = {name: str(value) for name, value in query.items()}
        answer = self.cluster.request("GET", path, texts, {}, None)
        assert isinstance(answer, Stream)
        return answer

    def watch(self, path: str, **query: Any) -> Stream:
        return self.stream(path, watch="true", **query)

    def job(self, name: str) -> dict[str, Any]:
        return self.get(f"{JOBS}/{name}").json

    def pods_of(self, name: str) -> list[dict[str, Any]]:
        return self.get(PODS, labelSelector=f"job-name={name}").items

    def start(self, name: str, seconds: float = 0.3, **options: Any) -> dict[str, Any]:
        """Create a Job and let it come to run."""
        created = self.post(JOBS, job(name, **options))
        assert created.status == 201, created.text
        self.run(seconds)
        return self.job(name)


def events(stream: Stream) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.take()]


def types(stream: Stream) -> list[str]:
    return [event["type"] for event in events(stream)]


def conditions(obj: dict[str, Any]) -> dict[str, str]:
    """The conditions that hold, with their reasons."""
    found = obj["status"].get("conditions", ())
    return {condition["type"]: condition.get("reason", "") for condition in found if condition["status"] == "True"}


def job(
    name: str,
    *,
    annotations: dict[str, str] | None = None,
    restart: str = "Never",
    pod: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    steer: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A Job; `steer` are annotations of its template without their prefix."""
    steering = {f"simulation.gpufleet.io/{key}": value for key, value in (steer or {}).items()}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
        "spec": {
            **spec,
            "template": {
                "metadata": {"annotations": steering},
                "spec": {
                    "restartPolicy": restart,
                    "containers": [{"name": "main", "image": "busybox:1", **(container or {})}],
                    **(pod or {}),
                },
            },
        },
    }


def config_map(name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}
