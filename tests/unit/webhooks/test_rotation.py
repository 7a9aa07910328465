"""Secrets that overlap, how they are kept, and how they are read."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from shared.errors import UnavailableError
from shared.webhooks.model import Webhook
from shared.webhooks.rotation import HELD, SecretRing, SigningSecrets

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
WEBHOOK = Webhook(id="w1", url="https://x.example", events=("job.failed",), created_at=NOW, created_by="ann", signed=True)


class Watch:
    """A clock that is set by hand."""

    def __init__(self):
        self.time = NOW

    def now(self):
        return self.time


class Kept:
    """Secrets Manager, which counts."""

    def __init__(self, value):
        self.value = value
        self.reads = 0

    async def get(self, name):
        assert name == "webhooks/w1"
        self.reads += 1
        await asyncio.sleep(0)
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def test_two_sign_until_the_overlap_ends():
    ring = SecretRing.of("old").rotated("new", now=NOW, overlap=DAY)

    assert ring.signing(NOW) == ("new", "old")
    assert ring.signing(NOW + DAY - timedelta(seconds=1)) == ("new", "old")
    assert ring.signing(NOW + DAY) == ("new",)


def test_a_second_rotation_keeps_what_the_receiver_has():
    once = SecretRing.of("old").rotated("lost", now=NOW, overlap=DAY)
    twice = once.rotated("new", now=NOW + DAY / 2, overlap=DAY)

    assert twice.signing(NOW + DAY / 2) == ("new", "lost", "old")
    assert twice.signing(NOW + DAY) == ("new", "lost")
    assert twice.signing(NOW + 2 * DAY) == ("new",)


def test_without_an_overlap_the_old_one_ends_at_once_with_all_before_it():
    ring = SecretRing.of("old").rotated("lost", now=NOW, overlap=DAY).rotated("new", now=NOW, overlap=timedelta())

    assert ring.signing(NOW) == ("new",)
    assert "old" not in ring.written()


def test_only_so_many_sign_at_a_time():
    ring = SecretRing.of("first")
    for number in range(10):
        ring = ring.rotated(f"secret {number}", now=NOW, overlap=DAY)

    assert ring.signing(NOW) == ("secret 9", "secret 8", "secret 7", "secret 6")
    assert len(ring.secrets) == HELD


def test_the_same_secret_again_signs_once():
    assert SecretRing.of("same").rotated("same", now=NOW, overlap=DAY).signing(NOW) == ("same",)


@pytest.mark.parametrize("secret", ["correct horse", '{"secrets": []}', '{"secrets":[{"secret":"a"}]}', "{", '"x"', "null", "é\n"])
def test_what_is_written_is_read_again(secret):
    ring = SecretRing.of(secret)

    assert SecretRing.read(ring.written()) == ring
    rotated = ring.rotated("whsec_x", now=NOW, overlap=DAY)
    assert SecretRing.read(rotated.written()) == rotated


def test_a_value_that_nobody_wrote_so_is_the_secret_itself():
    assert SecretRing.read("correct horse battery staple").signing(NOW) == ("correct horse battery staple",)


def test_no_text_form_shows_a_secret():
    ring = SecretRing.of("hunter2hunter2")

    assert "hunter2" not in f"{ring} {ring!r}"


async def test_secrets_are_read_once_for_many_who_ask_and_again_when_they_are_old():
    kept, watch = Kept("correct horse"), Watch()
    signing = SigningSecrets(kept, watch)

    assert await asyncio.gather(*(signing.of(WEBHOOK) for _ in range(20))) == [("correct horse",)] * 20
    assert kept.reads == 1
    watch.time += timedelta(minutes=6)
    assert await signing.of(WEBHOOK) == ("correct horse",)
    assert kept.reads == 2


async def test_a_rotation_that_the_record_tells_of_is_seen_at_once():
    kept, watch = Kept(SecretRing.of("old").written()), Watch()
    signing = SigningSecrets(kept, watch)
    await signing.of(WEBHOOK)
    kept.value = SecretRing.of("old").rotated("new", now=NOW, overlap=DAY).written()

    assert await signing.of(WEBHOOK) == ("old",)
    assert await signing.of(WEBHOOK.model_copy(update={"rotated_at": NOW})) == ("new", "old")


async def test_what_was_read_while_a_rotation_was_under_way_does_not_last():
    kept, watch = Kept(SecretRing.of("old").written()), Watch()
    signing, rotated = SigningSecrets(kept, watch), WEBHOOK.model_copy(update={"rotated_at": NOW})
    assert await signing.of(rotated) == ("old",)
    kept.value = SecretRing.of("old").rotated("new", now=NOW, overlap=timedelta()).written()

    watch.time += timedelta(seconds=1)
    assert await signing.of(rotated) == ("new",)
    watch.time += timedelta(minutes=2)
    assert (await signing.of(rotated), kept.reads) == (("new",), 3)
    watch.time += timedelta(minutes=2)
    assert (await signing.of(rotated), kept.reads) == (("new",), 3)


async def test_an_overlap_ends_though_nothing_is_read_again():
    kept, watch = Kept(SecretRing.of("old").rotated("new", now=NOW, overlap=timedelta(minutes=1)).written()), Watch()
    signing = SigningSecrets(kept, watch)
    await signing.of(WEBHOOK)
    watch.time += timedelta(minutes=2)

    assert (await signing.of(WEBHOOK), kept.reads) == (("new",), 1)


async def test_what_is_known_serves_while_nothing_can_be_read():
    kept, watch = Kept("correct horse"), Watch()
    signing = SigningSecrets(kept, watch)
    await signing.of(WEBHOOK)
    kept.value = UnavailableError("not now")
    watch.time += timedelta(hours=1)

    assert await signing.of(WEBHOOK) == ("correct horse",)


async def test_what_is_not_known_and_can_not_be_read_is_an_error_that_is_not_remembered():
    kept = Kept(UnavailableError("not now"))
    signing = SigningSecrets(kept, Watch())

    with pytest.raises(UnavailableError):
        await signing.of(WEBHOOK)
    kept.value = None
    with pytest.raises(LookupError):
        await signing.of(WEBHOOK)
    kept.value = "correct horse"
    assert await signing.of(WEBHOOK) == ("correct horse",)


async def test_nobody_is_asked_for_a_webhook_that_is_not_signed():
    kept = Kept("x")

    assert await SigningSecrets(kept, Watch()).of(WEBHOOK.model_copy(update={"signed": False})) == ()
    assert kept.reads == 0
