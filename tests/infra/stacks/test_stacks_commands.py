"""The commands: what they write, and how they say that they can't."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from infra.cdk.installed import CONSTRAINTS, outdated
from infra.functions import ARCHITECTURE, FUNCTIONS, PYTHON, named
from infra.lambdas.archives import write
from infra.lambdas.distributions import HOST, HOST_PYTHON, Target
from infra.lambdas.fingerprints import MADE_OF
from infra.lambdas.packages import plan

pytestmark = [pytest.mark.infra, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[3]
TOLD = """
administrators = ["arn:aws:iam::123456789012:role/platform"]
alarms.email = "oncall@example.com"
"""
SETTINGS = f"""
control_region = "us-east-1"
{TOLD}
workers.image = "example/gpufleet:1"
[[regions]]
name = "us-east-1"
[[regions.pools]]
name = "gpu"
instance_types = ["g6.xlarge"]
max_nodes = 1
gpus = 1
cpus = 4
memory_gib = 16
"""
COMMANDS = ("infra.cdk", "infra.cdk.cost")


@pytest.fixture
def folder(tmp_path):
    """A folder to run in, with settings and stand-ins for the functions' packages, which say that they are of this checkout."""
    (tmp_path / "settings.toml").write_text(SETTINGS)
    for function in FUNCTIONS:
        stand_in(tmp_path, function, Target.checked(PYTHON, ARCHITECTURE))
    return tmp_path


def stand_in(folder, function, target):
    """A package that holds nothing but what it says that it was made of."""
    write(folder / "build" / "lambdas" / f"{function.name}.zip", {MADE_OF: plan(function, target).fingerprint.encode()})


def run(folder, module, *arguments, **variables):
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("GPUFLEET_", "CDK_"))}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env=mine | {"PYTHONPATH": str(ROOT), "GPUFLEET_INFRA_SETTINGS": "settings.toml"} | variables,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("module", COMMANDS)
def test_help_says_what_a_command_does(folder, module):
    done = run(folder, module, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: python -m {module}")


@pytest.mark.parametrize("module", COMMANDS)
def test_an_argument_that_there_is_none_is_refused(folder, module):
    done = run(folder, module, "--region", "us-east-1")
    assert done.returncode == 2
    assert "unrecognized arguments: --region us-east-1" in done.stderr
    assert not (folder / "build" / "cdk.out").exists()


@pytest.mark.parametrize("module", COMMANDS)
def test_each_fault_of_the_settings_is_told_in_a_line(folder, module):
    (folder / "settings.toml").write_text(SETTINGS.replace("us-east-1", "us-east-7"))
    done = run(folder, module)
    assert done.returncode == 2
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["/control_region", "/regions/0/name"]


def test_what_cdk_refuses_is_told_in_a_line(folder):
    (folder / "out").write_text("a file")
    done = run(folder, "infra.cdk", CDK_OUTDIR="out")
    assert done.returncode == 2
    assert done.stderr.startswith("the stacks can't be synthesized: ")
    assert len(done.stderr.splitlines()) == 1
    assert (folder / "out").read_text() == "a file"


def test_a_package_that_is_missing_is_told_and_what_was_synthesized_stays(folder):
    out = assembly(folder)
    (folder / "build" / "lambdas" / "api.zip").unlink()

    done = run(folder, "infra.cdk")
    assert done.returncode == 2
    assert done.stderr == "build/lambdas/api.zip is missing: `make lambdas` makes the packages of the functions\n"
    assert (out / "old.template.json").exists()


def test_packages_that_are_missing_are_told_before_anything_is_installed(folder):
    """`make synth` in a fresh clone: an interpreter that sees no installed package says what is missing."""
    for name in ("api", "health"):
        (folder / "build" / "lambdas" / f"{name}.zip").unlink()

    program = "import sys; sys.path.insert(0, sys.argv.pop()); import runpy; runpy.run_module('infra.cdk.packages', run_name='__main__')"
    done = subprocess.run([sys.executable, "-ISB", "-c", program, ROOT], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    told = "build/lambdas/api.zip, build/lambdas/health.zip are missing: `make lambdas` makes the packages of the functions\n"
    assert done.stderr == told


def whole_of_other_source(folder):
    write(folder / "build" / "lambdas" / "health.zip", {MADE_OF: b"0" * 64})


def for_another_machine(folder):
    stand_in(folder, named("health"), Target.checked(HOST_PYTHON, HOST))


def from_before_packages_told(folder):
    zipfile.ZipFile(folder / "build" / "lambdas" / "health.zip", "w").close()


def broken_off(folder):
    (folder / "build" / "lambdas" / "health.zip").write_bytes(b"PK")


@pytest.mark.parametrize("made", [whole_of_other_source, for_another_machine, from_before_packages_told, broken_off])
def test_a_package_that_is_not_of_this_checkout_is_refused_and_what_was_synthesized_stays(folder, made):
    out = assembly(folder)
    made(folder)

    done = run(folder, "infra.cdk")
    assert done.returncode == 2
    told = "build/lambdas/health.zip is not made of this checkout as it is: `make lambdas` makes the packages of the functions anew\n"
    assert done.stderr == told
    assert (out / "old.template.json").exists()


def test_what_was_synthesized_before_is_gone_and_nothing_else(folder):
    out = assembly(folder)
    (out / "notes.txt").write_text("mine")
    (out / "read.1.1.lock").write_text("")
    (folder / "kept").mkdir()
    (folder / "kept" / "file").write_text("mine")
    (out / "asset.link").symlink_to(folder / "kept")

    done = run(folder, "infra.cdk")
    assert (done.returncode, done.stderr) == (0, "")
    names = {path.name for path in out.iterdir()}
    assert {"gpufleet-control.template.json", "gpufleet-us-east-1.template.json", "notes.txt", "read.1.1.lock"} <= names
    assert not {"old.template.json", "asset.old", "asset.link"} & names
    assert (folder / "kept" / "file").exists()


def test_who_is_told_and_who_may_look_are_asked_for_where_the_settings_leave_them_out(folder):
    (folder / "settings.toml").write_text(SETTINGS.replace(TOLD, "\nmetrics.rollups = []\n"))

    done = run(folder, "infra.cdk")
    assert done.returncode == 0
    notes = [line.removeprefix("note: ") for line in done.stderr.splitlines()]
    assert [line.rpartition(": set ")[2] for line in notes] == ["alarms.email or alarms.topic_arn", "administrators", "metrics.rollups"]


def test_what_the_stacks_are_made_with_is_told_where_it_is_not_what_the_checkout_names(tmp_path):
    """After an upgrade without `make synth`, which alone installs it."""
    assert list(outdated()) == []
    text = CONSTRAINTS.read_text()
    (tmp_path / "constraints.txt").write_text(text.replace("aws-cdk-lib==", "aws-cdk-lib==9."))

    (told,) = outdated(tmp_path / "constraints.txt")
    mine = version("aws-cdk-lib")
    assert told == f"aws-cdk-lib {mine} is installed and constraints.txt has 9.{mine}: `make synth` installs that"


def test_a_folder_that_is_no_cloud_assembly_is_left_as_it_is(folder):
    out = assembly(folder)
    (out / "cdk.out").unlink()

    assert run(folder, "infra.cdk").returncode == 0
    assert (out / "old.template.json").exists()


def assembly(folder):
    """What a former synthesis left: a stack that there no longer is."""
    out = folder / "build" / "cdk.out"
    (out / "asset.old").mkdir(parents=True)
    (out / "cdk.out").write_text("{}")
    (out / "old.template.json").write_text("{}")
    return out
