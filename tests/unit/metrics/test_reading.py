"""Exporters of both makes in one vocabulary."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.metrics.devices import Holder, Vendor
from shared.metrics.reading import read_exporter
from shared.metrics.series import device_name
from shared.metrics.vocabulary import UNITS, Measure

SAMPLES = Path(__file__).parents[2] / "samples"
NVIDIA = (SAMPLES / "dcgm-exporter-synthetic.prom").read_text()
AMD = (SAMPLES / "amd-device-metrics-exporter-synthetic.prom").read_text()
LABELS = 'gpu="0",UUID="GPU-1",modelName="H100",hostname="node-1"'


def only(text: str):
    scraped = read_exporter(text)
    assert scraped.broken == 0
    (reading,) = scraped.readings
    return reading


def dcgm(**series: str):
    return only("".join(f"DCGM_{name}{{{LABELS}}} {value}\n" for name, value in series.items())).values


def amd(labels: str = "", **series: str):
    block = f'gpu_id="3",gpu_uuid="u-3",hostname="node-2"{labels}'
    return only("".join(f"{name}{{{block}}} {value}\n" for name, value in series.items()))


def test_every_measure_has_a_unit():
    assert set(UNITS) == set(Measure)


def test_a_dcgm_exporter():
    first, _, idle, last = read_exporter(NVIDIA).readings

    assert first.device.vendor is Vendor.NVIDIA
    assert (first.device.node, first.device.index, first.device.uuid) == (
        "ip-10-0-1-17.ec2.internal",
        "0",
        "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52",
    )
    assert first.holder == Holder(namespace="team-a", pod="llm-train-0-x7k2p", container="trainer")
    assert idle.holder is None
    assert first.values[Measure.UTILIZATION] == 97
    assert first.values[Measure.VRAM_TOTAL] == 70889 + 10049 + 621
    assert first.values[Measure.POWER] == 612.431
    assert idle.values[Measure.PCIE_EFFICIENCY] == pytest.approx(2.5 / 32 * 100)
    assert last.values[Measure.PCIE_REPLAYS] == 2


def test_an_amd_exporter():
    first, _, idle, last = read_exporter(AMD).readings

    assert first.device.vendor is Vendor.AMD
    assert first.device.model == "AMD Instinct MI300X OAM"
    assert first.device.partition is None
    assert first.labels == {"project_id": "2f9d0c52-0d7b-4c39-9d43-f7a7f5f6d101", "workload_id": "11111111-aaaa-4aaa-8aaa-111111111111"}
    assert idle.holder is None
    assert (first.values[Measure.CLOCK], first.values[Measure.MEMORY_CLOCK]) == (2101, 900)
    assert last.values[Measure.PCIE_EFFICIENCY] == 50


def test_both_makes_have_the_same_measures():
    nvidia, other = read_exporter(NVIDIA).readings[0].values, read_exporter(AMD).readings[0].values

    assert set(nvidia) - set(other) == {Measure.PCIE_REPLAYS, Measure.HEALTH}
    assert set(other) <= set(nvidia)


@pytest.mark.parametrize("blank", ["9223372036854775792", "9.223372036854775794e+18", "2147483632", "140737488355330", "NaN", "+Inf"])
def test_a_blank_of_dcgm_is_no_value(blank):
    values = dcgm(FI_DEV_MEMORY_TEMP=blank, FI_DEV_GPU_TEMP="40")

    assert values == {Measure.JUNCTION_TEMPERATURE: 40}


@pytest.mark.parametrize("blank", ["65535", "4294967295", "18446744073709551615"])
def test_a_blank_of_amd_smi_is_no_value(blank):
    assert amd(gpu_memory_temperature=blank, gpu_used_vram="65535").values == {Measure.VRAM_USED: 65535}


def test_a_mig_partition_is_apart_and_has_the_activity_of_its_own_engine():
    whole = f"DCGM_FI_DEV_GPU_UTIL{{{LABELS}}} 90\n"
    parts = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{LABELS},GPU_I_PROFILE="1g.10gb",GPU_I_ID="{number}"}} 0.{number}\n' for number in (1, 2)
    )

    readings = read_exporter(whole + parts).readings

    assert [(one.device.partition, one.values.get(Measure.UTILIZATION)) for one in readings] == [(None, None), ("1", 10), ("2", 20)]
    assert readings[1].device.profile == "1g.10gb"
    assert len({device_name(one.device) for one in readings}) == 3


def test_what_belongs_to_a_whole_device_stands_once_beside_its_partitions():
    text = "".join(
        f'DCGM_FI_DEV_{name}{{{LABELS},GPU_I_PROFILE="3g.40gb",GPU_I_ID="{number}",pod="p{number}",namespace="s"}} {value}\n'
        for number in (1, 2)
        for name, value in (("POWER_USAGE", 300), ("GPU_TEMP", 50), ("FB_USED", 1000 * number), ("FB_FREE", 100), ("XID_ERRORS", 0))
    )

    whole, first, second = read_exporter(text).readings

    assert (whole.device.partition, whole.device.profile, whole.device.uuid, whole.holder) == (None, None, "GPU-1", None)
    assert whole.values == {Measure.POWER: 300, Measure.JUNCTION_TEMPERATURE: 50, Measure.HEALTH: 1}
    assert [one.values for one in (first, second)] == [
        {Measure.VRAM_USED: 1000, Measure.VRAM_TOTAL: 1100},
        {Measure.VRAM_USED: 2000, Measure.VRAM_TOTAL: 2100},
    ]
    assert [one.holder.pod for one in (first, second)] == ["p1", "p2"]


def test_an_amd_partition_is_apart():
    labels = ',gpu_compute_partition_type="cpx",gpu_partition_id="5"'

    reading = amd(labels, gpu_used_vram="100")

    assert (reading.device.partition, reading.device.profile) == ("5", "cpx")


@pytest.mark.parametrize("name", ["hostname", "Hostname", "HOSTNAME"])
def test_labels_are_read_in_any_case(name):
    text = f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",uuid="GPU-9",{name}="n"}} 1\n'
    text += f'gpu_health{{GPU_ID="1",GPU_UUID="u",{name}="n",POD="p",NAMESPACE="s"}} 1\n'

    nvidia, other = read_exporter(text).readings

    assert (nvidia.device.uuid, other.device.uuid) == ("GPU-9", "u")
    assert other.holder == Holder(namespace="s", pod="p")


def test_who_holds_a_device_is_read_behind_a_prometheus_too():
    block = f'{LABELS},namespace="gpu-operator",pod="dcgm-exporter-x",exported_namespace="team-a",exported_pod="train-0"'

    assert only(f"DCGM_FI_DEV_GPU_TEMP{{{block}}} 1\n").holder == Holder(namespace="team-a", pod="train-0")


def test_pod_labels_are_passed_on():
    assert only(f'DCGM_FI_DEV_GPU_TEMP{{{LABELS},app_kubernetes_io_name="x",pod_uid="1"}} 1\n').labels == {"app_kubernetes_io_name": "x"}


def test_the_worst_verdict_is_a_devices_health():
    text = "".join(
        f'DCGM_EXP_GPU_HEALTH_STATUS{{{LABELS},health_watch="{watch}"}} {value}\n' for watch, value in (("PCIE", 20), ("MEM", 0))
    )

    assert only(text).values[Measure.HEALTH] == 0


def test_an_xid_error_is_no_health():
    assert dcgm(FI_DEV_XID_ERRORS="79")[Measure.HEALTH] == 0


def test_pcie_bandwidth_is_in_megabits():
    assert dcgm(FI_PROF_PCIE_TX_BYTES="1000000", FI_PROF_PCIE_RX_BYTES="500000")[Measure.PCIE_BANDWIDTH] == 12


def test_a_narrower_link_is_less_efficient():
    gauges = {
        "FI_DEV_PCIE_LINK_GEN": "4",
        "FI_DEV_PCIE_MAX_LINK_GEN": "5",
        "FI_DEV_PCIE_LINK_WIDTH": "8",
        "FI_DEV_PCIE_MAX_LINK_WIDTH": "16",
    }

    assert dcgm(**gauges)[Measure.PCIE_EFFICIENCY] == 25


def test_a_broken_line_takes_no_other_with_it():
    good = f"DCGM_FI_DEV_GPU_TEMP{{{LABELS}}} 40\n"

    broken = ['DCGM_FI_DEV_POWER_USAGE{gpu="0} 3', f"DCGM_FI_DEV_SM_CLOCK{{{LABELS}}} fast", "DCGM_FI_DEV_GPU_UTIL{ 3", "\x00{}"]

    scraped = read_exporter(good + "\n".join(broken))

    assert scraped.broken == 3
    assert scraped.readings[0].values == {Measure.JUNCTION_TEMPERATURE: 40}


def test_series_of_no_device_are_left_out():
    assert read_exporter('DCGM_FI_DEV_GPU_TEMP{gpu="0"} 1\nDCGM_FI_DEV_GPU_TEMP 2\ngo_goroutines 7\n').readings == ()


def test_braces_and_quotes_within_labels():
    reading = only('DCGM_FI_DEV_GPU_TEMP{gpu="0",hostname="n",modelName="a } \\" b"} 1 1700000000000\n')

    assert reading.device.model == 'a } " b'
