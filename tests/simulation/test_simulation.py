"""The simulation itself, in small: seeds that pass, runs that can be run again, and sabotage that is noticed."""

import pytest

from tests.simulation import sabotage
from tests.simulation.regressions import REGRESSIONS
from tests.simulation.world import run

SEEDS = range(40)
SABOTAGE_SEEDS = range(200)


@pytest.mark.parametrize("seed", [*SEEDS, *(seed for seed in REGRESSIONS if seed not in SEEDS)])
def test_nothing_is_violated(seed):
    result = run(seed)

    assert result.violation is None, "\n".join([*result.trace[-40:], str(result.violation)])


@pytest.mark.parametrize("seed", [3, 17])
def test_a_seed_that_is_run_again_takes_the_same_steps(seed):
    first, second = run(seed), run(seed)

    assert first.steps > 100
    assert (first.digest, first.trace, first.counts) == (second.digest, second.trace, second.counts)


def test_different_seeds_take_different_steps():
    assert run(3).digest != run(4).digest


def first_violation(name):
    with sabotage.applied(name):
        violations = (result.violation for seed in SABOTAGE_SEEDS if (result := run(seed)).violation is not None)
        return next(violations, None)


def test_a_commit_without_its_fence_is_noticed():
    violation = first_violation("commit-without-fence")

    assert violation is not None
    assert "comes to rest" not in violation.invariant


def test_an_object_that_may_run_before_its_commit_is_noticed():
    violation = first_violation("create-unsuspended")

    assert violation is not None
    assert violation.invariant == "only the committed object is released"


def test_sabotage_ends_with_its_block():
    with sabotage.applied("create-unsuspended"):
        pass

    assert run(0).violation is None
