import pytest

from shared.jobs.states import LEGAL, IllegalTransitionError, State, check


def test_every_state_has_its_row_and_only_known_states_follow():
    assert set(LEGAL) == set(State)
    assert all(after in LEGAL for row in LEGAL.values() for after in row)


def test_nothing_follows_a_terminal_state():
    terminal = {state for state in State if state.terminal}
    assert terminal == {State.SUCCEEDED, State.FAILED, State.CANCELLED}
    for state in terminal:
        with pytest.raises(IllegalTransitionError):
            check(state, State.QUEUED)


def test_a_job_reaches_the_cluster_only_through_a_claim():
    assert [state for state, row in LEGAL.items() if State.PENDING in row] == [State.CLAIMED]


def test_every_state_that_is_not_terminal_can_still_end():
    for state in State:
        if not state.terminal:
            assert {State.FAILED, State.CANCELLED} <= LEGAL[state]
