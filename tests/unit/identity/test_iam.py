"""Callers whom API Gateway has authenticated."""

from __future__ import annotations

import pytest

from shared.identity.callers import Right
from shared.identity.iam import IamSource
from shared.identity.sources import Presented, UnknownCallerError

ROLE = "arn:aws:sts::123456789012:assumed-role/trainers/i-0123456789abcdef0"
USER = "arn:aws:iam::123456789012:user/team/ada"


def rest(arn=ROLE, **authorizer):
    """What a REST API hands over."""
    return {"requestContext": {"identity": {"userArn": arn, "sourceIp": "1.2.3.4"}} | ({"authorizer": authorizer} if authorizer else {})}


def http(arn=ROLE, **granted):
    """What an HTTP API, or a function URL, hands over."""
    authorizer = ({"iam": {"userArn": arn}} if arn else {}) | ({"lambda": granted} if granted else {})
    return {"version": "2.0", "requestContext": {"authorizer": authorizer, "http": {"method": "GET"}}}


async def identify(event, authorization=None):
    return await IamSource().identify(Presented(authorization=authorization, aws_event=event))


@pytest.mark.parametrize("event", [rest(), http()])
async def test_an_arn_has_every_right_everywhere(event):
    caller = await identify(event)

    assert (caller.name, caller.rights, caller.namespaces) == (ROLE, frozenset(Right), None)


@pytest.mark.parametrize("arn", [USER, ROLE])
async def test_what_a_caller_does_twice_is_known_again_over_sessions(arn):
    again = arn.replace("i-0123456789abcdef0", "i-another")
    first, second = await identify(rest(arn)), await identify(rest(again))

    assert first.scope == second.scope
    assert first.scope != (await identify(rest(USER + "2"))).scope


@pytest.mark.parametrize(
    "event",
    [
        rest(principalId="p", rights="read,submit", namespaces="a, b"),
        rest(None, principalId="p", rights="read, submit", namespaces="a,b"),
        http(rights="submit,read", namespaces="b,a"),
        http(None, principalId="p", rights="read,submit", namespaces="a,b"),
    ],
)
async def test_an_authorizer_narrows_what_a_caller_may(event):
    caller = await identify(event)

    assert (sorted(caller.rights), sorted(caller.namespaces)) == (["read", "submit"], ["a", "b"])
    assert caller.name in {ROLE, "principal:p"}


async def test_an_empty_list_grants_nothing():
    caller = await identify(http(rights="", namespaces=""))

    assert (caller.rights, caller.namespaces) == (frozenset(), frozenset())
    assert not caller.sees("gco-jobs")


@pytest.mark.parametrize("granted", [{"rights": "read,everything"}, {"rights": ["read"]}, {"namespaces": 3}])
async def test_what_an_authorizer_says_wrongly_grants_nothing(granted):
    with pytest.raises(UnknownCallerError):
        await identify(http(**granted))


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"requestContext": None},
        {"requestContext": {"elb": {"targetGroupArn": "arn:x"}}},
        rest(None),
        rest(""),
        rest(7),
        http(None),
        {"requestContext": {"authorizer": {"jwt": {"claims": {"sub": "x"}, "scopes": None}}}},
        {"requestContext": {"authorizer": {"claims": {"sub": "x"}}}},
        {"requestContext": {"authorizer": {"principalId": {"a": 1}}}},
        {"headers": {"x-caller": ROLE}, "userArn": ROLE},
    ],
)
async def test_an_event_that_names_nobody_makes_nobody_known(event):
    assert await identify(event, authorization=f"Bearer {ROLE}") is None


async def test_nobody_is_known_where_this_is_not_lambda():
    assert await IamSource().identify(Presented(authorization="AWS4-HMAC-SHA256 Credential=x")) is None


@pytest.mark.parametrize("name", ["a" * 2000, "line\nbreak", "nul\0"])
async def test_a_name_that_no_record_could_carry_is_refused(name):
    with pytest.raises(UnknownCallerError):
        await identify(rest(name))
