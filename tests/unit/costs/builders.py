"""Nodes, pods and prices of tests, in few words."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from shared.costs.model import CapacityType, NodeUsage, PodUsage, Rate, Window
from shared.costs.prices import Machine

REGION = "us-east-1"
GIB = 2**30
DAY = date(2026, 5, 17)


def at(text: str, day: int = 17) -> datetime:
    """`at("09:30")`: a time of the day on which most tests play."""
    return datetime.fromisoformat(f"2026-05-{day:02d}T{text}").replace(tzinfo=UTC)


def window(start: str = "00:00", end: str | None = None, day: int = 17) -> Window:
    first = at(start, day)
    return Window(first, at(end, day) if end else first.replace(hour=0, minute=0) + timedelta(days=1))


def node(uid: str = "n1", start: str | datetime = "00:00", end: str | datetime | None = None, **fields: Any) -> NodeUsage:
    """A g5.12xlarge on demand, unless said."""
    described = {
        "name": f"ip-{uid}",
        "instance_type": "g5.12xlarge",
        "zone": "us-east-1a",
        "cores": Decimal(48),
        "memory_bytes": 192 * GIB,
        "gpus": 4,
        "region": REGION,
        "cluster": REGION,
    }
    return NodeUsage(uid=uid, start=_moment(start), end=_moment(end), **{**described, **fields})


def pod(uid: str = "p1", start: str | datetime = "00:00", end: str | datetime | None = None, **fields: Any) -> PodUsage:
    """A pod of a job on the node n1 that asks for a quarter of it, unless said."""
    described = {
        "node": "ip-n1",
        "namespace": "ml",
        "job_id": f"job-{uid}",
        "job_name": "train" if fields.get("job_id", uid) else None,
        "execution": 1,
        "submitted_by": "ada",
        "cores": Decimal(12),
        "memory_bytes": 48 * GIB,
        "gpus": 1,
        "region": REGION,
        "cluster": REGION,
    }
    return PodUsage(uid=uid, start=_moment(start), end=_moment(end), **{**described, **fields})


def rate(usd: str, start: str | datetime = "00:00", source: str = "test", as_of: date = DAY) -> Rate:
    return Rate(start=_moment(start), usd_per_hour=Decimal(usd), source=source, as_of=as_of)


def machine(instance_type: str = "g5.12xlarge", capacity_type: CapacityType = CapacityType.ON_DEMAND, zone: str | None = None) -> Machine:
    return Machine(region=REGION, instance_type=instance_type, capacity_type=capacity_type, zone=zone)


def _moment(given: Any) -> Any:
    return at(given) if isinstance(given, str) else given
