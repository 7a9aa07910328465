"""`python -m infra.cdk.cost`: what a fleet with nothing to do costs a month besides its clusters, for one region and for all of them.

How many of everything there are is read from the templates; how often it is asked follows from the schedules and event sources in them,
from the code (which metrics an idle fleet writes) and from what was measured (`bench/idle.py`). An API that nobody calls costs nothing.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from infra.cdk import prices
from infra.cdk.prices import PRICES_OF, Price
from infra.cdk.settings import Installation
from infra.cdk.synthesis import command
from infra.functions import FUNCTIONS
from shared.health import telling
from shared.health.figures import figures_of
from shared.health.model import FleetHealth, RegionHealth, WebhookHealth
from shared.metrics.plan import MONTH_HOURS
from shared.metrics.rollups import REGIONAL

MONTH_MINUTES: Final = MONTH_HOURS * 60
MONTH_DAYS: Final = Decimal(MONTH_HOURS) / 24

LONG_POLLS: Final = 3
"""A minute, of one poller: it waits for 20 s."""
POLLERS: Final = 5
"""Of an event source mapping of SQS, at least: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html"""
CALL_SECONDS: Final = Decimal("0.5")
"""How long a scheduled call takes that finds nothing to do, with room for cold starts: some tenths of a second of waiting for answers."""
CALL_LOG_BYTES: Final = 500
"""Lambda's own lines of a call."""
TABLE_REQUESTS: Final = 3_000
"""Of an idle region a day: its dispatcher, its observer, and its part of sweeps, health and beats (the bound of `bench/idle.py`)."""
SWEEP_REQUESTS: Final = 1
"""Of each call of webhooks-sweep: a query of what is due."""
KEY_CALLS: Final = 12
"""An hour, of each principal that uses the table: DynamoDB keeps a caller's data key for five minutes.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html"""
USAGE_WRITES: Final = 7
"""An hour, of each observer: every ten minutes, and when the hour is over."""
CLUSTER_LOG_BYTES: Final = 300 * 1024**2
"""A day, of a cluster in which nothing happens: all five logs of its control plane, of which the audit log is the largest, and flows that
were refused. "On a quiet day [...] a few hundred megabytes" is an estimate:
https://abd-ulbasit.github.io/bookstore-kubernetes-guide/14-eks-in-production-a-to-z/05-logging-and-metrics-cost/"""


@dataclass(frozen=True, slots=True)
class Line:
    """So many of something in a month."""

    price: Price
    count: Decimal

    @property
    def listed(self) -> Decimal:
        """USD by list prices."""
        return self.count * self.price.usd

    @property
    def billed(self) -> Decimal:
        """USD on the bill of an account that has nothing else."""
        return max(self.count - self.price.free, Decimal(0)) * self.price.usd


@dataclass(frozen=True, slots=True)
class Bill:
    """A month of an idle fleet of some regions."""

    regions: int
    lines: tuple[Line, ...]

    @property
    def listed(self) -> Decimal:
        """USD by list prices, as if nothing were free."""
        return sum((line.listed for line in self.lines), Decimal(0))

    @property
    def billed(self) -> Decimal:
        """USD on the bill, after what every account has for nothing."""
        return sum((line.billed for line in self.lines), Decimal(0))


Resources = Sequence[Mapping[str, Any]]


def bill(installation: Installation, resources: Resources) -> Bill:
    """The bill of an installation, of the resources of its control and its monitoring stack."""
    lines = (*_of_templates(resources), *_of_schedules(resources), *_of_polls(installation, resources), *_of_table(installation, resources))
    counts: dict[Price, Decimal] = {}
    for line in lines:
        counts[line.price] = counts.get(line.price, Decimal(0)) + line.count
    return Bill(len(installation.regions), tuple(Line(price, count) for price, count in counts.items() if count))


