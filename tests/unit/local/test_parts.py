"""The small parts of the embedded fleet."""

import asyncio
import os
import socket
from pathlib import Path

import pytest

from workers.local import environment, history, logfiles, plan, readiness, spot
from workers.local.environment import settings_alone
from workers.local.fleet import EmbeddedFleet
from workers.local.options import Options
from workers.local.ports import LOOPBACK, PortTakenError, free_ports, require_free


def test_free_ports_differ_and_keep_clear_of_what_is_to_be_avoided() -> None:
    ports = free_ports(20)

    assert len(set(ports)) == 20
    assert not set(free_ports(20, avoid=ports)) & set(ports)


async def test_a_taken_api_port_is_told_before_anything_is_started(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port} on 127.0.0.1, wanted for the API, is taken"):
            async with EmbeddedFleet(Options(api_port=port, state=tmp_path / "state")):
                pass
    require_free(port, "the API")
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["lock"]


def test_no_child_gets_credentials_or_a_kubeconfig_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "real")
    monkeypatch.setenv("KUBECONFIG", "/real")
    monkeypatch.setenv("GPUFLEET_TABLE", "production")

    specs = specs_of(Options(), tmp_path)

    for spec in specs:
        assert not {"AWS_PROFILE", "KUBECONFIG", "GPUFLEET_TABLE"} & set(spec.environment), spec.name
        assert spec.environment.get("AWS_SECRET_ACCESS_KEY", "gpufleet") == "gpufleet"


def specs_of(options: Options, state: Path) -> list[plan.ChildSpec]:
    layout = plan.Layout(
        aws_port=1,
        api_port=2,
        cluster_ports=dict.fromkeys(options.regions, 3),
        kubeconfig=state / "kubeconfig",
        spot_prices=state / "prices",
        scratch=state,
        api_host=options.api_host,
    )
    return [*plan.foundation(options, layout, namespaces=("gco-jobs", "team-b")), *plan.workers(options, layout)]


def test_the_fleet_has_every_worker_in_each_region(tmp_path: Path) -> None:
    names = [spec.name for spec in specs_of(Options(dispatchers=2), tmp_path)]

    assert names == [
        *("aws", "clusters", "api", "ingest"),
        *(f"dispatcher-{region}-{number}" for region in ("us-east-1", "eu-west-1") for number in (1, 2)),
        *("observer-us-east-1", "observer-eu-west-1", "sweeper", "webhooks", "costs", "metrics"),
    ]


def test_real_clusters_take_the_place_of_simulated_ones(tmp_path: Path) -> None:
    assert "clusters" not in [spec.name for spec in specs_of(Options(kubeconfig=tmp_path / "kubeconfig"), tmp_path)]


def test_simulated_clusters_have_each_namespace(tmp_path: Path) -> None:
    clusters = next(spec for spec in specs_of(Options(), tmp_path) if spec.name == "clusters")

    at = [index for index, argument in enumerate(clusters.arguments) if argument == "--namespace"]
    assert [clusters.arguments[index + 1] for index in at] == ["gco-jobs", "team-b"]


def test_settings_of_the_user_go_over_the_fleets_own(tmp_path: Path) -> None:
    api = next(spec for spec in specs_of(Options(settings={"GPUFLEET_SWEEP_SECONDS": "9"}), tmp_path) if spec.name == "api")

    assert api.environment["GPUFLEET_SWEEP_SECONDS"] == "9"
    assert api.environment["GPUFLEET_API_HOST"] == LOOPBACK
    assert environment.emulator(1, tmp_path)["BIND_HOST"] == LOOPBACK


def test_webhooks_may_speak_to_this_machine_while_nobody_else_can_make_them(tmp_path: Path) -> None:
    def local(options: Options) -> str | None:
        return next(spec for spec in specs_of(options, tmp_path) if spec.name == "api").environment.get("GPUFLEET_WEBHOOK_LOCAL")

    assert local(Options()) == "true"
    assert local(Options(api_host="0.0.0.0")) is None
    assert local(Options(settings={"GPUFLEET_WEBHOOK_LOCAL": "false"})) == "false"


def test_our_own_aws_variables_are_out_of_the_way_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")

    with settings_alone({"AWS_REGION": "x", "GPUFLEET_TABLE": "t"}):
        assert "AWS_PROFILE" not in os.environ
        assert os.environ["AWS_REGION"] == "x"

    assert os.environ["AWS_PROFILE"] == "production"
    assert "GPUFLEET_TABLE" not in os.environ


def test_the_tail_of_a_log_begins_where_it_is_told_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    begin = logfiles.size(log)
    log.write_text("old\n" + "".join(f"line {number}\n" for number in range(50)))

    assert logfiles.tail(log, lines=2, begin=begin) == "line 48\nline 49"
    assert "old" not in logfiles.tail(log, lines=500, begin=begin)
    assert logfiles.tail(tmp_path / "none") == ""


@pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n"])
async def test_a_server_that_speaks_no_http_is_not_ready(answer: bytes) -> None:
    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(talk, LOOPBACK, 0) as server:
        assert await readiness.status(server.sockets[0].getsockname()[1], "/") is None


def test_prices_that_somebody_edited_stay(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    spot.write_prices(path, ["us-east-1"])
    path.write_text("{}")

    spot.write_prices(path, ["us-east-1"])

    assert path.read_text() == "{}"


def start(job: str, execution: int, uid: str, pod: str) -> dict[str, object]:
    return {"annotations": {history.JOB_ID: job, history.EXECUTION: str(execution)}, "job_uid": uid, "pod_name": pod}


def test_the_history_finds_a_second_object_and_a_second_pod_of_an_execution() -> None:
    started = [start("a", 1, "u1", "p1"), start("a", 2, "u2", "p2"), start("b", 1, "u3", "p3"), start("b", 1, "u4", "p4")]
    started += [start("c", 1, "u5", "p5"), start("c", 1, "u5", "p6"), {"annotations": {}, "job_uid": "x", "pod_name": "y"}]

    ran = history.executions(started)

    assert [text.split(":")[0] for text in history.started_twice(ran, {})] == ["job b execution 1", "job c execution 1"]
    assert history.started_twice(ran, {"c": 2}) == ["job b execution 1: 2 objects ran: u3, u4"]
    assert history.count_by_job(ran) == {"a": 2, "b": 1, "c": 1}
