"""Least privilege, both ways: each worker has the rights that it uses, and none that it doesn't."""

from __future__ import annotations

import pytest

from tests.infra.privileges import verbs
from tests.infra.privileges.comparing import missing, unused
from tests.infra.privileges.exceptions import reason

pytestmark = [
    pytest.mark.infra,  # it takes two minutes
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("privileges"),
    pytest.mark.asyncio(loop_scope="session"),
]


def _alike(regions):
    """What is used of one region's counts for the others'."""
    return [dict.fromkeys(regions, "REGION")]


def _none(found):
    """A list that must be empty, told line by line where it isn't."""
    if found:
        pytest.fail("\n".join(found), pytrace=False)


async def test_every_role_was_at_work(recorded):
    assert {one.caller for one in recorded.asked} == set(recorded.policies)


async def test_nothing_was_refused(recorded):
    _none(sorted(f"{one.caller}: {one.action} on {one.resource} {one.keys}" for one in recorded.asked if not one.allowed))


async def test_all_that_is_asked_of_aws_is_granted(recorded):
    _none(missing(recorded.asked, recorded.policies))


async def test_all_that_is_granted_is_asked_of_aws(recorded):
    found = unused(recorded.asked, recorded.policies, alike=_alike(recorded.regions))
    _none([str(right) for right in found if reason(right) is None])


async def test_what_is_excepted_is_never_asked_for(recorded):
    granted = unused([], recorded.policies)
    seen = set(granted) - set(unused(recorded.asked, recorded.policies))
    _none(sorted(str(right) for right in seen if reason(right) is not None))


async def test_no_worker_may_do_everything_of_a_service(recorded):
    actions = {action for policy in recorded.policies.values() for one in policy["Statement"] for action in one["Action"]}
    assert not {action for action in actions if "*" in action}


async def test_all_that_is_asked_of_clusters_is_granted(recorded):
    _none(verbs.refused(recorded.audit))


async def test_all_that_is_granted_is_asked_of_clusters(recorded):
    _none([str(verb) for verb in verbs.unused(recorded.audit, recorded.manifests)])
