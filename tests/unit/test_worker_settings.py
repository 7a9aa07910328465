"""What a worker is set that it can't use: one line that names the setting, its value and the rule, and exit code 2."""

import json
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("worker", "setting", "value", "rule"),
    [
        ("sweeper", "GPUFLEET_LEASE_SECONDS", "soon", "must be a number"),
        ("api", "GPUFLEET_API_PORT", "99999", "must be at most 65535"),
        ("together", "GPUFLEET_API_PORT", "http", "must be a whole number"),
    ],
)
def test_a_setting_that_can_not_be_used_is_one_line(worker: str, setting: str, value: str, rule: str) -> None:
    command = [sys.executable, "-m", f"workers.{worker}", *(["--region", "us-east-1"] if worker == "together" else [])]

    ended = subprocess.run(command, env={setting: value}, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert json.loads(ended.stderr.splitlines()[-1])["error"] == f'{setting}: "{value}": {rule}'
