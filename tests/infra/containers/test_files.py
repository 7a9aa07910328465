"""Docker Compose reads the compose file, and hadolint the Dockerfile: the programs themselves, which come as packages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.infra

ROOT = Path(__file__).parents[3]
WORKERS = {
    "api",
    "costs",
    "dispatcher-eu-west-1",
    "dispatcher-us-east-1",
    "ingest",
    "metrics",
    "observer-eu-west-1",
    "observer-us-east-1",
    "sweeper",
    "webhooks",
}
ALWAYS = WORKERS | {"accounts", "bootstrap", "prometheus"}
K3S = {"k3s-us-east-1", "k3s-eu-west-1"}


def compose(*arguments, **variables):
    """The program in the package, not the script around it, which loses the exit code."""
    program = Path(str(find_spec("compose").origin)).with_name("docker-compose")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COMPOSE_", "LOCALSTACK_", "GPUFLEET_"))}
    return subprocess.run([program, *arguments], cwd=ROOT, env=environment | variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("variables", "chosen"),
    [
        pytest.param({}, {"ministack", "clusters"}, id="as it is"),
        pytest.param({"LOCALSTACK_AUTH_TOKEN": "token"}, {"localstack", "clusters"}, id="with a token of LocalStack"),
        pytest.param({"COMPOSE_PROFILES": "ministack,k3s"}, {"ministack"} | K3S, id="k3s"),
        pytest.param(
            {"COMPOSE_PROFILES": "localstack,k3s", "LOCALSTACK_AUTH_TOKEN": "token"}, {"localstack"} | K3S, id="LocalStack and k3s"
        ),
    ],
)
def test_compose_takes_the_file_and_starts_what_the_profiles_say(variables, chosen):
    checked = compose("config", "--quiet", **variables)
    assert (checked.returncode, checked.stderr) == (0, "")

    services = json.loads(compose("config", "--format", "json", **variables).stdout)["services"]

    assert set(services) == ALWAYS | chosen
    needed = {
        name: {other for other, one in service.get("depends_on", {}).items() if one["required"]} for name, service in services.items()
    }
    assert all(others <= set(services) for others in needed.values())


def test_the_token_of_localstack_is_handed_on_and_stands_in_no_file():
    services = json.loads(compose("config", "--format", "json", LOCALSTACK_AUTH_TOKEN="secret").stdout)["services"]
    assert [name for name, service in services.items() if "secret" in json.dumps(service)] == ["localstack"]


def test_a_file_that_is_wrong_is_refused(tmp_path):
    (tmp_path / "docker-compose.yml").write_text((ROOT / "docker-compose.yml").read_text().replace("mem_limit:", "memory_limit:"))
    refused = compose("--project-directory", str(ROOT), "--file", str(tmp_path / "docker-compose.yml"), "config", "--quiet")
    assert refused.returncode != 0
    assert "memory_limit" in refused.stderr


def test_hadolint_has_nothing_to_say_of_the_dockerfile():
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    checked = subprocess.run([program, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
