"""What machines cost on demand, by the AWS Price List API.

https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html. It gives each product as a text of JSON.
Of one instance type there are hundreds of products (operating systems, tenancies, reservations, capacity blocks), some at nothing; what is
asked for narrows them to one, and what comes is held to that once more. Anything else than one price is no price.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import structlog
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, Field, ValidationError

from shared.clock import Clock
from shared.costs.model import Rate, Window
from shared.costs.prices import Machine
from shared.errors import UnavailableError

log = structlog.get_logger()

PRICE_LIST: Final = "price-list"
ENDPOINT_REGION: Final = "us-east-1"
"""The API is served in a few regions only, and knows the prices of all."""
KEPT_FOR: Final = timedelta(hours=1)
_WANTED: Final = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "licenseModel": "No License required",
    "capacitystatus": "Used",  # others are reservations, at nothing
    "marketoption": "OnDemand",  # else a GPU type's capacity blocks come, too
}

Name = Annotated[str, Field(min_length=1)]


class _Amounts(BaseModel):
    USD: Decimal = Field(gt=0, allow_inf_nan=False)


class _Dimension(BaseModel):
    unit: Literal["Hrs"]
    pricePerUnit: _Amounts  # noqa: N815 - the names of the price list, here and below


class _Offer(BaseModel):
    effectiveDate: datetime  # noqa: N815
    priceDimensions: dict[Name, _Dimension] = Field(min_length=1, max_length=1)  # noqa: N815


class _Terms(BaseModel):
    OnDemand: dict[Name, _Offer] = Field(min_length=1, max_length=1)


class _Product(BaseModel):
    attributes: dict[str, str]


class _Entry(BaseModel):
    """One product of the price list, as far as it is read. A product has one offer on demand, and that one price: no tiers."""

    product: _Product
    terms: _Terms

    def offer(self) -> tuple[Decimal, date]:
        """USD an hour, and the day from which on it holds."""
        (offer,) = self.terms.OnDemand.values()
        (dimension,) = offer.priceDimensions.values()
        return dimension.pricePerUnit.USD, offer.effectiveDate.date()


class PriceList:
    """Prices on demand of Linux machines. The list has no past: what it says now holds for all of a window, and the row says of which day
    it is. An answer is kept for an hour."""

    def __init__(self, client: Any, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[Machine, tuple[datetime, tuple[Decimal, date] | None]] = {}

    async def rates(self, machine: Machine, window: Window) -> Sequence[Rate]:
        """As `PriceSource`."""
        now = self._clock.now()
        known = self._known.get(machine)
        if known is None or now - known[0] >= KEPT_FOR:
            known = self._known[machine] = (now, await self._ask(machine))
        if known[1] is None:
            return ()
        price, as_of = known[1]
        return [Rate(start=window.start, usd_per_hour=price, source=PRICE_LIST, as_of=as_of)]

    async def _ask(self, machine: Machine) -> tuple[Decimal, date] | None:
        wanted = {"regionCode": machine.region, "instanceType": machine.instance_type, **_WANTED}
        filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]
        pages = self._client.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", FormatVersion="aws_v1", Filters=filters)
        try:
            texts = [text async for page in pages for text in page["PriceList"]]
        except (ClientError, BotoCoreError, OSError, TimeoutError) as error:
            raise UnavailableError(f"price list of {machine.instance_type} in {machine.region}: {error}") from error
        try:
            entries = [_Entry.model_validate_json(text) for text in texts]
        except ValidationError as error:
            log.warning("price list not understood", machine=str(machine), problems=error.errors(include_url=False, include_input=False))
            return None
        offers = {entry.offer() for entry in entries if entry.product.attributes.items() >= wanted.items()}
        if len(offers) > 1:
            log.warning("price list has several prices of one machine", machine=str(machine), prices=sorted(str(one) for one, _ in offers))
        return offers.pop() if len(offers) == 1 else None
