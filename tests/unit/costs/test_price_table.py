"""The table that prices come from where nobody can be asked."""

from decimal import Decimal

import pytest

from shared.costs.model import CapacityType
from shared.costs.price_table import AS_OF, PriceTable, on_demand_price
from tests.unit.costs.builders import machine, window
from workers.local.cluster.node_shapes import parse_shapes


@pytest.mark.parametrize(
    ("region", "instance_type", "usd"),
    [
        ("us-east-1", "g5.12xlarge", "5.672"),
        ("us-west-2", "p4d.24xlarge", "21.957642"),
        ("us-east-2", "p5.48xlarge", "55.04"),
        ("us-east-1", "c7i.8xlarge", "1.428"),
        ("us-east-2", "m7i.48xlarge", "9.6768"),
        ("us-east-1", "m5.large", "0.096"),
        ("eu-west-1", "m5.4xlarge", "0.856"),
        ("eu-west-1", "g5.2xlarge", "1.35296"),
        ("eu-west-1", "m7i.8xlarge", "1.7976"),
    ],
)
def test_prices_are_those_of_the_price_list(region, instance_type, usd):
    assert on_demand_price(region, instance_type) == Decimal(usd)


@pytest.mark.parametrize(
    ("region", "instance_type"),
    [("mars-1", "m5.large"), ("eu-west-1", "p5.48xlarge"), ("us-east-1", "x9.huge"), ("us-east-1", "m5.3xlarge"), ("us-east-1", "m5")],
)
def test_what_is_not_in_the_table_has_no_price(region, instance_type):
    assert on_demand_price(region, instance_type) is None


async def test_a_price_of_the_table_tells_its_date():
    (rate,) = await PriceTable().rates(machine(), window())
    assert (rate.source, rate.as_of, rate.start) == ("table", AS_OF, window().start)


async def test_the_table_knows_nothing_of_spot_machines():
    assert await PriceTable().rates(machine(capacity_type=CapacityType.SPOT), window()) == []


def test_every_machine_of_the_simulated_clusters_has_a_price():
    kinds = ("g4ad.xlarge", "g4ad.16xlarge", "g4dn.xlarge", "g5.48xlarge", "g6.xlarge", "g6e.12xlarge", "p5.48xlarge", "c7i.8xlarge")
    for shape in parse_shapes(",".join(kinds)):
        assert on_demand_price("us-east-1", shape.instance_type) is not None
