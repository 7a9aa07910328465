"""Pages of Jobs are those that sorting everything would give, and cost no more requests than they must."""

import random

import pytest

from shared.clusters import job_lists
from shared.clusters.api import KubernetesApi
from shared.clusters.errors import ApiError
from shared.clusters.job_lists import JobFilter, JobOrder, SortField, list_jobs
from shared.clusters.job_status import ComputedStatus, computed_status
from shared.clusters.observed import moment
from shared.errors import UnavailableError
from tests.unit.clusters.scripted import ScriptedAnswer, ScriptedTransport, document

STATES = {
    ComputedStatus.PENDING: {},
    ComputedStatus.RUNNING: {"active": 1, "ready": 1},
    ComputedStatus.SUCCEEDED: {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]},
    ComputedStatus.FAILED: {"failed": 1, "conditions": [{"type": "Failed", "status": "True"}]},
}


def jobs_of(namespace, count, seed=1):
    """Jobs in the order of their names, of which many begin as others are; their times and states are dealt by chance."""
    chance = random.Random(seed)
    called = sorted(f"job-{number % 15}{'-a' * (number // 15)}" for number in range(count))
    return [
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{namespace}-{name}",
                "creationTimestamp": f"2026-05-{chance.randint(1, 9):02d}T12:00:{chance.randint(0, 59):02d}Z",
            },
            "status": STATES[chance.choice(list(STATES))],
        }
        for name in called
    ]


class Cluster:
    """An API server of Jobs, which notes what it is asked; each namespace is of one moment."""

    def __init__(self, **jobs):
        self.jobs = jobs
        self.queries = []
        self.expires = 0
        self.counts = True

    async def send(self, method, path, *, query, headers, body):
        self.queries.append(dict(query))
        items = self.jobs.get(path.split("/")[5], [])
        start, limit = int(query.get("continue", 0)), int(query["limit"])
        if start and self.expires:
            self.expires -= 1
            return document({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}, status=410)
        page, left = items[start : start + limit], max(len(items) - start - limit, 0)
        metadata = {"resourceVersion": "1"}
        if left:
            metadata["continue"] = str(start + limit)
            if self.counts and "labelSelector" not in query:
                metadata["remainingItemCount"] = left
        return document({"metadata": metadata, "items": page})

    async def close(self):
        pass


@pytest.fixture(autouse=True)
def small_pages(monkeypatch):
    monkeypatch.setattr(job_lists, "PAGE", 60)


async def page(cluster, *namespaces, which=None, by="createdAt", descending=True, offset=0, limit=10):
    order = JobOrder(by=SortField(by), descending=descending)
    return await list_jobs(
        KubernetesApi(cluster), namespaces or ("ml",), which=which or JobFilter(), order=order, offset=offset, limit=limit
    )


def names(found):
    return [(job["metadata"]["namespace"], job["metadata"]["name"]) for job in found.jobs]


@pytest.mark.parametrize("by", list(SortField))
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("status", [None, ComputedStatus.FAILED])
@pytest.mark.parametrize("before", [None, "2026-05-05T00:00:00Z"])
@pytest.mark.parametrize("namespaces", [("ml",), ("ml", "audio", "empty")])
async def test_pages_are_those_of_the_whole_list_in_order(by, descending, status, before, namespaces):
    everything = {"ml": jobs_of("ml", 120), "audio": jobs_of("audio", 50, seed=2)}
    which = JobFilter(status=status, created_before=moment(before))
    values = {
        SortField.CREATED_AT: lambda job: job["metadata"]["creationTimestamp"],
        SortField.NAME: lambda job: job["metadata"]["name"],
        SortField.STATUS: computed_status,
    }
    right = [job for namespace in namespaces for job in everything.get(namespace, []) if which.takes(job)]
    right.sort(key=lambda job: (job["metadata"]["namespace"], job["metadata"]["name"]))
    right.sort(key=values[by], reverse=descending)
    told = [(job["metadata"]["namespace"], job["metadata"]["name"]) for job in right]

    found = []
    for offset in range(0, len(told) + 17, 17):
        part = await page(Cluster(**everything), *namespaces, which=which, by=by, descending=descending, offset=offset, limit=17)
        assert part.total == len(told)
        found += names(part)
    assert found == told


@pytest.mark.parametrize(
    ("options", "requests"),
    [
        ({}, 2),
        ({"by": "status"}, 2),
        ({"by": "name"}, 2),
        ({"which": JobFilter(status=ComputedStatus.FAILED)}, 2),
        ({"which": JobFilter(label_selector="team=vision")}, 2),
        ({"by": "name", "descending": False}, 1),
        ({"by": "name", "descending": False, "offset": 45, "limit": 15}, 1),
        ({"by": "name", "descending": False, "offset": 50, "limit": 15}, 2),
        ({"by": "name", "descending": False, "which": JobFilter(label_selector="team=vision")}, 2),
        ({"by": "name", "descending": False, "which": JobFilter(status=ComputedStatus.FAILED)}, 2),
    ],
)
async def test_no_more_requests_than_pages_of_the_cluster(options, requests):
    """As 10,000 Jobs are two pages of 5,000."""
    cluster = Cluster(ml=jobs_of("ml", 120))

    await page(cluster, **options)

    assert len(cluster.queries) == requests


async def test_a_page_by_name_reads_no_further_than_it_is_long():
    cluster = Cluster(ml=jobs_of("ml", 120))

    found = await page(cluster, by="name", descending=False, offset=5, limit=10)

    assert (cluster.queries, found.total, len(found.jobs)) == ([{"limit": "15"}], 120, 10)


async def test_a_cluster_that_does_not_count_is_read_to_the_end():
    cluster = Cluster(ml=jobs_of("ml", 120))
    cluster.counts = False

    found = await page(cluster, by="name", descending=False)

    assert (found.total, len(found.jobs)) == (120, 10)
    assert [query["limit"] for query in cluster.queries] == ["10", "60", "60"]


async def test_the_selector_goes_to_the_cluster_as_it_is():
    cluster = Cluster(ml=jobs_of("ml", 120))

    await page(cluster, which=JobFilter(label_selector="team in (a, b),!x"))

    assert [query["labelSelector"] for query in cluster.queries] == ["team in (a, b),!x"] * 2


async def test_a_list_that_expires_is_begun_again_and_counts_nothing_twice():
    cluster = Cluster(ml=jobs_of("ml", 120))
    cluster.expires = 2

    assert (await page(cluster)).total == 120
    assert len(cluster.queries) == 6


async def test_a_list_that_goes_on_expiring_is_unavailable():
    cluster = Cluster(ml=jobs_of("ml", 120))
    cluster.expires = 100

    with pytest.raises(UnavailableError, match="expired 3 times"):
        await page(cluster)


async def test_a_namespace_that_cannot_be_listed_is_an_error():
    refused = document({"kind": "Status", "reason": "Forbidden", "message": "no"}, status=403)
    transport = ScriptedTransport(document({"metadata": {}, "items": []}), refused)

    with pytest.raises(ApiError, match="no"):
        await page(transport, "ml", "audio")


async def test_what_breaks_off_is_unavailable():
    transport = ScriptedTransport(ScriptedAnswer(b'{"metadata": {}, "items": [{"metadata": {"name": "a", "namespace": "ml"}}'))

    with pytest.raises(UnavailableError, match="breaks off"):
        await page(transport)
