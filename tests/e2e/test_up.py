"""`gpufleet up` as a process: what it prints, and that nothing of it stays behind, however it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
import yaml

from tests.e2e.conftest import until
from tests.e2e.jobs import a_job
from workers.local.cluster import write_kubeconfig
from workers.local.ports import free_ports

COMMAND = [sys.executable, "-c", "from workers.cli.main import main; main()"]


@contextmanager
def running(state: Path, *options: str) -> Iterator[tuple[psutil.Popen, dict[str, str]]]:
    """A fleet that stands: its process, and the lines of its page by their names."""
    (port,) = free_ports(1)
    command = [*COMMAND, "up", "--api-port", str(port), "--state", str(state), *options]
    log = state.with_suffix(".log")
    with log.open("w") as output, psutil.Popen(command, stderr=output, stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: "Ctrl-C ends all of it" in log.read_text() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            page = [line.split(maxsplit=1) for line in log.read_text().splitlines() if len(line.split()) == 2]
            yield process, {name: value.strip() for name, value in page}
        finally:
            if process.poll() is None:
                process.kill()


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=20)
    return all(process.status() == psutil.STATUS_ZOMBIE for process in alive)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_fleet_that_is_asked_to_end_leaves_no_process_behind(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path / "state", "--regions", "us-east-1") as (process, page):
        children = process.children(recursive=True)
        assert httpx.get(f"{page['API']}/healthz").json() == {"status": "ok"}
        assert httpx.get(page["documentation"]).status_code == 200
        assert "gpu_scrape_age_seconds" in httpx.get(page["metrics"]).text
        assert Path(page["KUBECONFIG"]).exists()

        process.send_signal(number)

        assert process.wait(timeout=30) == 0
        assert len(children) == 10
        assert gone(children)


def test_a_fleet_that_knows_keys_makes_the_first_and_keeps_it_from_others(tmp_path: Path) -> None:
    with running(tmp_path / "state", "--regions", "us-east-1", "--identity", "keys") as (process, page):
        kept = Path(page["key"])
        key = kept.read_text().strip()
        assert kept.stat().st_mode & 0o777 == 0o600
        assert f"export GPUFLEET_KEY=$(cat {kept})" in (tmp_path / "state.log").read_text()
        jobs = f"{page['API']}/api/v1/queue/jobs"
        assert httpx.get(jobs).status_code == 401
        assert httpx.get(jobs, headers={"Authorization": f"Bearer {key}"}).status_code == 200

        gpufleet = [*COMMAND, *("keys", "create", "--name", "reader", "--may", "read", "--api", page["API"])]
        made = subprocess.run(gpufleet, env=os.environ | {"GPUFLEET_KEY": key}, capture_output=True, text=True, check=True)
        reader = {"Authorization": f"Bearer {made.stdout.strip()}"}
        assert httpx.get(jobs, headers=reader).status_code == 200
        refused = httpx.post(jobs, headers=reader, json={"manifest": {}, "target_region": "us-east-1"})
        assert (refused.status_code, "'submit'" in refused.json()["detail"]) == (403, True)

        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    written = [*(tmp_path / "state" / "logs").iterdir(), tmp_path / "state.log"]
    assert not [file for file in written if key in file.read_text() or made.stdout.strip() in file.read_text()]


PLUGIN = """#!/bin/sh
# As `aws eks get-token`: it needs the environment of its user, and none of the emulator.
[ "$AWS_PROFILE" = research ] && [ -z "$AWS_ENDPOINT_URL$AWS_ACCESS_KEY_ID" ] && [ "$STYLE" = plain ] || exit 1
echo '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "t"}}'
"""


def call_plugin(kubeconfig: Path) -> None:
    """Let the kubeconfig of simulated clusters call a plugin for its token, as that of EKS clusters does."""
    plugin = kubeconfig.parent / "bin" / "get-token"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    plugin.chmod(0o755)
    loaded = yaml.safe_load(kubeconfig.read_text())
    call = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./bin/get-token", "env": [{"name": "STYLE", "value": "plain"}]}
    loaded["users"][0]["user"] = {"exec": {**call, "interactiveMode": "Never"}}
    kubeconfig.write_text(yaml.safe_dump(loaded))


def test_a_fleet_on_clusters_of_somebody_else_dies_with_its_supervisor_and_leaves_them_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "research")
    kubeconfig = tmp_path / "kubeconfig"
    foreign = [sys.executable, "-m", "workers.local.cluster", "--region", "us-east-1", "--namespace", "gco-jobs"]
    with psutil.Popen([*foreign, "--kubeconfig", str(kubeconfig)], stdout=subprocess.PIPE, text=True) as cluster:
        cluster.stdout.readline()
        call_plugin(kubeconfig)
        with running(tmp_path / "state", "--regions", "us-east-1", "--kubeconfig", str(kubeconfig)) as (process, page):
            job = Path(__file__).parents[2] / "examples" / "preprocess-cpu.yaml"
            done = subprocess.run([*COMMAND, "submit", str(job), "--watch", "--api", page["API"]], check=False, capture_output=True)
            children = process.children(recursive=True)

            process.kill()

            assert gone(children)
        assert done.returncode == 0, done.stderr
        assert page["KUBECONFIG"] == str(kubeconfig)
        assert cluster.poll() is None
        cluster.terminate()


def test_a_second_fleet_in_the_same_directory_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with running(tmp_path / "state", "--regions", "us-east-1") as (process, page):
        before = Path(page["KUBECONFIG"]).read_text()
        command = [*COMMAND, "up", "--api-port", str(free_ports(1)[0]), "--state", str(tmp_path / "state")]

        done = subprocess.run(command, check=False, capture_output=True, text=True)

        assert done.returncode == 2
        assert f"--state: {tmp_path / 'state'}: is held by a fleet that runs, process {process.pid}" in done.stderr
        assert Path(page["KUBECONFIG"]).read_text() == before
        assert httpx.get(f"{page['API']}/readyz").status_code == 200
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
    with running(tmp_path / "state", "--regions", "us-east-1") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_the_policy_of_the_user_holds_in_the_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"allowed_namespaces": ["research"]}')
    monkeypatch.setenv("GPUFLEET_POLICY_FILE", str(policy))
    job = Path(__file__).parents[2] / "examples" / "cuda-vectoradd.yaml"
    with running(tmp_path / "state", "--regions", "us-east-1") as (_, page):
        command = [*COMMAND, "submit", str(job), "--api", page["API"], "--namespace", "gco-jobs"]

        done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 1
    assert "not allowed" in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("GPUFLEET_POLICY_FILE", "/no/such.json", "GPUFLEET_POLICY_FILE: /no/such.json: must be a file that can be read"),
        ("GPUFLEET_LEASE_SECONDS", "soon", "GPUFLEET_LEASE_SECONDS: soon: "),
        ("GPUFLEET_TABLE", "production", "GPUFLEET_TABLE: production: must be left to gpufleet up"),
    ],
)
def test_a_wrong_setting_is_one_line_and_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(name, value)

    done = subprocess.run([*COMMAND, "up", "--state", str(tmp_path / "state")], check=False, capture_output=True, text=True)

    assert done.returncode == 2
    assert f"error: {told}" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


def test_clusters_that_do_not_answer_are_told_beside_the_page(tmp_path: Path) -> None:
    (closed,) = free_ports(1)
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, {"us-east-1": f"http://127.0.0.1:{closed}"})
    with running(tmp_path / "state", "--regions", "us-east-1", "--kubeconfig", str(kubeconfig)):
        page = (tmp_path / "state.log").read_text()

    assert "WARNING: the cluster of us-east-1 does not answer, so jobs of us-east-1 wait until it does: " in page


def test_every_namespace_that_the_policy_allows_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text('{"allowed_namespaces": ["gco-jobs", "team-b"]}')
    monkeypatch.setenv("GPUFLEET_POLICY_FILE", str(policy))
    with running(tmp_path / "state", "--regions", "us-east-1") as (_, page):
        request = {"manifest": a_job(), "target_region": "us-east-1", "namespace": "team-b"}
        answer = httpx.post(f"{page['API']}/api/v1/queue/jobs", json=request).raise_for_status().json()
        job = f"{page['API']}/api/v1/queue/jobs/{answer['job']['job_id']}"

        ended = until(lambda: (found := httpx.get(job).json()["job"])["status"] in {"succeeded", "failed"} and found)

        assert ended["status"] == "succeeded"


def test_a_taken_port_is_told_at_once(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [*COMMAND, "up", "--api-port", str(server.getsockname()[1]), "--state", str(tmp_path)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)

    assert done.returncode == 2
    assert "is taken by another process" in done.stderr
