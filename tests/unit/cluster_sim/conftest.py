import pytest

from tests.unit.cluster_sim.harness import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()
