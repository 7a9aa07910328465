"""Spot prices, which the emulator's EC2 doesn't know: the same for every type, at the beginning of the time that is asked for.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
"""

from __future__ import annotations

from typing import Any, Final

from ministack.core.responses import get_region
from ministack.services import ec2

PRICE: Final = "2.41"


def install() -> None:
    """Let the emulator answer DescribeSpotPriceHistory."""
    ec2._ACTION_MAP["DescribeSpotPriceHistory"] = _history


def _history(asked: dict[str, Any]) -> Any:
    zone = ec2._p(asked, "AvailabilityZone") or f"{get_region()}a"
    fields = {
        "instanceType": ec2._p(asked, "InstanceType.1"),
        "productDescription": ec2._p(asked, "ProductDescription.1"),
        "spotPrice": PRICE,
        "timestamp": ec2._p(asked, "StartTime"),
        "availabilityZone": zone,
    }
    item = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return ec2._xml(200, "DescribeSpotPriceHistoryResponse", f"<spotPriceHistorySet><item>{item}</item></spotPriceHistorySet>")
