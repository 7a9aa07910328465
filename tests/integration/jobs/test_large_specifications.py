"""Large specifications are stored and applied up to the documented limit, refused beyond it, and travel in no message."""

import random
import string
from dataclasses import replace

import pytest

from shared.clusters.trees import canonical
from shared.errors import TooLargeError
from shared.jobs.states import State
from shared.policy.settings import Policy
from shared.store import keys
from tests.integration.jobs.breaking import RecordingSqs
from tests.integration.region import REGION, job, running_region

# aiohttp warns of bodies above 1 MiB that are sent from memory. Python hides that warning by default.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")

LIMIT = Policy().max_object_bytes


@pytest.fixture
async def recorded(fleet_resources, tmp_path):
    """A region whose messages are noted."""
    aws = replace(fleet_resources.aws, sqs=RecordingSqs(fleet_resources.aws.sqs))
    async with running_region(fleet_resources, tmp_path, aws=aws) as running:
        yield running


def noise(length: int) -> str:
    """Text that hardly compresses."""
    return "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=length))


def with_env(value: str):
    """A Job with one long environment variable."""
    manifest = job("large")
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "PAYLOAD", "value": value}]
    return manifest


def of_size(size: int, fill=noise):
    """A Job of exactly so many bytes as canonical JSON."""
    room = size - len(canonical(with_env("")))
    manifest = with_env(fill(room))
    assert len(canonical(manifest)) == size
    return manifest


async def payload(region) -> str:
    """The variable as it stands on the cluster."""
    ((found),) = await region.objects()
    env = found["spec"]["template"]["spec"]["containers"][0]["env"]
    return next(one["value"] for one in env if one["name"] == "PAYLOAD")


@pytest.mark.parametrize(
    ("manifest", "in_s3"),
    [
        (of_size(255 * 1024), False),
        (of_size(390_000), True),
        (of_size(401_000), True),
        (of_size(401_000, lambda room: "x" * room), False),
        (with_env("é" * 250_000), False),
    ],
    ids=["255 KiB", "390 KB", "401 KB", "401 KB of one letter", "250,000 of an accented letter"],
)
async def test_a_large_manifest_is_stored_and_applied_unchanged(region, manifest, in_s3):
    """Case 14: what is too large for an item is kept in S3."""
    await region.dispatcher()
    await region.observer()

    head = await region.submit(manifest=manifest)
    stored = await region.core.table.get({"pk": keys.job(head.id), "sk": keys.specification(1)})
    await region.until(head.id, State.SUCCEEDED)

    assert ("object_key" in stored) is in_s3
    assert await payload(region) == manifest["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"]


async def test_a_manifest_of_exactly_the_limit_is_stored_and_applied(region):
    """Case 14: the documented limit is one that can be used up."""
    await region.dispatcher()
    await region.observer()

    head = await region.submit(manifest=of_size(LIMIT))
    done = await region.until(head.id, State.SUCCEEDED, State.FAILED)

    assert (done.state, done.reason) == (State.SUCCEEDED, None)


async def test_a_manifest_beyond_the_limit_is_refused_with_its_size_and_the_limit(region):
    """Case 14: a refusal that says what is too large, how large it is, and what is allowed; nothing is stored."""
    with pytest.raises(TooLargeError) as refused:
        await region.submit(manifest=of_size(LIMIT + 1), idempotency_key="k")

    assert (refused.value.size, refused.value.limit) == (LIMIT + 1, LIMIT)
    assert await region.core.store.ready(REGION, 10) == []


async def test_a_specification_beyond_the_limit_of_all_its_objects_is_refused(region):
    """Case 14: two objects that are each small enough, and together are not."""
    extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "data"}, "data": {"noise": noise(800_000)}}

    with pytest.raises(TooLargeError) as refused:
        await region.submit(manifest=of_size(LIMIT), supporting=[extra])

    assert refused.value.limit == Policy().max_specification_bytes


async def test_a_large_environment_travels_in_no_message(recorded):
    """Case 15: 300 KiB of env; every SQS message of the job stays below 2 KiB."""
    await recorded.dispatcher()
    await recorded.observer()

    head = await recorded.submit(manifest=with_env(noise(300 * 1024)))
    await recorded.until(head.id, State.SUCCEEDED)

    assert recorded.aws.sqs.sent
    assert max(len(repr(message)) for message in recorded.aws.sqs.sent) < 2048
