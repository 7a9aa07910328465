"""Requests that get no usable answer."""

import asyncio

import pytest

from shared.clusters.api import KubernetesApi
from shared.clusters.errors import MissingError
from shared.errors import UnavailableError
from tests.unit.clusters.scripted import ScriptedAnswer, ScriptedTransport, document


@pytest.mark.parametrize(
    "answer",
    [
        ConnectionRefusedError("refused"),
        TimeoutError(),
        ScriptedAnswer(b'{"half":', error=ConnectionResetError("reset")),
        ScriptedAnswer(b"no JSON"),
        ScriptedAnswer(b"[]"),
        ScriptedAnswer(b"moved", status=307),
    ],
    ids=["refused", "timed out", "cut off", "no JSON", "no object", "moved"],
)
async def test_no_usable_answer_is_unavailable(answer):
    with pytest.raises(UnavailableError, match="GET /x"):
        await KubernetesApi(ScriptedTransport(answer)).request("GET", "/x")


async def test_what_takes_too_long_is_unavailable():
    class Silent(ScriptedTransport):
        async def send(self, *_, **__):
            await asyncio.Event().wait()

    with pytest.raises(UnavailableError, match=r"no answer within 0\.01 s"):
        await KubernetesApi(Silent(), timeout=0.01).request("GET", "/x")


async def test_being_cancelled_is_no_failure_of_the_cluster():
    class Silent(ScriptedTransport):
        async def send(self, *_, **__):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await KubernetesApi(Silent()).request("GET", "/x")


async def test_a_stream_that_is_refused_raises_before_it_begins():
    answer = document({"kind": "Status", "message": "no such pod"}, status=404)
    with pytest.raises(MissingError, match="no such pod"):
        async with KubernetesApi(ScriptedTransport(answer)).stream("/x", query={}):
            pass
    assert answer.closed


async def test_a_stream_is_let_go_of_when_its_reader_leaves():
    answer = ScriptedAnswer(b"a", b"b")
    async with KubernetesApi(ScriptedTransport(answer)).stream("/x", query={}) as chunks:
        assert await anext(chunks) == b"a"
    assert answer.closed


async def test_closing_closes_the_transport():
    transport = ScriptedTransport()
    await KubernetesApi(transport).close()
    assert transport.closed
