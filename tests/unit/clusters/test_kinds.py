"""Where kinds are served, and that only the client's module loads the library."""

import subprocess
import sys

import pytest

from shared.clusters.errors import MissingError
from shared.clusters.kinds import JOB, NODE, POD, supporting_kind
from shared.jobs.ports import RefusedError


def test_paths():
    assert JOB.path() == "/apis/batch/v1/jobs"
    assert JOB.path("ml") == "/apis/batch/v1/namespaces/ml/jobs"
    assert POD.path("ml", "ä") == "/api/v1/namespaces/ml/pods/%C3%A4"
    assert NODE.path("ignored", "n1") == "/api/v1/nodes/n1"


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../jobs", "a%2fb", "a\0", "a b", "a\n", "x" * 254, "\ud800"])
def test_what_can_be_no_name_leads_to_no_other_place(name):
    with pytest.raises(MissingError):
        POD.path("ml", name)
    with pytest.raises(MissingError):
        POD.path(name)


def test_only_known_kinds_stand_beside_a_job():
    assert supporting_kind({"apiVersion": "v1", "kind": "ConfigMap"}).plural == "configmaps"
    for document in ({"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "v2", "kind": "ConfigMap"}, {}):
        with pytest.raises(RefusedError):
            supporting_kind(document)


def test_the_library_is_loaded_by_the_client_alone():
    modules = "cluster, feeds, logs, nodes, pods"
    code = f"from shared.clusters import {modules}; import sys; assert 'kubernetes' not in sys.modules; assert 'aiohttp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
