"""No worker imports what it has no use for: Kubernetes' library takes half a second of a cold start, FastAPI a quarter."""

import pytest

from bench.imports import COLD_START, WORKERS, modules, unused_imports


@pytest.mark.parametrize("module", WORKERS)
def test_a_worker_brings_no_package_that_it_has_no_use_for(module):
    assert unused_imports(module, WORKERS[module]) == []


def test_a_package_that_is_imported_is_found():
    assert unused_imports("shared.clusters.client", ("kubernetes", "fastapi")) == ["kubernetes"]


def test_a_first_submission_imports_nothing_of_the_other_doors():
    others = ("shared.webhooks", "shared.templates", "shared.store.rejections", "shared.queues.dead_letters", "shared.identity.keys")
    others += ("shared.policy.loading", "shared.policy.workloads", "workers.api.fleet", "workers.api.gco.jobs", "workers.api.gco.manifests")

    assert [name for name in modules(*COLD_START) if name.startswith(others)] == []
