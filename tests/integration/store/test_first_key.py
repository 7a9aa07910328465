"""`gpufleet bootstrap --first-key`: the only way to a key that takes none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from shared.clock import SystemClock
from shared.errors import ConflictError
from shared.identity.callers import Right
from shared.identity.keys import KeySource
from shared.identity.sources import Presented
from shared.store.api_keys import ApiKeys
from shared.store.table import Table
from tests.unit.identity.builders import api_key
from workers.first_key import ADMINISTRATOR, make_first_key


@pytest.fixture
def keys(fleet_resources):
    return ApiKeys(Table(fleet_resources.aws.dynamodb, fleet_resources.settings.table))


@pytest.fixture
def run(aws_environment, fleet_settings):
    """Runs the command with the settings of a fleet that isn't there yet."""
    settings = {"TABLE": fleet_settings.table, "BUCKET": fleet_settings.bucket, "QUEUE_PREFIX": fleet_settings.queue_prefix}

    def command(*arguments, **more):
        environment = os.environ | {f"GPUFLEET_{name}": value for name, value in (settings | more).items()}
        program = [sys.executable, "-c", "from workers.cli.main import main; main()", "bootstrap", *arguments]
        return subprocess.run(program, env=environment, capture_output=True, text=True, check=False)

    return command


async def identified(keys, text):
    return await KeySource(keys, SystemClock()).identify(Presented(authorization=f"Bearer {text.strip()}"))


async def test_the_first_run_makes_a_key_that_administers_and_a_second_none(run, aws, fleet_settings, tmp_path):
    file = tmp_path / "admin.key"
    first = run("--first-key", str(file))
    assert f"made   key {ADMINISTRATOR} in {file}" in first.stdout, first.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    text = file.read_text()

    second = run("--first-key", str(file), "--json")

    told = json.loads(second.stdout)
    assert (told["made"], "an administrator's key" in told["stood"]) == ([], True)
    assert file.read_text() == text
    caller = await identified(ApiKeys(Table(aws.dynamodb, fleet_settings.table)), text)
    assert (caller.rights, caller.namespaces) == (frozenset(Right), None)


@pytest.mark.parametrize("what", ["file", "symbolic link", "link to nothing"])
async def test_a_file_that_is_there_is_kept_and_nothing_is_made(run, aws, fleet_settings, tmp_path, what):
    file, other = tmp_path / "admin.key", tmp_path / "other"
    if what != "link to nothing":
        (file if what == "file" else other).write_text("the key of another fleet\n")
    if what != "file":
        file.symlink_to(other)

    refused = run("--first-key", str(file))

    assert refused.returncode == 2, refused.stderr
    assert f"--first-key: {file}: must not be there" in refused.stderr
    assert fleet_settings.table not in (await aws.dynamodb.list_tables())["TableNames"]
    assert file.is_symlink() == (what != "file")
    assert what == "link to nothing" or file.read_text() == "the key of another fleet\n"


async def test_a_file_is_replaced_where_that_is_asked_for(run, aws, fleet_settings, tmp_path):
    file = tmp_path / "admin.key"
    file.write_text("the key of a table that is lost\n")

    assert run("--first-key", str(file), "--replace-key").returncode == 0

    text = file.read_text()
    assert (await identified(ApiKeys(Table(aws.dynamodb, fleet_settings.table)), text)).rights == frozenset(Right)
    assert run("--first-key", str(file), "--replace-key").returncode == 0
    assert file.read_text() == text


@pytest.mark.parametrize(
    ("setting", "value", "rule"),
    [
        ("TABLE", "a", "3 to 255 letters"),
        ("TABLE", "my table", "3 to 255 letters"),
        ("BUCKET", "My_Bucket", "3 to 63 small letters"),
        ("BUCKET", "a..b", "without two dots"),
        ("BUCKET", "192.168.5.4", "not the form of an IP address"),
        ("BUCKET", "xn--fleet", "not beginning with xn--"),
        ("BUCKET", "fleet--x-s3", "not ending with --x-s3"),
        ("QUEUE_PREFIX", "a.b", "letters, digits, hyphens and underscores"),
        ("QUEUE_PREFIX", "q" * 70, "at most 80 characters"),
        ("REGIONS", "us east", "must hold names of regions"),
    ],
    ids=str,
)
async def test_a_name_that_aws_does_not_take_is_told_with_the_rule_and_nothing_is_made(run, aws, fleet_settings, setting, value, rule):
    refused = run(**{setting: value})

    assert refused.returncode == 2, refused.stderr
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"error: GPUFLEET_{setting}: ")
    assert value in line
    assert rule in line
    assert not (await aws.sqs.list_queues(QueueNamePrefix=fleet_settings.queue_prefix)).get("QueueUrls")


def test_a_file_that_cannot_be_written_is_told_and_no_key_is_made(run, tmp_path):
    refused = run("--first-key", str(tmp_path / "missing" / "admin.key"))
    assert refused.returncode == 2
    assert "admin.key: No such file or directory" in refused.stderr
    assert "made   key" in run("--first-key", str(tmp_path / "admin.key")).stdout


async def test_whoever_dies_between_file_and_table_leaves_no_key_and_the_next_one_makes_one(keys):
    def die(text):
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        await make_first_key(keys, SystemClock(), by="test", keep=die)
    assert await keys.all() == []
    kept = []
    assert await make_first_key(keys, SystemClock(), by="test", keep=kept.append)
    assert (await identified(keys, kept[0])).rights == frozenset(Right)


async def test_a_key_without_all_rights_or_that_has_expired_is_no_administrators(keys):
    narrow, _ = api_key("ci", rights=("admin",), namespaces=("gco-jobs",))
    await keys.put(narrow)
    assert await make_first_key(keys, SystemClock(), by="test", keep=lambda _: None)


async def test_a_name_that_somebody_else_has_is_a_conflict(keys):
    other, _ = api_key(ADMINISTRATOR, rights=("read",))
    await keys.put(other)
    with pytest.raises(ConflictError, match="exists already"):
        await make_first_key(keys, SystemClock(), by="test", keep=lambda _: None)
