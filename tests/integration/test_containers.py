"""What containers run, as far as it can be tried without an engine: the script for a ready emulator, and the compose file."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "localstack" / "ready.d" / "10-bootstrap.sh"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A directory with the command, as an image has it on its path."""
    found = tmp_path / "gpufleet"
    found.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from workers.cli.main import main; main()' \"$@\"\n")
    found.chmod(0o755)
    return tmp_path


def test_the_script_makes_what_the_fleet_needs_and_may_run_again(aws_endpoint: str, command: Path) -> None:
    name = f"ready-{os.urandom(4).hex()}"
    environment = {
        "PATH": f"{command}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GPUFLEET_BOOTSTRAP_ENDPOINT": aws_endpoint,
        "GPUFLEET_TABLE": name,
        "GPUFLEET_BUCKET": name,
        "GPUFLEET_QUEUE_PREFIX": name,
    }

    first, second = (subprocess.run(["sh", SCRIPT], env=environment, capture_output=True, text=True, check=True) for _ in range(2))

    assert f"made   table {name}" in first.stdout
    assert "made" not in second.stdout
    client: Any = boto3.client(
        "dynamodb", endpoint_url=aws_endpoint, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )
    assert client.describe_table(TableName=name)["Table"]["TableStatus"] == "ACTIVE"
    client.close()


def test_the_compose_file_runs_programs_that_there_are_on_the_loopback_interface_alone() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]

    for name, service in services.items():
        python, option, module, *_ = service["command"]
        assert (python, option) == ("python", "-m"), name
        assert importlib.util.find_spec(f"{module}.__main__") is not None, name
        assert service["network_mode"] == "host", name
        assert "ports" not in service, name
        assert set(service.get("depends_on", {})) <= set(services), name
        for place in service["volumes"]:
            source = place.partition(":")[0]
            assert not source.startswith(".") or (ROOT / source).is_dir(), name
    assert services["aws"]["environment"]["BIND_HOST"] == "127.0.0.1"
