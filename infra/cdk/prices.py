"""List prices that an idle fleet meets, in USD, of us-east-1, and what every account has for nothing each month, for ever.

Each from the pricing page of its service (https://aws.amazon.com/<service>/pricing/). What ends after a year is left out. No price is asked
for when this runs: look at the pages before you sign a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

PRICES_OF: Final = date(2025, 11, 1)
"""As of when. https://cloudburn.io/blog/amazon-cloudwatch-pricing tells those of CloudWatch alike of February 2026; the others are not
confirmed since."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one of something costs, and how many of it cost nothing in a month."""

    what: str
    usd: Decimal
    free: int = 0


def _price(what: str, usd: str, free: int = 0, *, of: int = 1) -> Price:
    return Price(what, Decimal(usd) / of, free)


MILLION: Final = 1_000_000

KEY: Final = _price("KMS: key", "1")
KEY_REQUEST: Final = _price("KMS: requests", "0.03", 20_000, of=10_000)
ALARM: Final = _price("CloudWatch: metrics that alarms look at", "0.10", 10)
DASHBOARD: Final = _price("CloudWatch: dashboards", "3", 3)
METRIC: Final = _price("CloudWatch: metrics of our own", "0.30", 10)
PUT_METRIC: Final = _price("CloudWatch: PutMetricData", "0.01", MILLION, of=1000)
LOG_BYTE: Final = _price("CloudWatch: bytes of logs", "0.50", 5 * 1024**3, of=1024**3)
SQS_REQUEST: Final = _price("SQS: requests", "0.40", MILLION, of=MILLION)
CALL: Final = _price("Lambda: calls", "0.20", MILLION, of=MILLION)
MEMORY_SECOND: Final = _price("Lambda: GB-seconds (arm64)", "0.0000133334", 400_000)
TABLE_WRITE: Final = _price("DynamoDB: writes", "0.625", of=MILLION)
TABLE_READ: Final = _price("DynamoDB: reads", "0.125", of=MILLION)
S3_PUT: Final = _price("S3: writes", "0.005", of=1000)
S3_GET: Final = _price("S3: reads", "0.0004", of=1000)

# Of a cluster, which is none of the fleet's own cost.
CONTROL_PLANE_HOUR: Final = _price("EKS: hours of a control plane", "0.10")
NODE_HOUR: Final = _price("EC2: hours of t4g.medium", "0.0336")
NAT_HOUR: Final = _price("VPC: hours of a NAT gateway", "0.045")
ADDRESS_HOUR: Final = _price("VPC: hours of a public address", "0.005")
DISK_GIB: Final = _price("EBS: GiB (gp3)", "0.08")
