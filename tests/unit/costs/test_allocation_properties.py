"""Whatever nodes, pods and prices there were: everything adds up."""

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.costs.allocation import allocate
from shared.costs.model import CapacityType, RowKind, Window, exact_sum
from shared.costs.rounding import QUANTUM, rounded
from shared.costs.timeline import cost_of_nodes
from tests.unit.costs.builders import at, machine, node, pod, rate

BEGIN = at("09:00")
SECONDS = 4000
TYPES = ("g5.12xlarge", "m5.large", None)

moments = st.integers(-200_000_000, SECONDS * 1_000_000).map(lambda micro: BEGIN + timedelta(microseconds=micro)) | st.integers(
    -20, SECONDS
).map(lambda second: BEGIN + timedelta(seconds=second))
ends = st.none() | moments
cores = st.decimals(0, 200, places=3)
bytes_ = st.integers(0, 2**41)
gpus = st.integers(0, 8)


@st.composite
def clusters(draw):
    nodes = [
        node(
            f"n{draw(st.integers(0, 3))}",  # some of them told twice
            draw(moments),
            draw(ends),
            name=f"ip-{draw(st.integers(0, 2))}",
            instance_type=draw(st.sampled_from(TYPES)),
            capacity_type=draw(st.sampled_from(CapacityType)),
            cores=draw(cores),
            memory_bytes=draw(bytes_),
            gpus=draw(gpus),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    pods = [
        pod(
            f"p{draw(st.integers(0, 9))}",
            draw(moments),
            draw(ends),
            node=f"ip-{draw(st.integers(0, 3))}",
            job_id=draw(st.sampled_from(["j1", "j2", "j3", None])),
            execution=draw(st.integers(1, 2)),
            namespace=draw(st.sampled_from(["a", "b"])),
            cores=draw(cores),
            memory_bytes=draw(bytes_),
            gpus=draw(gpus),
        )
        for _ in range(draw(st.integers(0, 10)))
    ]
    return nodes, pods


@st.composite
def prices(draw):
    machines = [machine(kind, capacity, zone) for kind in TYPES[:2] for capacity in CapacityType for zone in (None, "us-east-1a")]
    usd = st.decimals(0, 120, places=10)
    return {
        one: [rate(str(draw(usd)), draw(moments), draw(st.sampled_from(["spot", "table"]))) for _ in range(draw(st.integers(0, 3)))]
        for one in machines
    }


@st.composite
def cut_windows(draw):
    start = draw(st.integers(-10, SECONDS - 2))
    middle, end = sorted(draw(st.sets(st.integers(start + 1, SECONDS), min_size=2, max_size=2)))
    first, second, last = (BEGIN + timedelta(seconds=one) for one in (start, middle, end))
    return Window(first, last), Window(first, second), Window(second, last)


@settings(deadline=None, max_examples=200)
@given(clusters(), prices(), cut_windows())
def test_jobs_and_others_and_idle_are_the_cost_of_the_nodes_in_any_window(cluster, rates, cut):
    nodes, pods = cluster
    for window in cut:
        rows = allocate(nodes, pods, rates, window)
        cost = cost_of_nodes(nodes, rates, window)
        assert exact_sum(row.total_cost for row in rows) == cost
        assert all(part >= 0 for row in rows for part in (row.cpu_cost, row.ram_cost, row.gpu_cost))
        short = rounded(rows)
        assert sum((row.total_cost for row in short), Decimal(0)) == cost.quantize(QUANTUM)
        for row, exact in zip(short, rows, strict=True):
            assert abs(row.cpu_cost - exact.cpu_cost) <= QUANTUM
            assert abs(row.gpu_cost - exact.gpu_cost) <= QUANTUM


@settings(deadline=None, max_examples=150)
@given(clusters(), prices(), cut_windows())
def test_a_window_cut_in_two_adds_up_to_the_whole_row_by_row(cluster, rates, cut):
    whole, first, second = (_by_key(allocate(*cluster, rates, window)) for window in cut)
    assert set(first) | set(second) == set(whole)
    for key, amounts in whole.items():
        halves = [half.get(key, (Decimal(0),) * len(amounts)) for half in (first, second)]
        assert tuple(exact_sum(part) for part in zip(*halves, strict=True)) == amounts


@settings(deadline=None, max_examples=100)
@given(clusters(), prices(), cut_windows(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_told_and_that_they_are_told_again_change_nothing(cluster, rates, cut, chance):
    nodes, pods = cluster
    kinds = {one.uid: one for one in nodes}  # a node doesn't change its type
    nodes = [kinds[one.uid] for one in nodes]
    pods = list({one.uid: one for one in pods}.values())
    again = [*nodes, *nodes], [*pods, *pods]
    for told in again:
        chance.shuffle(told)
    assert _by_key(allocate(*again, rates, cut[0])) == _by_key(allocate(nodes, pods, rates, cut[0]))


@settings(deadline=None, max_examples=100)
@given(clusters(), prices(), cut_windows())
def test_a_job_never_costs_more_than_the_nodes_it_was_on(cluster, rates, cut):
    nodes, pods = cluster
    cost = cost_of_nodes(nodes, rates, cut[0])
    jobs = exact_sum(row.total_cost for row in allocate(nodes, pods, rates, cut[0]) if row.kind is RowKind.JOB)
    assert jobs <= cost


def _by_key(rows):
    found = defaultdict(list)
    for row in rows:
        key = (row.kind, row.namespace, row.job_id, row.execution, row.instance_type, row.capacity_type, row.price_source)
        found[key].append((row.cpu_cost, row.ram_cost, row.gpu_cost, row.cpu_core_seconds, row.ram_byte_seconds, row.gpu_seconds))
    return {key: tuple(exact_sum(part) for part in zip(*parts, strict=True)) for key, parts in found.items()}
