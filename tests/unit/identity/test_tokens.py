"""Callers whose tokens API Gateway has checked."""

from __future__ import annotations

import pytest

from shared.identity.callers import Right
from shared.identity.sources import Presented, UnknownCallerError
from shared.identity.tokens import TokenSource

ISSUER = "https://issuer.example"


def event(**claims):
    """What an HTTP API with a JWT authorizer hands over."""
    authorizer = {"jwt": {"claims": {"iss": ISSUER, "sub": "ada"} | claims, "scopes": None}}
    return {"version": "2.0", "requestContext": {"authorizer": authorizer, "http": {"method": "GET"}}}


async def identify(found, authorization="Bearer x"):
    return await TokenSource().identify(Presented(authorization=authorization, aws_event=found))


@pytest.mark.parametrize(
    ("claims", "rights"),
    [
        ({}, set()),
        ({"scope": "openid gpufleet/read"}, {Right.READ}),
        ({"scope": "gpufleet/read gpufleet/submit"}, {Right.READ, Right.SUBMIT}),
        ({"scp": "[gpufleet/read gpufleet/admin]"}, {Right.READ, Right.ADMIN}),
        ({"scope": "gpufleet/everything read other/admin gpufleet/"}, set()),
        ({"scope": ["gpufleet/submit"]}, {Right.SUBMIT}),
    ],
    ids=["none", "one", "two", "a list of claims", "others' and unknown ones", "a list"],
)
async def test_a_caller_may_do_what_the_scopes_of_his_token_say(claims, rights):
    caller = await identify(event(**claims))

    assert (caller.name, caller.rights, caller.namespaces) == (f"token:{ISSUER}#ada", frozenset(rights), None)


@pytest.mark.parametrize(
    ("claim", "namespaces"),
    [("a, b", {"a", "b"}), ("[a b]", {"a", "b"}), ("", set()), (["a"], {"a"})],
    ids=["commas", "a list of claims", "none", "a list"],
)
async def test_a_claim_binds_a_caller_to_namespaces(claim, namespaces):
    assert (await identify(event(gpufleet_namespaces=claim))).namespaces == namespaces


@pytest.mark.parametrize("claims", [{"sub": ""}, {"sub": "a\nb"}, {"sub": "a" * 2000}], ids=["no subject", "unprintable", "too long"])
async def test_a_token_must_say_whom_it_is_for(claims):
    with pytest.raises(UnknownCallerError) as caught:
        await identify(event(**claims))
    assert caught.value.wrong


@pytest.mark.parametrize(
    "found",
    [
        None,
        {},
        {"requestContext": {"authorizer": {"iam": {"userArn": "arn:aws:iam::123456789012:user/ada"}}}},
        {"requestContext": {"authorizer": {"jwt": None}}},
        {"headers": {"authorization": "Bearer x"}, "requestContext": {"authorizer": {"jwt": {"claims": "sub=root"}}}},
    ],
    ids=["no Lambda", "nothing", "IAM", "no token", "no claims"],
)
async def test_nobody_is_known_by_what_api_gateway_has_not_checked(found):
    assert await identify(found) is None