def _of_templates(resources: Resources) -> Iterator[Line]:
    yield Line(prices.KEY, Decimal(_count(resources, "AWS::KMS::Key")))
    yield Line(prices.DASHBOARD, Decimal(_count(resources, "AWS::CloudWatch::Dashboard")))
    alarms = [one["Properties"] for one in resources if one["Type"] == "AWS::CloudWatch::Alarm"]
    yield Line(prices.ALARM, Decimal(sum(_metrics_of(one) for one in alarms)))


def _metrics_of(alarm: Mapping[str, Any]) -> int:
    return sum("MetricStat" in one for one in alarm["Metrics"]) if "Metrics" in alarm else 1


def _of_schedules(resources: Resources) -> Iterator[Line]:
    """The functions that schedules call, and what these write when there is nothing to do."""
    calls = {function.name: Decimal(0) for function in FUNCTIONS}
    for one in resources:
        if one["Type"] == "AWS::Events::Rule":
            calls[_called(one["Properties"], resources)] += Decimal(MONTH_MINUTES) / _minutes(one["Properties"]["ScheduleExpression"])
    total = sum(calls.values(), Decimal(0))
    yield Line(prices.CALL, total)
    memory = {function.name: Decimal(function.memory_mb) / 1024 for function in FUNCTIONS}
    yield Line(prices.MEMORY_SECOND, sum((count * memory[name] for name, count in calls.items()), Decimal(0)) * CALL_SECONDS)
    yield Line(prices.LOG_BYTE, total * CALL_LOG_BYTES)
    yield Line(prices.PUT_METRIC, calls["metrics"])
    yield Line(prices.S3_PUT, calls["metrics"])
    yield Line(prices.S3_GET, calls["health"])
    yield Line(prices.TABLE_READ, calls["webhooks-sweep"] * SWEEP_REQUESTS)


def _of_polls(installation: Installation, resources: Resources) -> Iterator[Line]:
    mappings = [one["Properties"] for one in resources if one["Type"] == "AWS::Lambda::EventSourceMapping"]
    # The mapping of the table's stream has a position; Lambda reads streams of DynamoDB for nothing.
    behind_queues = sum("StartingPosition" not in one for one in mappings)
    pollers = behind_queues * POLLERS + len(installation.regions) * installation.workers.dispatchers
    yield Line(prices.SQS_REQUEST, Decimal(pollers * LONG_POLLS * MONTH_MINUTES))


def _of_table(installation: Installation, resources: Resources) -> Iterator[Line]:
    regions = len(installation.regions)
    documents = _told(installation)
    yield Line(prices.METRIC, Decimal(sum(len(one["_aws"]["CloudWatchMetrics"][0]["Metrics"]) for one in documents) + REGIONAL * regions))
    yield Line(prices.LOG_BYTE, Decimal(sum(len(json.dumps(one)) for one in documents) * MONTH_MINUTES))
    # All of them as if they were writes, which cost five times as much as reads.
    yield Line(prices.TABLE_WRITE, TABLE_REQUESTS * MONTH_DAYS * regions)
    principals = _count(resources, "AWS::IAM::Role")
    yield Line(prices.KEY_REQUEST, Decimal(principals * KEY_CALLS * MONTH_HOURS))
    yield Line(prices.S3_PUT, Decimal(USAGE_WRITES * MONTH_HOURS * regions))


def _told(installation: Installation) -> list[dict[str, Any]]:
    """What CloudWatch is told of a fleet in which nothing is to do."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    regions = tuple(RegionHealth(region=name, jobs={}, observed_seconds=300.0, scraped_seconds=30.0) for name in installation.region_names)
    return telling.embedded(figures_of(FleetHealth(at=now, regions=regions, webhooks=WebhookHealth())), now)


def _count(resources: Resources, kind: str) -> int:
    return sum(one["Type"] == kind for one in resources)


def _minutes(expression: str) -> int:
    """The minutes of `rate(10 minutes)`."""
    return int(expression.removeprefix("rate(").split()[0])


def _called(rule: Mapping[str, Any], resources: Resources) -> str:
    """The function that a rule calls: the longest name that the rule's begins with, which may end in a region."""
    name = rule["Name"]
    functions = [one["Properties"]["FunctionName"] for one in resources if one["Type"] == "AWS::Lambda::Function"]
    found = max((one for one in functions if name == one or name.startswith(f"{one}-")), key=len)
    prefix = min(functions, key=len).rpartition("-")[0]
    return str(found).removeprefix(f"{prefix}-")


