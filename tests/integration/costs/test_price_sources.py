"""Prices as they come over the wire, and what is made of answers that aren't what was asked for."""

import json
from collections.abc import AsyncIterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from aiobotocore.config import AioConfig

from shared.aws import Aws, connect
from shared.costs.gpu_prices import AS_OF
from shared.costs.model import CapacityType, Window
from shared.costs.price_list import PriceList
from shared.costs.prices import FirstThatKnows, rates_of
from shared.costs.sources import price_source
from shared.costs.spot_rates import Ec2SpotRates
from shared.errors import UnavailableError
from shared.spot_prices import Ec2SpotPrices
from tests.integration.costs.aws_prices import PriceServer, price_server, product
from tests.unit.costs.builders import at, machine, node, window

SPOT = machine(capacity_type=CapacityType.SPOT, zone="us-east-1a")
HISTORY = [
    ("us-east-1a", "2026-05-17T06:00:00+00:00", "2.10"),
    ("us-east-1a", "2026-05-17T08:30:00+00:00", "2.20"),
    ("us-east-1a", "2026-05-17T09:20:00+00:00", "2.41"),
    ("us-east-1a", "2026-05-17T09:40:00+00:00", "2.50"),
    ("us-east-1a", "2026-05-17T10:20:00+00:00", "9.99"),
    ("us-east-1b", "2026-05-17T09:10:00+00:00", "2.30"),
    ("us-east-1b", "2026-05-17T07:00:00+00:00", "1.90"),
    ("us-east-1b", "2026-05-17T09:30:00+00:00", "2.05"),
]
ELEVEN = at("11:00")
HOUR = window("09:00", "10:00")


@dataclass
class Stopped:
    """A clock that a test moves."""

    time: datetime = ELEVEN

    def now(self) -> datetime:
        return self.time


@dataclass(frozen=True)
class Prices:
    """A server of prices, and clients of it."""

    server: PriceServer
    aws: Aws


@pytest.fixture
async def prices(aws_environment: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Prices]:
    config = AioConfig(retries={"mode": "standard", "max_attempts": 1}, parameter_validation=False)
    async with price_server() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        async with connect("us-east-1", "ec2", "pricing", config=config) as aws:
            yield Prices(server, aws)


def told(rates):
    return [(rate.start, rate.usd_per_hour) for rate in rates]


async def test_spot_history_of_a_zone_begins_with_the_price_that_held_at_the_start(prices):
    prices.server.spot = HISTORY
    found = await Ec2SpotRates({"us-east-1": prices.aws.ec2}).rates(SPOT, HOUR)
    assert told(found) == [(at("08:30"), Decimal("2.20")), (at("09:20"), Decimal("2.41")), (at("09:40"), Decimal("2.50"))]
    assert {(rate.source, rate.as_of) for rate in found} == {("ec2-spot-history", date(2026, 5, 17))}
    assert len(prices.server.asked) == 2  # pages


async def test_where_the_zone_is_not_known_the_lowest_price_counts_at_each_time(prices):
    prices.server.spot = HISTORY
    found = await Ec2SpotRates({"us-east-1": prices.aws.ec2}).rates(machine(capacity_type=CapacityType.SPOT), HOUR)
    lowest = [("07:00", "1.90"), ("09:10", "2.20"), ("09:20", "2.30"), ("09:30", "2.05")]
    assert told(found) == [(at(time), Decimal(price)) for time, price in lowest]
    assert {rate.source for rate in found} == {"ec2-spot-history-lowest-zone"}


async def test_of_a_type_or_a_region_that_ec2_does_not_know_nothing_is_known(prices):
    source = Ec2SpotRates({"us-east-1": prices.aws.ec2})
    assert await source.rates(SPOT, HOUR) == []
    assert await Ec2SpotRates({}).rates(SPOT, HOUR) == ()


async def test_the_present_price_comes_of_the_same_history(prices):
    prices.server.spot = HISTORY
    assert await Ec2SpotPrices({"us-east-1": prices.aws.ec2}, Stopped(at("09:50"))).price("us-east-1", "g5.12xlarge") == Decimal("2.05")


async def test_the_price_list_is_asked_for_one_product_and_tells_of_which_day_its_price_is(prices):
    prices.server.products = [json.dumps(product())]
    (rate,) = await PriceList(prices.aws.pricing, Stopped()).rates(machine(), HOUR)
    assert (rate.start, rate.usd_per_hour, rate.source, rate.as_of) == (HOUR.start, Decimal("5.672"), "price-list", date(2026, 5, 1))
    asked = {one["Field"]: one["Value"] for one in prices.server.asked[0]["Filters"]}
    assert asked["regionCode"] == "us-east-1"
    assert (asked["marketoption"], asked["capacitystatus"]) == ("OnDemand", "Used")


async def test_the_price_list_is_asked_once_an_hour(prices):
    clock = Stopped()
    source = PriceList(prices.aws.pricing, clock)
    for minutes, price, expected in ((0, "5", "5"), (59, "6", "5"), (1, "7", "7")):
        clock.time += timedelta(minutes=minutes)
        prices.server.products = [json.dumps(product(price))]
        (rate,) = await source.rates(machine(), HOUR)
        assert rate.usd_per_hour == Decimal(expected)


async def test_products_that_were_not_asked_for_do_not_count(prices):
    others = [
        product("0.0000000001", marketoption="CapacityBlock"),
        product("1", tenancy="Dedicated"),
        product("2", regionCode="us-west-1"),
        product("3", instance_type="g5.24xlarge"),
    ]
    prices.server.products = [json.dumps(one) for one in [*others, product(), product()]]
    (rate,) = await PriceList(prices.aws.pricing, Stopped()).rates(machine(), HOUR)
    assert rate.usd_per_hour == Decimal("5.672")


