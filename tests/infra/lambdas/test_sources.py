"""What a handler's source leads to, and what of a distribution is part of a package."""

from __future__ import annotations

import importlib

import pytest

from infra.functions import FUNCTIONS, HttpApiSource, QueueSource, ScheduleSource, named
from infra.lambdas import archives
from infra.lambdas.distributions import HOST, HOST_PYTHON, Target, distributions_of
from infra.lambdas.packages import MB, Package
from infra.lambdas.pruning import kept
from infra.lambdas.sources import sources_of
from shared.errors import InvalidError
from shared.settings import Settings


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_functions_handler_is_there(function):
    module, _, name = function.handler.rpartition(".")

    assert callable(getattr(importlib.import_module(module), name))


def test_names_are_of_one_function_each_and_paths_too():
    prefixes = [source.prefixes for function in FUNCTIONS for source in function.sources if isinstance(source, HttpApiSource)]

    assert len({function.name for function in FUNCTIONS}) == len(FUNCTIONS)
    assert prefixes.count(()) == 1
    with pytest.raises(KeyError):
        named("dispatcher")


def test_queues_are_the_fleets_and_a_schedule_calls_as_often_as_there_are_regions():
    queues = {source.queue for function in FUNCTIONS for source in function.sources if isinstance(source, QueueSource)}
    (scrapes,) = (source for source in named("metrics").sources if isinstance(source, ScheduleSource))
    (sweeps,) = (source for source in named("sweeper").sources if isinstance(source, ScheduleSource))

    assert {f"gpufleet-{queue}" for queue in queues} <= set(Settings(queue_prefix="gpufleet").queues())
    assert scrapes.payloads(("a", "b")) == ({"task": "scrape", "region": "a"}, {"task": "scrape", "region": "b"})
    assert sweeps.payloads(("a", "b")) == ({"task": "sweep"},)


def test_a_scrape_ends_before_the_next_begins():
    for function in FUNCTIONS:
        for source in function.sources:
            if isinstance(source, ScheduleSource):
                assert function.timeout_seconds <= 60 * source.minutes


def test_modules_that_are_imported_late_or_named_in_a_text_are_found():
    api = sources_of("workers.api.lambda_handler")

    assert {"workers.api.gco.cost", "workers.api.fleet.keys", "shared.secrets", "shared.clusters.client", "shared"} <= api.modules
    assert not any(name.startswith(("workers.local", "workers.cli", "workers.dispatcher", "workers.together")) for name in api.modules)


def test_what_only_a_type_checker_imports_is_no_part():
    ingest = sources_of("workers.ingest.handler")

    assert not any(name.startswith(("workers.api", "shared.webhooks", "shared.costs")) for name in ingest.modules)
    assert {name.partition(".")[0] for name in ingest.others}.isdisjoint({"kubernetes", "fastapi", "pyarrow", "mangum", "httpx"})


def test_services_of_aws_are_those_that_the_source_names():
    services = {function.name: sources_of(function.module).services for function in FUNCTIONS}

    assert services["ingest"] == {"dynamodb", "sqs", "s3"}
    assert services["sweeper"] == {"dynamodb", "sqs", "s3", "ec2"}
    assert services["metrics"] >= {"s3", "cloudwatch", "eks", "sts"}
    assert "secretsmanager" in services["webhooks"]
    assert "secretsmanager" not in services["costs"]


def test_a_module_that_is_left_out_takes_with_it_what_only_it_leads_to():
    whole = sources_of("workers.api.lambda_handler")
    part = sources_of("workers.api.lambda_handler", without={"workers.api.rate_limits"})

    assert whole.modules - part.modules >= {"workers.api.rate_limits"}
    assert {name.partition(".")[0] for name in whole.others - part.others} == {"limits"}


def test_a_handler_that_there_is_not_is_told():
    with pytest.raises(ModuleNotFoundError, match=r"workers\.nobody"):
        sources_of("workers.nobody")


