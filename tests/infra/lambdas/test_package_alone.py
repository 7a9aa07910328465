"""That a package is tried by itself: what it lacks, and what it writes, is found."""

from __future__ import annotations

import marshal
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from infra.functions import Function, named
from infra.lambdas.__main__ import build_all
from infra.lambdas.compiling import CompileError, Compiler
from infra.lambdas.distributions import HOST, HOST_PYTHON, Target
from infra.lambdas.fingerprints import fingerprint_in
from infra.lambdas.packages import plan
from infra.lambdas.sources import ROOT
from tests.infra.lambdas.runtime import FailedError, container

pytestmark = pytest.mark.infra


def function(handler: str) -> Function:
    return Function(name="tried", text="", handler=handler, role="none", memory_mb=128, timeout_seconds=3, sources=())


@pytest.mark.parametrize(
    "lacking", ["tenacity", "shared/aws.py", "typing_extensions.py"], ids=["a-package", "a-module-of-ours", "a-module"]
)
async def test_a_package_that_lacks_something_does_not_even_start(packages, tmp_path, lacking):
    _, root = packages("ingest")
    partial = tmp_path / "partial"
    shutil.copytree(root, partial)
    place = partial / lacking
    shutil.rmtree(place) if place.is_dir() else place.unlink()

    async with container(function("workers.ingest.handler.handler"), partial, tmp_path, {}) as running:
        with pytest.raises(FailedError, match="ModuleNotFoundError"):
            await running({})


async def test_nothing_installed_is_seen_and_nothing_is_written(tmp_path):
    root = tmp_path / "package"
    root.mkdir()
    (root / "tried.py").write_text(
        "import os, tempfile\n"
        "def sees(event, context):\n    import pydantic\n"
        "def writes(event, context):\n    open(os.path.join(os.environ['LAMBDA_TASK_ROOT'], 'cache'), 'w')\n"
        "def elsewhere(event, context):\n    os.mkdir(os.path.expanduser('~/.cache-of-a-test'))\n"
        "def temporary(event, context):\n    with tempfile.TemporaryFile() as file: return file.write(b'x')\n"
    )
    told = {}
    for name in ("sees", "writes", "elsewhere", "temporary"):
        async with container(function(f"tried.{name}"), root, tmp_path, {}) as running:
            try:
                told[name] = await running({})
            except FailedError as failed:
                told[name] = str(failed).partition(":")[0]

    assert told == {"sees": "ModuleNotFoundError", "writes": "OSError", "elsewhere": "OSError", "temporary": 1}


def test_modules_come_compiled_for_the_runtime_and_name_the_place_where_it_has_them(packages):
    _, root = packages("health")
    (compiled,) = (root / "workers" / "metrics" / "__pycache__").glob("health.*.pyc")

    code = marshal.loads(compiled.read_bytes()[16:])
    assert compiled.name == f"health.{sys.implementation.cache_tag}.pyc"
    assert code.co_filename == "/var/task/workers/metrics/health.py"
    assert (root / "workers" / "metrics" / "health.py").is_file()  # for whoever reads a traceback


def test_a_module_of_ours_that_can_not_be_compiled_is_told():
    with pytest.raises(CompileError, match=r"(?s)shared/broken\.py.*SyntaxError"):
        Compiler(Path(sys.executable)).compiled({"shared/broken.py": b"def", "others/template.py": b"{{ name }} def"})


def test_the_same_source_gives_the_same_bytes_and_other_source_others(packages, tmp_path, monkeypatch):
    package, _ = packages("health")
    (again,) = build_all([package.function], Target.checked(HOST_PYTHON, HOST), tmp_path)
    assert again.digest == package.digest

    assert fingerprint_in(again.path) == plan(package.function, Target.checked(HOST_PYTHON, HOST)).fingerprint

    monkeypatch.setattr("infra.lambdas.packages._metadata", lambda: iter([("other", b"")]))
    (other,) = build_all([package.function], Target.checked(HOST_PYTHON, HOST), tmp_path)
    assert other.digest != package.digest
    assert fingerprint_in(other.path) != fingerprint_in(package.path)


def test_another_module_another_version_and_another_machine_are_other_things_to_be_made_of(tmp_path, monkeypatch):
    wanted = plan(named("health"), Target.checked("3.14", "arm64"))
    name, *_ = wanted.versions
    assert replace(wanted, versions={**wanted.versions, name: "0"}).fingerprint != wanted.fingerprint
    assert replace(wanted, target=Target.checked("3.14", "x86_64")).fingerprint != wanted.fingerprint

    before = wanted.fingerprint
    for part in ("shared", "workers"):
        shutil.copytree(ROOT / part, tmp_path / part)
    monkeypatch.setattr("infra.lambdas.sources.ROOT", tmp_path)
    monkeypatch.setattr("infra.lambdas.fingerprints.ROOT", tmp_path)
    monkeypatch.setattr("infra.lambdas.fingerprints._BUILDER", tmp_path / "infra" / "lambdas")
    same = wanted.fingerprint
    with (tmp_path / "shared" / "settings.py").open("a") as file:
        file.write("# changed\n")
    assert len({before, same, wanted.fingerprint}) == 3
