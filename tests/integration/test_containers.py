"""What containers run, as far as it can be tried without an engine: the compose file in accord with the code, what the image leaves out."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml
from pydantic_settings import BaseSettings

from infra.containers.slim import unused
from shared.policy.schemas import KUBERNETES_VERSION
from shared.settings import Settings
from tests.infra.manifests import BASE
from workers.api.server import ServerSettings
from workers.local import accounts

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("gpufleet")}
ONCE = {"bootstrap", "accounts"}
WORKERS = {name: service for name, service in OURS.items() if set(service.get("depends_on", {})) == ONCE}
PORTS = {"api": 8080, "metrics": Settings().metrics_port}
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def each(services):
    return pytest.mark.parametrize("service", [pytest.param(one, id=name) for name, one in services.items()])


def test_there_is_every_worker_and_dispatcher_and_observer_of_every_region():
    regions = COMPOSE["x-environment"]["GPUFLEET_REGIONS"].split(",")
    of_regions = {f"{worker}-{region}" for worker in ("dispatcher", "observer") for region in regions}
    assert set(WORKERS) == {"api", "ingest", "sweeper", "webhooks", "costs", "metrics", *of_regions}
    for name in of_regions:
        assert name.endswith(SERVICES[name]["command"][-1])


@each(OURS)
def test_a_container_runs_a_program_that_there_is(service):
    program, *arguments = service["command"]
    if program == "gpufleet":
        assert arguments[0] == "bootstrap"
        return
    assert (program, arguments[0]) == ("python", "-m")
    found = [importlib.util.find_spec(name) for name in (arguments[1], f"{arguments[1]}.__main__") if _is_there(name)]
    assert found


def _is_there(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@each(OURS)
def test_a_container_of_ours_has_no_rights_and_a_root_file_system_that_nobody_writes_to(service):
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert "privileged" not in service
    assert "user" not in service  # the image's, who is nobody in particular
    assert all(place.startswith("/tmp:size=") for place in service["tmpfs"])


@each(WORKERS)
def test_a_worker_begins_when_all_is_made_and_has_longer_to_end_than_it_takes(service):
    assert {one["condition"] for one in service["depends_on"].values()} == {"service_completed_successfully"}
    assert int(service["stop_grace_period"].removesuffix("s")) >= Settings().shutdown_seconds + 15


@each(OURS)
def test_every_setting_of_a_container_is_one_that_its_program_knows(service):
    given = {name for name in service.get("environment", {}) if name.startswith("GPUFLEET_")}
    assert given <= {f"{prefix_of(kind)}{name.upper()}" for kind in (Settings, ServerSettings) for name in kind.model_fields}


def prefix_of(kind: type[BaseSettings]) -> str:
    return str(kind.model_config["env_prefix"])


@each(SERVICES)
def test_nothing_is_open_to_other_machines(service):
    assert "network_mode" not in service
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@each(SERVICES)
def test_no_file_holds_a_secret_and_what_is_mounted_of_this_checkout_is_there(service):
    for name, value in service.get("environment", {}).items():
        if re.search("TOKEN|SECRET|PASSWORD|_KEY$", name):
            assert (name, value) in {("LOCALSTACK_AUTH_TOKEN", None), ("AWS_SECRET_ACCESS_KEY", "test")}
    for place in service.get("volumes", []):
        source, _, rest = place.partition(":")
        if source.startswith("."):
            assert (ROOT / source).exists()
            assert rest.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


def test_whoever_reaches_a_cluster_has_an_account_of_his_own():
    made = {one["metadata"]["name"] for one in accounts.documents(BASE) if one["kind"] == "ServiceAccount"}
    used = {name.split("-")[0]: service["environment"].get("GPUFLEET_KUBECONFIG") for name, service in WORKERS.items()}
    assert {name: path for name, path in used.items() if path} == {name: f"/state/{name}.yaml" for name in made}
    for name, service in WORKERS.items():
        assert ("kubeconfigs:/state:ro" in service.get("volumes", [])) == (name.split("-")[0] in made)


def test_the_api_that_others_reach_knows_them_by_keys():
    environment = SERVICES["api"]["environment"]
    assert (environment["GPUFLEET_API_HOST"], environment["GPUFLEET_IDENTITY"]) == ("0.0.0.0", "keys")


def test_prometheus_scrapes_what_there_is_and_keeps_the_labels_of_the_metrics_worker():
    scrapes = yaml.safe_load((ROOT / "localstack" / "prometheus.yml").read_text())["scrape_configs"]
    targets = {one["job_name"]: one["static_configs"][0]["targets"] for one in scrapes}
    assert targets == {name: [f"{name}:{port}"] for name, port in PORTS.items()}
    assert [one["job_name"] for one in scrapes if one.get("honor_labels")] == ["metrics"]
    assert WORKERS["metrics"]["environment"]["GPUFLEET_METRICS_HOST"] == "0.0.0.0"


def test_the_image_runs_as_nobody_in_particular_and_asks_its_worker_how_it_is():
    final = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert re.search(r"^USER (\d+):\1$", final, re.MULTILINE).group(1) == "10001"
    (health,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", final, re.MULTILINE)
    assert json.loads(health) == ["python", "-m", "workers.probe"]
    (port,) = re.findall(r"GPUFLEET_PROBE_PORT=(\d+)", final)
    assert port == COMPOSE["x-environment"]["GPUFLEET_PROBE_PORT"]
    assert "--constraint constraints.txt" in DOCKERFILE


def test_the_image_is_made_of_what_its_build_copies_and_of_nothing_else():
    """Not of tests, of a checkout's state, or of what lies around."""
    told = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    let_in = {line.removeprefix("!") for line in told if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]}
    assert told[0] == "*"
    assert {name.removesuffix("/slim.py") for name in copied} == let_in


def test_what_the_image_leaves_out_is_there_and_is_nothing_that_is_read():
    packages = Path(importlib.util.find_spec("pyarrow").origin).parents[1]
    gone = {str(path.relative_to(packages)) for path in unused(packages)}
    assert {"pyarrow/include", "pyarrow/tests"} <= gone
    schemas = {name for name in gone if "kubernetes-json-schema" in name}
    assert len(schemas) > 10
    assert not any(f"v{KUBERNETES_VERSION}-" in name for name in schemas)
