"""From where a watch goes on, by how it ended."""

import contextlib
import json

import pytest

from shared.clusters.api import KubernetesApi
from shared.clusters.kinds import JOB
from shared.clusters.watch import Changed, Deleted, Feed, Listed, lines
from shared.errors import UnavailableError
from tests.unit.clusters.scripted import ScriptedAnswer, ScriptedTransport, ScriptEndedError, document, event, listed


def name_of(found):
    return found["metadata"].get("name")


class Play:
    """Plays a script to a feed and keeps what comes of it."""

    def __init__(self, *answers) -> None:
        self.transport = ScriptedTransport(*answers)
        self.pauses: list[float] = []
        self.items: list[object] = []

    async def run(self):
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        feed = Feed(KubernetesApi(self.transport), JOB, name_of, selector="a=b", sleep=sleep)
        with contextlib.suppress(ScriptEndedError):
            async for item in feed:
                self.items.append(item)
        return self

    @property
    def last_watched(self) -> str:
        """The version from which the last watch went on."""
        return self.transport.queries[-1]["resourceVersion"]


async def test_a_watch_begins_at_the_version_of_the_list():
    play = await Play(listed(5, "a")).run()
    assert play.items == [Listed(objects=["a"])]
    assert play.transport.queries[0] == {"labelSelector": "a=b", "limit": "500"}
    assert play.transport.queries[1] == {
        "labelSelector": "a=b",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "290",
    }


async def test_a_watch_that_ended_in_the_ordinary_way_goes_on_from_its_last_event():
    play = await Play(listed(5), ScriptedAnswer(event("ADDED", "a", 6), event("MODIFIED", "a", 8), event("DELETED", "a", 9))).run()
    assert play.items == [Listed(objects=[]), Changed(object="a"), Changed(object="a"), Deleted(object="a")]
    assert play.last_watched == "9"
    assert play.pauses == []


async def test_a_bookmark_is_a_place_to_go_on_from_and_no_item():
    play = await Play(listed(5), ScriptedAnswer(event("BOOKMARK", "", 90))).run()
    assert play.items == [Listed(objects=[])]
    assert play.last_watched == "90"
    assert play.pauses == []


async def test_a_connection_that_breaks_in_the_midst_of_an_event_has_it_sent_again():
    cut = event("MODIFIED", "b", 7)[:-20]
    play = await Play(listed(5), ScriptedAnswer(event("ADDED", "a", 6), cut, error=ConnectionResetError("reset"))).run()
    assert play.items == [Listed(objects=[]), Changed(object="a")]
    assert play.last_watched == "6"
    assert play.pauses == [0.25]


async def test_history_that_ended_after_progress_is_listed_again_at_once():
    gone = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}).encode() + b"\n"
    play = await Play(listed(5), ScriptedAnswer(event("ADDED", "a", 6), gone), listed(70, "b")).run()
    assert play.items == [Listed(objects=[]), Changed(object="a"), Listed(objects=["b"])]
    assert play.last_watched == "70"
    assert play.pauses == []


async def test_an_error_in_the_stream_that_is_no_410_is_asked_again_later():
    busy = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd"}}).encode() + b"\n"
    play = await Play(listed(5), ScriptedAnswer(busy)).run()
    assert play.last_watched == "5"
    assert play.pauses == [0.25]


@pytest.mark.parametrize("line", [b"garbage\n", b"[]\n", b"{}\n", b'{"type":"ADDED","object":{}}\n'])
async def test_a_line_that_is_no_event_breaks_the_watch(line):
    play = await Play(listed(5), ScriptedAnswer(line)).run()
    assert play.last_watched == "5"
    assert play.pauses == [0.25]


async def test_a_list_whose_next_page_expired_is_begun_anew():
    expired = document({"kind": "Status", "code": 410, "reason": "Expired"}, status=410)
    play = await Play(listed(5, "a", more="t"), expired, listed(7, "b")).run()
    assert play.items == [Listed(objects=["b"])]
    assert play.transport.queries[1]["continue"] == "t"
    assert "continue" not in play.transport.queries[2]
    assert play.last_watched == "7"


async def test_an_answer_without_a_version_is_no_list():
    play = await Play(document({"metadata": {}, "items": []}), listed(7)).run()
    assert play.items == [Listed(objects=[])]
    assert play.pauses == [0.25]


async def test_every_answer_is_let_go_of():
    watch = ScriptedAnswer(event("ADDED", "a", 6))
    first = listed(5)
    await Play(first, watch).run()
    assert first.closed
    assert watch.closed


async def split(*chunks: bytes) -> list[bytes]:
    async def source():
        for chunk in chunks:
            yield chunk

    return [line async for line in lines(source())]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_lines_are_whole_however_they_come(size):
    text = "eins\nzwei é\n\ndrei\nhalb".encode()
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    assert await split(*chunks) == [b"eins", "zwei é".encode(), b"", b"drei"]


async def test_a_line_without_end_is_not_held_for_ever(monkeypatch):
    monkeypatch.setattr("shared.clusters.watch.LONGEST_LINE", 10)
    with pytest.raises(UnavailableError):
        await split(*[b"xxxx"] * 5)
