"""Devices through vendors' libraries that are not here: fakes of their symbols, recorded traces and captures."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from groundspeed.plugins import command, device
from groundspeed.plugins.device import kernel_log, reasons
from groundspeed.plugins.device.base import DeviceInfo, Process, Reading, State
from groundspeed.plugins.device.hygiene import (
    appeared,
    belongs_to_programs,
    changes,
    clean_findings,
    cool_down,
    fault_findings,
    node_findings,
    settle,
)
from groundspeed.plugins.device.nvml import Nvml, NvmlUnavailable
from groundspeed.plugins.device.others import AmdSmi, IntelSysfs, NoMonitor
from groundspeed.plugins.execution import spoiled
from groundspeed.plugins.programs import running, values
from groundspeed.plugins.protocol import MetricReport
from groundspeed.plugins.spi import Context, SampleState
from groundspeed.plugins.symptoms import SYMPTOMS
from groundspeed.plugins.timing import classify, drive, profile
from groundspeed.plugins.timing import conditions as conditions_of
from groundspeed.plugins.timing.sampler import Sampler, Trace

GPU = DeviceInfo(0, "GPU-1", "NVIDIA H200")


class FakeNvml:
    """The symbols of libnvidia-ml that are called, with the values of an H200 under load; not all of them answer."""

    def __init__(self, init=0, missing=()):
        self.init, self.missing = init, missing
        self.processes = [(4242, 1 << 30)]

    def nvmlInit_v2(self):  # noqa: N802 - NVML's name
        return self.init

    def __getattr__(self, name):
        if not name.startswith("nvml") or name in self.missing:
            raise AttributeError(name)
        numbers = {
            "nvmlDeviceGetCount_v2": 1, "nvmlDeviceGetClockInfo": 1480, "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetPowerUsage": 691_000, "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700_000, "nvmlDeviceGetTemperature": 59,
            "nvmlDeviceGetCurrentClocksEventReasons": 4, "nvmlDeviceGetTotalEnergyConsumption": 5_000_000,
            "nvmlDeviceGetPersistenceMode": 1, "nvmlDeviceGetTotalEccErrors": 0,
            "nvmlDeviceGetApplicationsClock": 1980, "nvmlDeviceGetDefaultApplicationsClock": 1980,
            "nvmlSystemGetCudaDriverVersion_v2": 13000,
        }  # fmt: skip
        texts = {"nvmlDeviceGetUUID": b"GPU-1", "nvmlDeviceGetName": b"NVIDIA H200",
                 "nvmlDeviceGetVbiosVersion": b"96.00", "nvmlSystemGetDriverVersion": b"580.159.04"}  # fmt: skip

        if name == "nvmlErrorString":
            return ErrorString()

        def call(*arguments):
            if name in numbers:
                arguments[-1]._obj.value = numbers[name]
                return 0
            if name in texts:
                arguments[-2].value = texts[name]
                return 0
            if name == "nvmlDeviceGetHandleByIndex_v2":
                arguments[-1]._obj.value = 1
                return 0
            if name.startswith("nvmlDeviceGetMemoryInfo"):
                memory = arguments[-1]._obj
                memory.total, memory.used = 150 << 30, 10 << 30
                if name.endswith("_v2"):
                    memory.reserved = 1 << 29
                return 0
            if name.startswith("nvmlDeviceGetComputeRunningProcesses"):
                count, array = arguments[-2]._obj, arguments[-1]
                for index, (pid, used) in enumerate(self.processes):
                    array[index].pid, array[index].memory = pid, used
                count.value = len(self.processes)
                return 0
            return 3  # not supported

        return call


class ErrorString:
    restype = None

    def __call__(self, code):
        return b"Driver/library version mismatch" if code == 18 else b"Not Supported"


fake = FakeNvml


def test_nvml_is_read_and_what_it_lacks_is_not_available():
    nvml = Nvml(fake(missing=("nvmlDeviceGetMigMode",)))
    (device,) = nvml.devices()
    assert (device.uuid, device.model, device.memory_bytes) == ("GPU-1", "NVIDIA H200", 150 << 30)
    reading = nvml.reading("GPU-1")
    assert (reading.sm_mhz, reading.power_w, reading.reasons, reading.utilisation) == (1480, 691.0, 4, None)
    state = nvml.state("GPU-1")
    assert state.processes == (Process(4242, 1 << 30),)
    assert (state.mig, state.remapped_rows_pending, state.clocks_locked, state.persistence) == (None, None, False, True)
    assert "no such call" in state.missing["nvmlDeviceGetMigMode"]
    assert nvml.energy_j("GPU-1") == 5000.0
    assert {facet.name: facet.value for facet in nvml.facets()}["gpu.driver"] == "580.159.04"
    assert nvml.reading("GPU-9") == Reading()


def test_an_older_driver_is_asked_by_its_older_calls():
    processes, memory = "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetMemoryInfo_v2"
    for missing in ((f"{processes}_v3", memory), (f"{processes}_v3", f"{processes}_v2", memory)):
        state = Nvml(fake(missing=missing)).state("GPU-1")
        assert state.processes == (Process(4242, 1 << 30),)
        assert (state.memory_used_bytes, state.memory_reserved_bytes) == (10 << 30, 0)
    none = Nvml(fake(missing=(f"{processes}_v3", f"{processes}_v2", processes)))
    assert none.processes("GPU-1") is None
    assert "no such call" in none.state("GPU-1").missing["processes"]


def test_a_library_that_does_not_start_says_why():
    with pytest.raises(NvmlUnavailable, match="version mismatch"):
        Nvml(fake(init=18))


def test_the_sampler_reads_until_stopped_and_sees_strangers():
    nvml = Nvml(fake())
    sampler = Sampler(nvml, "GPU-1", rate_hz=200)
    sampler.start()
    while not sampler.trace.t_s:
        time.sleep(0.001)
    sampler.stop()
    columns = sampler.trace.columns(sampler.trace.t_s[0])
    assert {len(column) for column in columns.values()} == {len(sampler.trace.t_s)}
    assert sampler.strangers == {4242: 1 << 30}
    assert columns["foreign"][0] == 1
    assert "utilisation" not in columns


def test_amd_through_its_own_library():
    enum = types.SimpleNamespace
    smi = types.SimpleNamespace(
        AmdSmiMemoryType=enum(VRAM=0), AmdSmiClkType=enum(GFX=0, MEM=1), AmdSmiTemperatureType=enum(HOTSPOT=1),
        AmdSmiTemperatureMetric=enum(CURRENT=0), amdsmi_init=lambda: None, amdsmi_get_processor_handles=lambda: ["h"],
        amdsmi_get_gpu_device_uuid=lambda _: "u", amdsmi_get_gpu_asic_info=lambda _: {"market_name": "MI300X"},
        amdsmi_get_gpu_memory_total=lambda *_: 192 << 30, amdsmi_get_clock_info=lambda _, kind: {"clk": 2100 - kind},
        amdsmi_get_power_info=lambda _: {"current_socket_power": "N/A", "average_socket_power": 500},
        amdsmi_get_gpu_activity=lambda _: {"gfx_activity": 97}, amdsmi_get_temp_metric=lambda *_: 66,
        amdsmi_get_gpu_process_list=lambda _: [{"pid": 7, "mem": 5}],
        amdsmi_get_gpu_total_ecc_count=lambda _: {"uncorrectable_count": 1, "correctable_count": 0},
        amdsmi_get_power_cap_info=lambda _: {"power_cap": 750_000_000, "default_power_cap": 750_000_000},
        amdsmi_get_energy_count=lambda _: {"energy_accumulator": 1000, "counter_resolution": 15.3},
    )  # fmt: skip
    amd = AmdSmi(smi)
    assert amd.devices() == (DeviceInfo(0, "u", "MI300X", 192 << 30),)
    assert amd.reading("u") == Reading(sm_mhz=2100, memory_mhz=2099, power_w=500, temperature_c=66, utilisation=0.97)
    state = amd.state("u")
    assert (state.ecc_uncorrected, state.power_limit_w, state.mig) == (1, 750.0, None)
    assert amd.energy_j("u") == pytest.approx(0.0153)
    assert "another form" in state.missing["remapped_rows_failed"]


def test_intel_through_the_kernels_files(tmp_path):
    card = tmp_path / "card0"
    hwmon = card / "device" / "hwmon" / "hwmon3"
    rate = card / "device" / "tile0" / "gt0" / "freq0"
    for folder in (hwmon, rate):
        folder.mkdir(parents=True)
    (card / "device" / "vendor").write_text("0x8086\n")
    (card / "device" / "device").write_text("0x0bd5\n")
    (card / "device" / "uevent").write_text("DRIVER=xe\nPCI_SLOT_NAME=0000:3a:00.0\n")
    (hwmon / "energy1_input").write_text("2500000\n")
    (hwmon / "power1_max").write_text("600000000\n")
    (hwmon / "temp2_input").write_text("55000\n")
    (rate / "act_freq").write_text("1600\n")
    intel = IntelSysfs(tmp_path)
    (device,) = intel.devices()
    assert device.uuid == "0000:3a:00.0"
    reading = intel.reading(device.uuid)
    assert (reading.sm_mhz, reading.temperature_c, reading.power_w) == (1600, 55, None)
    assert intel.energy_j(device.uuid) == 2.5
    state = intel.state(device.uuid)
    assert state.power_limit_w == 600
    assert state.processes is None
    assert "processes" in state.missing
    with pytest.raises(LookupError, match="no Intel"):
        IntelSysfs(tmp_path / "card0")


def test_a_device_that_nothing_watches_says_so():
    none = NoMonitor("apple", "powermetrics needs root")
    assert none.reading("x") == Reading()
    assert set(none.state("x").missing.values()) == {"powermetrics needs root"}
    assert none.state("x").missing.keys() >= {"all", "processes", "ecc_uncorrected", "temperature_c"}
    assert none.processes("x") is None


# --- hygiene ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State(ecc_uncorrected=3), "uncorrected ECC errors"),
        (State(remapped_rows_failed=True), "have the GPU replaced"),
        (State(remapped_rows_pending=True), "reset the GPU"),
    ],
)
def test_a_bad_device_takes_its_node_out_of_use_in_words(state, words):
    (finding,) = node_findings(GPU, state)
    assert words in finding
    assert "GPU-1" in finding
    assert node_findings(GPU, State()) == []


def test_faults_of_devices_count_against_the_node_and_those_of_programs_do_not():
    log = (
        "NVRM: Xid (PCI:0000:03:00): 31, pid=1, name=python, Ch 8\n"
        "NVRM: Xid (PCI:0000:03:00): 119, pid=2, name=x, Timeout of RPC, with, commas\n"
        "NVRM: Xid (PCI:0000:03:00): 119, pid=2, name=x, again\n"
    )
    faults = list(kernel_log.faults(log))
    assert [fault.number for fault in faults] == [31, 119, 119]
    assert faults[1].message.endswith("with, commas")
    (finding,) = fault_findings(faults)
    assert "Xid 119 (the GSP firmware does not answer) of 0000:03:00" in finding
    assert "reset the GPU" in finding


def test_strangers_leaks_and_rising_counters_make_a_measurement_untrustworthy():
    state = State(processes=(Process(1, 5 << 20), Process(2)), memory_used_bytes=0)
    (finding,) = clean_findings(state, own=[1])
    assert finding.startswith("other processes hold the device (process 2 holds an unknown amount): stop them")
    leaked = State(processes=(), memory_used_bytes=5 << 30, memory_reserved_bytes=1 << 29)
    assert "in use by no process that can be seen (5120 MiB" in clean_findings(leaked, own=[])[0]
    assert clean_findings(State(memory_used_bytes=5 << 30), own=[]) == []  # nobody can say whose it is
    assert "85 °C" in clean_findings(State(temperature_c=85), own=[])[0]
    before, after = State(ecc_corrected=1, ecc_uncorrected=0), State(ecc_corrected=4, ecc_uncorrected=1)
    assert changes(before, after) == [
        f"1 uncorrected ECC errors during the run: {SYMPTOMS['ecc-errors'].cure}",
        "3 corrected ECC errors during the run",
    ]


def test_a_process_that_has_just_ended_is_waited_for_and_one_that_stays_is_not():
    listed = [[Process(7, None)], [Process(7, None)], []]
    waited = []
    assert settle(lambda: listed.pop(0), sleep=waited.append) == pytest.approx(0.04)
    assert settle(lambda: [Process(7, None)], at_most_s=0.1, sleep=waited.append) == pytest.approx(0.1)
    assert len(waited) == 7


def test_a_container_that_sees_the_hosts_process_numbers_knows_itself():
    before, after = (Process(5, None),), (Process(5, None), Process(90_001, None))
    assert appeared(before, after, {42}) == {90_001}
    assert appeared(before, (*before, Process(42, None)), {42}) == frozenset()
    assert appeared(None, None, {42}) == frozenset()
    sampler = Sampler(Nvml(FakeNvml()), "GPU-1", mine=frozenset({4242}).__contains__)
    assert sampler._look_for_strangers() == 0


def test_what_a_program_starts_on_the_device_is_its_own():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        mine = belongs_to_programs([Process(1, None), Process(999_999_998, None)])
        assert [mine(pid) for pid in (child.pid, os.getpid(), 1)] == [True, True, False]
        assert [mine(pid) for pid in (999_999_998, 999_999_999)] == [False, True]
    finally:
        child.kill()
        child.wait()


def test_a_device_is_watched_while_a_program_may_use_it(monkeypatch):
    """The stranger that the library lists from the beginning makes every sample of a program worthless."""
    monkeypatch.setattr(device, "_opened", [Nvml(FakeNvml())])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(conditions_of, "settle", lambda _: 0.0)
    conditions = conditions_of.Conditions.start(
        conditions_of.first_visible(), for_programs=True
    )  # fmt: skip
    until = time.monotonic() + 30
    while not conditions.trace.foreign and time.monotonic() < until:
        time.sleep(0.01)
    begin = time.perf_counter()
    assert conditions.device_uuid == "GPU-1"
    assert conditions.state_between(begin, 0.01) is SampleState.REJECTED
    assert "another process" in conditions.labels()["contaminated"]
    assert conditions.summary()["device"]["sm_mhz"]["median"] == 1480
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert conditions_of.first_visible() == "cpu"


class Rack:
    """Two devices; a stranger on the second, whose list is ``strangers``; nothing else is known of them."""

    vendor = "nvidia"
    strangers: tuple[Process, ...] | None = (Process(4242, 1 << 30),)

    def devices(self):
        return (DeviceInfo(0, "GPU-1", "H200"), DeviceInfo(1, "GPU-2", "H200"))

    def reading(self, _uuid):
        return Reading(sm_mhz=1480)

    def processes(self, uuid):
        return self.strangers if uuid == "GPU-2" else ()

    def energy_j(self, uuid):
        return None if uuid == "GPU-2" else 5.0

    def state(self, uuid):
        return State(processes=self.processes(uuid))


def watched_rack(monkeypatch, rack):
    monkeypatch.setattr(device, "_opened", [rack])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(conditions_of, "settle", lambda _: 0.0)
    found = conditions_of.Conditions.start("cuda:0", others=("cuda:1",), for_programs=True, rate_hz=100)
    until = time.monotonic() + 60
    while not all(one.trace.foreign for one in found.watched) and time.monotonic() < until:
        time.sleep(0.01)
    return found


def test_every_device_of_a_benchmark_is_watched_and_told_by_its_name(monkeypatch):
    conditions = watched_rack(monkeypatch, Rack())
    assert conditions.state_between(time.perf_counter(), 0.01) is SampleState.REJECTED
    assert conditions.labels()["contaminated"].startswith("cuda:1: another process")
    summary = conditions.summary()
    assert (summary["foreign_processes"], summary["device"]["energy_j"]) == ([], 0.0)
    other = summary["other_devices"]["cuda:1"]
    assert other["foreign_processes"] == [{"pid": 4242, "memory_bytes": 1 << 30}]
    assert "other processes hold" in other["hygiene"]["before"][0]
    assert "no counter" in other["device"]["energy_j"]["unavailable"]
    assert "unavailable" in other["device"]["clock_events"]
    assert summary["kernel_log"].keys() in ({"unavailable"}, {"faults"})


def test_processes_that_cannot_be_listed_are_not_taken_for_none(monkeypatch):
    rack = Rack()
    rack.strangers = None
    conditions = watched_rack(monkeypatch, rack)
    assert conditions.state_between(time.perf_counter(), 0.01) is SampleState.VALID
    assert "foreign" not in conditions.watched[1].trace.columns(0.0)
    assert "unavailable" in conditions.summary()["other_devices"]["cuda:1"]["foreign_processes"]


def test_a_stranger_may_have_come_at_any_time_since_the_last_look(monkeypatch):
    sampler = Sampler(Nvml(FakeNvml()), "GPU-1", rate_hz=4)  # looks every second reading
    seen = iter([0, 2])
    monkeypatch.setattr(sampler, "_look_for_strangers", lambda: next(seen))
    monkeypatch.setattr(sampler._stop, "wait", lambda _: None)
    sampler._run()
    assert sampler.trace.foreign == [2, 2, 2, 2]
    assert "StopIteration" in sampler.trouble


def test_figures_of_a_whole_run_beside_a_stranger_are_rejected():
    def report(clock, unit, states=()):
        return spoiled(MetricReport("m", unit, -1, "time", (1.0,), states=states, clock=clock)).states

    assert report("wall", "s") == report("none", "J/sample") == ("rejected",)
    assert report("cpu", "s") == report("none", "B") == ()
    assert report("wall", "s", ("valid",)) == ("valid",)


def test_the_kernels_log_is_followed_from_now_on(tmp_path):
    log = tmp_path / "kmsg"
    log.write_text("3,1,1,-;NVRM: Xid (PCI:0000:03:00): 79, pid=1, old\n")
    follower = kernel_log.FromNowOn(log)
    assert follower.faults() == []
    with log.open("a") as file:
        file.write("3,2,2,-;NVRM: Xid (PCI:0000:03:00): 48, pid=1, new\n")
    assert [fault.number for fault in follower.faults()] == [48]
    follower.close()
    absent = kernel_log.FromNowOn(tmp_path / "absent")
    assert (absent.faults(), "cannot be read" in absent.why) == ([], True)


def test_the_runs_of_a_program_are_worth_what_the_device_was(monkeypatch):
    monkeypatch.setattr(command, "once", lambda *_: (running.Ended(wall_s=1.0), values.Reading()))
    states = [SampleState.VALID, SampleState.DEGRADED]
    context = Context(
        device="cpu", target=None, workdir=Path.cwd(), progress=lambda _: None,
        params={param.name: param.default for param in command.PLUGIN.params} | {"command": "true", "runs": 2},
        state_between=lambda _begin, _seconds: states.pop(0),
    )  # fmt: skip
    (wall,) = [one for one in command.PLUGIN.run(context) if one.metric == "wall_time"]
    assert list(wall.states) == [SampleState.VALID, SampleState.DEGRADED]


def test_cooling_down_is_bounded():
    temperatures = iter([90.0, 85.0, 79.0])
    waited = []
    assert cool_down(lambda: next(temperatures), sleep=waited.append) == 79.0
    assert len(waited) == 2
    assert cool_down(lambda: 95.0, at_most_s=5, sleep=waited.append) == 95.0
    assert cool_down(lambda: None) is None


# --- classification of recorded traces --------------------------------------------------------------------------------


def trace(bits, strangers=None, step=0.05):
    readings = [Reading(sm_mhz=1980 - 5 * index, power_w=600, reasons=one) for index, one in enumerate(bits)]
    return Trace([index * step for index in range(len(bits))], readings, strangers or [0] * len(bits))


def test_samples_are_joined_to_the_readings_in_time():
    """A heat slowdown in the middle: the samples there are degraded, those before and after are valid."""
    recorded = trace([0] * 10 + [reasons.HW_THERMAL] * 5 + [0] * 10)
    starts = [index * 0.05 for index in range(25)]
    verdicts = classify.classify_samples(starts, [0.01] * 25, recorded)
    assert verdicts.states[5] == SampleState.VALID
    assert set(verdicts.states[10:14]) == {SampleState.DEGRADED}
    assert verdicts.states[20] == SampleState.VALID
    assert verdicts.reasons[12] == "hardware thermal slowdown"
    assert "heat slows" not in verdicts.labels["thermally_throttled"]
    assert "look at fans" in verdicts.labels["thermally_throttled"]


def test_a_stranger_rejects_and_a_power_cap_is_only_told():
    recorded = trace([reasons.POWER_CAP] * 20, [0] * 10 + [1] * 10)
    verdicts = classify.classify_samples([0.1, 0.8], [0.01, 0.01], recorded)
    assert verdicts.states == (SampleState.VALID, SampleState.REJECTED)
    assert set(verdicts.labels) == {"power_capped", "contaminated"}


def test_bounds_are_told_from_the_three_clocks():
    labels = classify.bound_labels(wall_s=4e-3, busy_s=0.56e-3, input_wait_s=None)
    assert "14%" in labels["launch_bound"]
    assert classify.bound_labels(4e-3, 3.9e-3, 1e-4) == {}
    assert "more loader workers" in classify.bound_labels(4e-3, None, 1e-3)["input_bound"]
    assert set(classify.bound_labels(4e-3, 0.9e-3, 3e-3)) == {"input_bound"}  # busy in the rest of the step
    assert set(classify.bound_labels(4e-3, 0.5e-3, 2e-3)) == {"input_bound", "launch_bound"}


def test_traced_steps_beside_a_stranger_are_rejected_as_timed_ones_are():
    recorded = trace([0] * 20, [0] * 10 + [1] * 10)
    session = types.SimpleNamespace(conditions=types.SimpleNamespace(trace=recorded))
    labels: dict[str, str] = {}
    traced = profile.ProfileResult(begin_s=[0.1, 0.8], took_s=[0.01, 0.01])
    assert drive._states_traced(session, traced, labels) == (SampleState.VALID, SampleState.REJECTED)
    assert "contaminated" in labels


@pytest.mark.data
def test_the_recorded_drift_of_a_power_capped_h200_is_told_by_its_readings(shared_data):
    """The measured lines of a matmul that starts at 1980 MHz and is capped: cycles stay, time moves."""
    import json

    lines = [json.loads(line) for line in (shared_data / "gpu/facts.jsonl").read_text().splitlines()]
    drift = [line for line in lines if line["name"] == "drift"]
    readings = [Reading(sm_mhz=line["sm"], power_w=line["W"], reasons=line["reasons"][-1]) for line in drift]
    recorded = Trace([line["lo"] for line in drift], readings, [0] * len(drift))
    verdicts = classify.classify_samples(
        [line["lo"] for line in drift], [line["hi"] - line["lo"] for line in drift], recorded
    )
    assert set(verdicts.states) == {SampleState.VALID}
    assert "power_capped" in verdicts.labels
    cycles = [line["ms"] * 1e-3 * (classify.clock_at(line["lo"], recorded) or 0) for line in drift if line["lo"] >= 1]
    assert max(cycles) / min(cycles) < 1.01
    summary = classify.summary(recorded)
    assert summary["clock_events"]["power cap"] > 0.5
    assert "unavailable" in summary["temperature_c"]