def _without_terms(entry):
    del entry["terms"]


def _two_dimensions(entry):
    _offer(entry)["priceDimensions"]["another"] = deepcopy(_dimension(entry))


def _two_offers(entry):
    entry["terms"]["OnDemand"]["another"] = deepcopy(_offer(entry))


def _offer(entry):
    return entry["terms"]["OnDemand"]["SKU.JRTCKXETXF"]


def _dimension(entry):
    return _offer(entry)["priceDimensions"]["SKU.JRTCKXETXF.6YS6EN2CT7"]


BROKEN = {
    "no terms": _without_terms,
    "two dimensions": _two_dimensions,
    "two offers": _two_offers,
    "another unit": lambda entry: _dimension(entry).update(unit="Quantity"),
    "another currency": lambda entry: _dimension(entry).update(pricePerUnit={"CNY": "30"}),
    "no price": lambda entry: _dimension(entry).update(pricePerUnit={"USD": "0.0000000000"}),
    "not a number": lambda entry: _dimension(entry).update(pricePerUnit={"USD": "NaN"}),
    "words": lambda entry: _dimension(entry).update(pricePerUnit={"USD": "free"}),
    "no date": lambda entry: _offer(entry).update(effectiveDate="soon"),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_an_answer_that_is_not_one_price_is_no_price(prices, broken):
    entry = product()
    BROKEN[broken](entry)
    prices.server.products = [json.dumps(entry)]
    assert await PriceList(prices.aws.pricing, Stopped()).rates(machine(), HOUR) == ()


@pytest.mark.parametrize("texts", [[], ["{"], [json.dumps(product()), json.dumps(product("5.7"))]])
async def test_no_product_and_several_prices_are_no_price(prices, texts):
    prices.server.products = texts
    assert await PriceList(prices.aws.pricing, Stopped()).rates(machine(), HOUR) == ()


async def test_a_source_that_does_not_answer_is_told(prices):
    prices.server.failing = True
    with pytest.raises(UnavailableError, match=r"price list of g5\.12xlarge"):
        await PriceList(prices.aws.pricing, Stopped()).rates(machine(), HOUR)
    with pytest.raises(UnavailableError, match=r"spot price history of g5\.12xlarge"):
        await Ec2SpotRates({"us-east-1": prices.aws.ec2}).rates(SPOT, HOUR)


def source(prices, settings):
    return price_source(settings, ec2={"us-east-1": prices.aws.ec2}, pricing=prices.aws.pricing, clock=Stopped())


async def test_where_the_price_list_does_not_answer_the_table_does_and_says_so(prices, fleet_settings):
    prices.server.failing = True
    found = await rates_of([node(), node("n2")], source(prices, fleet_settings), HOUR)
    ((one, (rate,)),) = found.items()
    assert (one, rate.source, rate.as_of, rate.usd_per_hour) == (machine(), "table", AS_OF, Decimal("5.672"))


async def test_what_the_table_does_not_know_either_is_not_taken_for_unknown_while_the_list_is_silent(prices, fleet_settings):
    prices.server.failing = True
    with pytest.raises(UnavailableError):
        await rates_of([node(instance_type="x9.huge")], source(prices, fleet_settings), HOUR)
    prices.server.failing = False
    assert await rates_of([node(instance_type="x9.huge")], source(prices, fleet_settings), HOUR) == {machine("x9.huge"): ()}


async def test_spot_machines_and_capacity_blocks_have_no_price_of_the_list(prices, fleet_settings):
    prices.server.products, prices.server.spot = [json.dumps(product())], HISTORY
    nodes = [
        node("a", capacity_type=CapacityType.SPOT),
        node("b", capacity_type=CapacityType.CAPACITY_BLOCK),
        node("c"),
        node("d", instance_type=None),
        node("e", "11:00", instance_type="p5.48xlarge"),  # not of this window
    ]
    found = await rates_of(nodes, source(prices, fleet_settings), HOUR)
    assert {one.capacity_type: [rate.source for rate in rates] for one, rates in found.items()} == {
        CapacityType.SPOT: ["ec2-spot-history"] * 3,
        CapacityType.CAPACITY_BLOCK: [],
        CapacityType.ON_DEMAND: ["price-list"],
    }


async def test_where_a_file_has_the_spot_prices_nobody_is_asked(prices, fleet_settings, tmp_path):
    file = tmp_path / "prices.json"
    file.write_text('{"us-east-1": {"g5.12xlarge": 2.41}}')
    settings = fleet_settings.model_copy(update={"spot_prices_file": file})
    found = await rates_of([node(), node("n2", capacity_type=CapacityType.SPOT)], source(prices, settings), HOUR)
    assert {(rate.source, rate.usd_per_hour, rate.start) for rates in found.values() for rate in rates} == {
        ("file", Decimal("2.41"), HOUR.start),
        ("table", Decimal("5.672"), HOUR.start),
    }
    assert prices.server.asked == []


async def test_the_first_source_that_knows_is_the_one_that_counts(prices):
    prices.server.products = [json.dumps(product("1"))]
    first, second = (PriceList(prices.aws.pricing, Stopped()) for _ in range(2))
    both = FirstThatKnows((first, second))
    assert (await both.rates(machine(), HOUR))[0].usd_per_hour == 1
    assert len(prices.server.asked) == 1
    assert await FirstThatKnows(()).rates(machine(), Window(at("09:00"), at("10:00"))) == ()
