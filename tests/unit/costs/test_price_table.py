"""The table that prices come from where nobody can be asked."""

from collections import defaultdict
from decimal import Decimal

import pytest

from shared.costs.gpu_prices import AS_OF, gpu_prices
from shared.costs.model import CapacityType
from shared.costs.price_table import CPU_AS_OF, PriceTable, on_demand_price
from tests.unit.costs.builders import machine, window
from workers.local.cluster.node_shapes import parse_shapes


@pytest.mark.parametrize(
    ("region", "instance_type", "usd"),
    [
        ("us-east-1", "g5.12xlarge", "5.672"),
        ("us-east-1", "p4d.24xlarge", "21.957642"),
        ("eu-west-1", "p4d.24xlarge", "23.71569"),
        ("eu-west-1", "g4ad.xlarge", "0.42263"),
        ("eu-north-1", "p5en.48xlarge", "67.72672"),
        ("ap-northeast-2", "p5.48xlarge", "75.9552"),
        ("sa-east-1", "g5.48xlarge", "27.68636"),
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
    price, _ = on_demand_price(region, instance_type) or (None, None)
    assert price == Decimal(usd)


@pytest.mark.parametrize(
    ("region", "instance_type"),
    [("mars-1", "m5.large"), ("eu-west-1", "p5.48xlarge"), ("us-east-1", "x9.huge"), ("us-east-1", "m5.3xlarge"), ("us-east-1", "m5")],
)
def test_what_is_not_in_the_table_has_no_price(region, instance_type):
    assert on_demand_price(region, instance_type) is None


@pytest.mark.parametrize(("instance_type", "as_of"), [("g5.12xlarge", AS_OF), ("m5.large", CPU_AS_OF)])
async def test_a_price_of_the_table_tells_its_date(instance_type, as_of):
    (rate,) = await PriceTable().rates(machine(instance_type), window())
    assert (rate.source, rate.as_of, rate.start) == ("table", as_of, window().start)


def test_sizes_of_a_family_differ_in_a_region_as_they_do_in_another():
    """EC2 prices a family in a region by one factor, rounded: a figure that was copied wrongly would stand out."""
    factors = defaultdict(list)
    for (region, instance_type), price in gpu_prices().items():
        factors[region, instance_type.partition(".")[0]].append(price / gpu_prices()["us-east-1", instance_type])
    wrong = {key for key, those in factors.items() if max(those) / min(those) > Decimal("1.002")}
    assert (len(factors) > 100, wrong) == (True, set())


def test_all_regions_with_many_gpus_are_in_the_table():
    regions = {region for region, _ in gpu_prices()}
    assert len(regions) == 22
    assert {region for region in regions if (region, "g5.12xlarge") not in gpu_prices()} <= {
        *("us-west-1", "ap-northeast-3", "ap-south-2", "ap-southeast-1"),
    }


async def test_the_table_knows_nothing_of_spot_machines():
    assert await PriceTable().rates(machine(capacity_type=CapacityType.SPOT), window()) == []


def test_every_machine_of_the_simulated_clusters_has_a_price():
    kinds = ("g4ad.xlarge", "g4ad.16xlarge", "g4dn.xlarge", "g5.48xlarge", "g6.xlarge", "g6e.12xlarge", "p5.48xlarge", "c7i.8xlarge")
    for shape in parse_shapes(",".join(kinds)):
        assert on_demand_price("us-east-1", shape.instance_type) is not None
