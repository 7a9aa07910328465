"""How the cost of a job is shown."""

import pytest

from workers.cli.records import cost, job_page


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (None, None),
        ({"usd": "1.25", "known_usd": "1.25", "missing": None}, "1.250000 USD"),
        ({"usd": "0", "known_usd": "0", "missing": None}, "0.000000 USD"),
        ({"usd": None, "known_usd": "0.5", "missing": "execution 2 has not ended"}, "0.500000 USD (execution 2 has not ended)"),
        ({"known_usd": "0", "missing": "no price"}, "not known (no price)"),
    ],
    ids=["not-told", "all", "nothing", "a-part", "of-an-execution"],
)
def test_a_cost_is_told_with_what_is_missing(told, shown):
    assert cost(told) == shown


def test_a_job_and_its_executions_have_their_costs(capsys):
    execution = {"number": 1, "state": "failed", "cost": {"known_usd": "0.25", "missing": None}}
    job_page({"id": "a", "cost": {"usd": "1.25", "known_usd": "1.25", "missing": None}, "executions": [execution, {"number": 2}]})

    shown = capsys.readouterr().out
    assert "1.250000 USD" in shown
    assert "0.250000 USD" in shown
    assert "COST" in shown
