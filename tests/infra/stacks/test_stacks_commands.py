"""The commands: what they write, and how they say that they can't."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from infra.functions import FUNCTIONS

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
    """A folder to run in, with settings and stand-ins for the functions' packages."""
    (tmp_path / "settings.toml").write_text(SETTINGS)
    packages = tmp_path / "build" / "lambdas"
    packages.mkdir(parents=True)
    for function in FUNCTIONS:
        zipfile.ZipFile(packages / f"{function.name}.zip", "w").close()
    return tmp_path


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
