"""Logs followed over an API that is ended twice, once in order and once not."""

import signal

import pytest

from tests.e2e import following
from tests.e2e.conftest import Fleet, until


@pytest.fixture
def after(fleet: Fleet):
    """Tests that come later find an API."""
    yield
    until(lambda: fleet.embedded.processes["api"].ready)


@pytest.mark.usefixtures("after")
def test_every_line_comes_once_over_restarts_of_the_api(fleet: Fleet) -> None:
    restarts = [signal.SIGTERM, signal.SIGKILL]

    outcome = fleet.call(following.run(fleet.embedded, seconds=12, lines=240, restarts=restarts))

    for reader in outcome.readers:
        assert reader.lines == outcome.expected, str(outcome)
    assert [name for name, _ in outcome.ends] == ["SIGTERM", "SIGKILL"]
    assert outcome.ends[0][1] < 5, str(outcome)
