"""A server that speaks as much of EC2 and of the Price List API as prices need, in their own wire forms."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aiohttp import web

PAGE = 2


@dataclass
class PriceServer:
    """What is asked and answered. Pages hold two entries."""

    spot: list[tuple[str, str, str]] = field(default_factory=list)
    """Zone, time, price."""
    products: list[str] = field(default_factory=list)
    failing: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        if request.headers.get("X-Amz-Target") == "AWSPriceListService.GetProducts":
            if self.failing:
                body = json.dumps({"__type": "ThrottlingException", "message": "slow down"})
                return web.Response(status=400, text=body, content_type="application/x-amz-json-1.1")
            return self._products(json.loads(await request.read()))
        if self.failing:
            error = "<Error><Code>RequestLimitExceeded</Code><Message>slow down</Message></Error>"
            body = f"<Response><Errors>{error}</Errors><RequestID>r</RequestID></Response>"
            return web.Response(status=503, text=body, content_type="text/xml")
        form = await request.post()
        assert form["Action"] == "DescribeSpotPriceHistory"
        return self._history({key: str(value) for key, value in form.items()})

    def _products(self, asked: dict[str, Any]) -> web.Response:
        self.asked.append(asked)
        start = int(asked.get("NextToken", "0"))
        more = {"NextToken": str(start + PAGE)} if start + PAGE < len(self.products) else {}
        body = {"FormatVersion": "aws_v1", "PriceList": self.products[start : start + PAGE], **more}
        return web.Response(text=json.dumps(body), content_type="application/x-amz-json-1.1")

    def _history(self, asked: dict[str, str]) -> web.Response:
        """The entries of a time, the newest first, and for each zone the last before it, as EC2 has it."""
        self.asked.append(asked)
        start, end = (datetime.fromisoformat(asked[key]) for key in ("StartTime", "EndTime"))
        zones = [one for one in self.spot if asked.get("AvailabilityZone", one[0]) == one[0]]
        within = [one for one in zones if start < datetime.fromisoformat(one[1]) <= end]
        before = {one[0]: one for one in sorted(zones, key=lambda one: one[1]) if datetime.fromisoformat(one[1]) <= start}
        found = sorted([*within, *before.values()], key=lambda one: one[1], reverse=True)
        first = int(asked.get("NextToken") or 0)
        token = str(first + PAGE) if first + PAGE < len(found) else ""
        items = "".join(
            f"<item><instanceType>{asked['InstanceType.1']}</instanceType><productDescription>Linux/UNIX</productDescription>"
            f"<spotPrice>{price}</spotPrice><timestamp>{at}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
            for zone, at, price in found[first : first + PAGE]
        )
        body = (
            '<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>'
            f"<spotPriceHistorySet>{items}</spotPriceHistorySet><nextToken>{token}</nextToken></DescribeSpotPriceHistoryResponse>"
        )
        return web.Response(text=body, content_type="text/xml")


@asynccontextmanager
async def price_server() -> AsyncIterator[PriceServer]:
    """A running server, on a port of its own."""
    server = PriceServer()
    app = web.Application()
    app.router.add_post("/{path:.*}", server.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    try:
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def product(usd: str = "5.6720000000", *, instance_type: str = "g5.12xlarge", **changes: Any) -> dict[str, Any]:
    """An entry of the price list, shaped as AWS does; keyword arguments change its attributes."""
    return {
        "product": {
            "productFamily": "Compute Instance",
            "attributes": {
                "instanceType": instance_type,
                "regionCode": "us-east-1",
                "location": "US East (N. Virginia)",
                "operatingSystem": "Linux",
                "tenancy": "Shared",
                "preInstalledSw": "NA",
                "licenseModel": "No License required",
                "capacitystatus": "Used",
                "marketoption": "OnDemand",
                "operation": "RunInstances",
                "vcpu": "48",
                **changes,
            },
            "sku": "SKU",
        },
        "serviceCode": "AmazonEC2",
        "terms": {
            "OnDemand": {
                "SKU.JRTCKXETXF": {
                    "priceDimensions": {
                        "SKU.JRTCKXETXF.6YS6EN2CT7": {
                            "unit": "Hrs",
                            "endRange": "Inf",
                            "description": f"${usd} per On Demand Linux {instance_type} Instance Hour",
                            "appliesTo": [],
                            "rateCode": "SKU.JRTCKXETXF.6YS6EN2CT7",
                            "beginRange": "0",
                            "pricePerUnit": {"USD": usd},
                        }
                    },
                    "sku": "SKU",
                    "effectiveDate": "2026-05-01T00:00:00Z",
                    "offerTermCode": "JRTCKXETXF",
                    "termAttributes": {},
                }
            },
            "Reserved": {"SKU.38NPMPTW36": {"priceDimensions": {}, "sku": "SKU", "termAttributes": {"LeaseContractLength": "1yr"}}},
        },
        "version": "20260512000000",
        "publicationDate": "2026-05-12T00:00:00Z",
    }