def test_distributions_come_with_what_they_require_for_the_target_and_no_more():
    here = Target.checked(HOST_PYTHON, HOST)
    found = distributions_of({"httpx.AsyncClient"}, here)

    assert {"httpx", "httpcore", "h11", "anyio", "certifi", "idna"} <= found.keys()
    assert found.keys().isdisjoint({"h2", "rich", "brotli"})  # extras
    assert "anyio" not in distributions_of({"httpx"}, here, without={"anyio"})
    assert distributions_of({"kubernetes_validate"}, here).keys() == {"kubernetes-validate"}  # read, not imported
    with pytest.raises(InvalidError, match="nowhere"):
        distributions_of({"nowhere.at_all"}, here)


def test_what_is_required_for_an_old_python_only_is_no_part_of_a_new_ones_package():
    old, new = (distributions_of({"aiohttp"}, Target.checked(python, "arm64")) for python in ("3.11", "3.14"))

    assert new.keys() <= old.keys()
    assert "async-timeout" not in new


@pytest.mark.parametrize(
    ("python", "architecture", "told"),
    [("3.14", "sparc", "arm64, x86_64, host"), ("2.7", "arm64", "such as 3.14"), ("3.99", HOST, "this interpreter")],
    ids=["architecture", "old", "not-here"],
)
def test_a_target_that_there_is_not_is_refused(python, architecture, told):
    with pytest.raises(InvalidError, match=told):
        Target.checked(python, architecture)


@pytest.mark.parametrize(
    ("name", "path", "wanted"),
    [
        ("botocore", "botocore/data/sqs/2012-11-05/service-2.json.gz", True),
        ("botocore", "botocore/data/sqs/2012-11-05/examples-1.json", False),
        ("botocore", "botocore/data/ec2/2016-11-15/service-2.json.gz", False),
        ("botocore", "botocore/data/partitions.json", True),
        ("botocore", "botocore/docs/docstring.py", True),
        ("kubernetes", "kubernetes/aio/client/models/v1_pod.py", False),
        ("kubernetes", "kubernetes/aio/client/models/__init__.py", True),
        ("kubernetes", "kubernetes/aio/client/api_client.py", True),
        ("pyarrow", "pyarrow/libarrow_flight.so.2600", False),
        ("pyarrow", "pyarrow/libarrow_python.so.2600.1.0", False),
        ("pyarrow", "pyarrow/libarrow_python.so.2600", True),
        ("pyarrow", "pyarrow/include/arrow/api.h", False),
        ("anyio", "anyio/py.typed", True),
        ("anyio", "anyio/__pycache__/abc.cpython-314.pyc", False),
        ("anyio", "anyio-4.0.dist-info/METADATA", True),
        ("anyio", "anyio-4.0.dist-info/RECORD", False),
        ("anyio", "anyio-4.0.dist-info/licenses/LICENSE", True),
        ("multidict", "multidict/_multidict.pyi", False),
    ],
)
def test_what_is_never_loaded_is_left_out(name, path, wanted):
    assert kept(name, path, {"sqs"}) is wanted


def test_an_archives_bytes_depend_on_its_contents_alone(tmp_path):
    contents = {"b/c.py": b"1", "a.py": b"2"}
    first = archives.write(tmp_path / "one.zip", contents)
    second = archives.write(tmp_path / "two.zip", dict(reversed(contents.items())))

    assert first == second
    assert archives.write(tmp_path / "two.zip", contents | {"a.py": b"3"}) != first
    assert list(tmp_path.glob("*.part")) == []


def test_a_package_beyond_its_bounds_says_which(tmp_path):
    function = named("ingest")
    sizes = {"zipped": (function.zipped_mb + 1) * MB, "unzipped": 251 * MB}
    package = Package(function=function, path=tmp_path, files=1, digest="", versions={}, **sizes)

    assert package.faults() == ["ingest: 21.0 MB zipped, must be at most 20 MB", "ingest: 251.0 MB unzipped, must be at most 250 MB"]
