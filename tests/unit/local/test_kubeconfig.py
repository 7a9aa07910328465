"""The kubeconfig of real clusters, as the workers get it."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from workers.local import outside
from workers.local.kubeconfig import KubeconfigError, usable

CONTEXTS = [{"name": "us-east-1", "context": {}}]


def write(path: Path, user: dict[str, Any]) -> Path:
    cluster = {"server": "https://example", "certificate-authority": "pki/ca.crt"}
    content = {"contexts": CONTEXTS, "users": [{"name": "u", "user": user}], "clusters": [{"name": "c", "cluster": cluster}]}
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file"),
        ("a: [", "not YAML"),
        ("[]", "no context named us-east-1"),
        ("contexts: [{name: mine}]", r"no context named us-east-1 \(it has mine\)"),
    ],
)
def test_a_context_of_each_region_is_needed(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)

    with pytest.raises(KubeconfigError, match=told):
        usable(path, ["us-east-1"], copy=tmp_path / "copy")


def test_a_file_without_plugins_is_used_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "config", {"token": "secret"})

    assert usable(path, ["us-east-1"], copy=tmp_path / "copy") == path
    assert not (tmp_path / "copy").exists()


def test_a_copy_that_calls_plugins_outside_is_for_its_owner_and_finds_the_files_of_the_original(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    path = write(tmp_path / "home" / "config", {"exec": {"command": "bin/token", "args": ["a"], "env": [{"name": "X", "value": "1"}]}})

    copy = usable(path, ["us-east-1"], copy=tmp_path / "copy")

    loaded = yaml.safe_load(copy.read_text())
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert loaded["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "home" / "pki" / "ca.crt")
    assert loaded["users"][0]["user"]["exec"]["args"][-3:] == ["X", str(tmp_path / "home" / "bin" / "token"), "a"]
    assert usable(path, ["us-east-1"], copy=copy) == copy


def test_a_plugin_gets_the_outer_environment_and_nothing_of_the_workers(tmp_path: Path) -> None:
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    call = {"command": sys.executable, "args": ["-c", show], "env": [{"name": "STYLE", "value": "plain"}]}
    copy = usable(write(tmp_path / "config", {"exec": call}), ["us-east-1"], copy=tmp_path / "copy")
    plugin = yaml.safe_load(copy.read_text())["users"][0]["user"]["exec"]
    worker = {"AWS_ENDPOINT_URL": "http://emulator", "STYLE": "plain", "KUBERNETES_EXEC_INFO": "{}"}
    outer = {"AWS_PROFILE": "research", "PATH": os.environ["PATH"]}

    printed = subprocess.run(
        [plugin["command"], *plugin["args"]], env=worker | outside.carried(outer), capture_output=True, text=True, check=True
    ).stdout

    found = json.loads(printed)
    expected = outer | {"STYLE": "plain", "KUBERNETES_EXEC_INFO": "{}"}
    assert {name: found.get(name) for name in expected} == expected
    assert "AWS_ENDPOINT_URL" not in found
    assert not any(name.startswith(outside.PREFIX) for name in found)
