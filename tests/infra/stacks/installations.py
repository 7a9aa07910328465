"""The installations that tests look at, made of the settings that the project comes with."""

from __future__ import annotations

import copy
import tomllib

from infra.cdk.settings import DEFAULT_FILE, Installation

DOCUMENT = tomllib.loads(DEFAULT_FILE.read_text(encoding="utf-8"))
IMAGE = "123456789012.dkr.ecr.us-east-1.example/gpufleet:1.0"
RESTORED = "gpufleet-20261130"
RESTORED_STREAM = f"arn:aws:dynamodb:us-east-1:123456789012:table/{RESTORED}/stream/2026-11-30T09:00:00.123"
MORE = ("us-west-2", "eu-central-1", "ap-southeast-2")


def document(regions=2, **more):
    """The settings' document with so many regions, an image that is there already, and other settings."""
    found = copy.deepcopy(DOCUMENT)
    first = found["regions"][0]
    found["regions"] += [first | {"name": name, "network": f"10.{number}.0.0/16"} for number, name in enumerate(MORE, 2)]
    found["regions"] = found["regions"][:regions]
    found["workers"] = {"image": IMAGE, "dispatchers": 3}
    return found | more


def installation(regions=2, **more):
    return Installation.of(document(regions, **more))


INSTALLATIONS = {
    "one": lambda: installation(1),
    "two": lambda: installation(2),
    "five": lambda: installation(
        5,
        api={"jwt": {"issuer": "https://issuer.example", "audience": ["gpufleet"]}},
        alarms={"email": "oncall@example.com"},
        administrators=["arn:aws:iam::123456789012:role/admin"],
        job_namespaces=["gco-jobs", "research"],
        removal="destroy",
        environment={"GPUFLEET_READY_SHARDS": "4", "GPUFLEET_LEASE_SECONDS": "600", "GPUFLEET_SHUTDOWN_SECONDS": "120"},
        metrics={"rollups": ["region", "region+namespace"], "prometheus_url": "https://prometheus.example"},
    ),
    "bare": lambda: installation(1, charts={}),
    "restored": lambda: installation(2, table={"stream_arn": RESTORED_STREAM}, job_log_days=90),
    "imported": lambda: installation(2, table={"stream_arn": RESTORED_STREAM, "imported": True}, job_log_days=90),
}