def cluster_lines(installation: Installation) -> tuple[Line, ...]:
    """What the cluster of the first region costs while no job runs: what a fleet of any make would pay."""
    region = installation.regions[0]
    nodes, hours = region.system.min_nodes, Decimal(MONTH_HOURS)
    return (
        Line(prices.CONTROL_PLANE_HOUR, hours),
        Line(prices.NODE_HOUR, hours * nodes),
        Line(prices.NAT_HOUR, hours * region.nat_gateways),
        Line(prices.ADDRESS_HOUR, hours * region.nat_gateways),
        Line(prices.DISK_GIB, Decimal(30 * nodes)),
        Line(prices.KEY, Decimal(1)),
        Line(prices.LOG_BYTE, CLUSTER_LOG_BYTES * MONTH_DAYS),
    )


def synthesized(installation: Installation) -> Resources:
    """The resources of the control and the monitoring stack of an installation; stand-ins serve for the functions' packages."""
    from infra.cdk.app import build

    with tempfile.TemporaryDirectory() as folder:
        packages, outdir = Path(folder) / "packages", Path(folder) / "out"
        packages.mkdir()
        for function in FUNCTIONS:
            zipfile.ZipFile(packages / f"{function.name}.zip", "w").close()
        # The workers' image is none of this.
        named = installation.model_copy(update={"workers": installation.workers.model_copy(update={"image": "gpufleet:none"})})
        build(named, packages=packages, outdir=outdir, checked=False).synth()
        return resources_in(outdir, installation.name)


def resources_in(outdir: Path, name: str) -> Resources:
    """The resources of an installation's control and monitoring stack in a cloud assembly."""
    documents = [json.loads((outdir / f"{name}-{stack}.template.json").read_text(encoding="utf-8")) for stack in ("control", "monitoring")]
    return [one for document in documents for one in document["Resources"].values()]


def table(bills: Sequence[Bill]) -> str:
    """Bills as a table of Markdown: what is listed, and what is billed."""
    priced = list(dict.fromkeys(line.price for one in bills for line in one.lines))
    heads = [f"{one.regions} region{'s' if one.regions > 1 else ''}" for one in bills]
    rows = [["a month", *(f"{head}: {part}" for head in heads for part in ("count", "list", "billed"))]]
    rows.append(["---", *["---:"] * (3 * len(bills))])
    for price in priced:
        row = [price.what]
        for one in bills:
            (line,) = [line for line in one.lines if line.price == price] or [Line(price, Decimal(0))]
            row += [f"{line.count:,.0f}", f"{line.listed:.2f}", f"{line.billed:.2f}"]
        rows.append(row)
    rows.append(["**together, USD**", *(cell for one in bills for cell in ("", f"**{one.listed:.2f}**", f"**{one.billed:.2f}**"))])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def told() -> None:
    """Print the tables."""
    installation = Installation.load()
    counts = sorted({1, min(2, len(installation.regions)), len(installation.regions)})
    some = [installation.model_copy(update={"regions": installation.regions[:count]}) for count in counts]
    sys.stdout.write(f"Prices of {PRICES_OF}, us-east-1; billed: after what every account has for nothing.\n\n")
    sys.stdout.write(f"{table([bill(one, synthesized(one)) for one in some])}\n\nA cluster without jobs, a month:\n\n")
    lines = cluster_lines(installation)
    for line in lines:
        sys.stdout.write(f"| {line.price.what} | {line.count:,.0f} | {line.listed:.2f} |\n")
    sys.stdout.write(f"| **together, USD** | | **{sum(line.listed for line in lines):.2f}** |\n")


if __name__ == "__main__":
    sys.exit(command("infra.cdk.cost", __doc__, sys.argv[1:], told))
