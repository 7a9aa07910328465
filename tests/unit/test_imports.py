"""No worker imports what it has no use for: Kubernetes' library takes half a second of a cold start, FastAPI a quarter."""

import pytest

from bench.imports import WORKERS, unused_imports


@pytest.mark.parametrize("module", WORKERS)
def test_a_worker_brings_no_package_that_it_has_no_use_for(module):
    assert unused_imports(module, WORKERS[module]) == []


def test_a_package_that_is_imported_is_found():
    assert unused_imports("workers.dispatcher.__main__", ("kubernetes", "fastapi")) == ["kubernetes"]
