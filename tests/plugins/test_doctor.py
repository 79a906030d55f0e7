"""doctor: every finding with its cure, on real captures, on inventories made up for one fault each, and on this machine."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from groundspeed.plugins.device.base import DeviceInfo, Process, State
from groundspeed.plugins.doctor import gather, smi, texts
from groundspeed.plugins.doctor.captures import inventory_of
from groundspeed.plugins.doctor.checks import examine
from groundspeed.plugins.doctor.inventory import Host, Inventory, Nccl, Torch
from groundspeed.plugins.outcomes import evidence
from groundspeed.plugins.symptoms import SYMPTOMS

GPU = DeviceInfo(0, "GPU-1", "NVIDIA H200", 141 << 30)
SECOND = DeviceInfo(1, "GPU-2", "NVIDIA H200", 141 << 30)
WELL = State(processes=(), memory_used_bytes=0, ecc_uncorrected=0, remapped_rows_pending=False,
             remapped_rows_failed=False, persistence=True, temperature_c=40, power_limit_w=700, power_default_w=700,
             mig=False, clocks_locked=True)  # fmt: skip
HOST = Host(files_soft=1 << 16, files_hard=1 << 16, shm_bytes=64 << 30, cpus=16, load_1m=0.1, governor="performance",
            modules=frozenset({"nvidia"}), pci_gpus=("nvidia",))  # fmt: skip
TORCH = Torch("2.11.0+cu130", "13.0", None, 1, "2.28.9")
GOOD = Inventory(devices=((GPU, WELL),), driver="580.159.04", driver_cuda="13.0", torch=TORCH, host=HOST,
                 nccl=Nccl("2.28.9", "/v/nvidia/nccl/lib/libnccl.so.2"))  # fmt: skip


def with_state(**changes):
    return dataclasses.replace(GOOD, devices=((GPU, dataclasses.replace(WELL, **changes)),))


def with_host(**changes):
    return dataclasses.replace(GOOD, host=dataclasses.replace(HOST, **changes))


def with_torch(**changes):
    return dataclasses.replace(GOOD, torch=dataclasses.replace(TORCH, **changes))


def codes(inventory):
    return [finding.code for finding in examine(inventory)]


def test_a_healthy_node_has_no_finding():
    assert examine(GOOD) == []


@pytest.mark.parametrize(
    ("code", "inventory"),
    [
        ("no-driver", dataclasses.replace(with_host(modules=frozenset()), devices=())),
        ("nouveau", dataclasses.replace(with_host(modules=frozenset({"nouveau"})), devices=())),
        ("device-hidden", dataclasses.replace(GOOD, visible="")),
        ("device-hidden", dataclasses.replace(GOOD, visible="7")),
        ("mig-on", with_state(mig=True)),
        ("ecc-errors", with_state(ecc_uncorrected=2)),
        ("row-remap-failed", with_state(remapped_rows_failed=True)),
        ("row-remap-pending", with_state(remapped_rows_pending=True)),
        ("hot", with_state(temperature_c=85)),
        ("other-processes", with_state(processes=(Process(4242, 1 << 30),))),
        ("leaked-memory", with_state(memory_used_bytes=20 << 30)),
        ("clocks-unlocked", with_state(clocks_locked=False)),
        ("power-cap", with_state(power_limit_w=500)),
        ("persistence-off", with_state(persistence=False)),
        ("torch-missing", with_torch(version=None)),
        ("torch-cpu-build", with_torch(version="2.11.0+cpu", cuda=None, nccl="", devices=0)),
        ("torch-newer-than-driver", dataclasses.replace(GOOD, driver="550.54", driver_cuda="12.4")),
        ("torch-newer-than-driver", dataclasses.replace(GOOD, driver="550.54", driver_cuda=None)),
        ("torch-wrong-vendor", with_torch(cuda=None, hip="6.4")),
        ("torch-no-gpu", with_torch(devices=0)),
        ("nccl-missing", dataclasses.replace(with_torch(nccl="", devices=2), devices=((GPU, WELL), (SECOND, WELL)))),
        ("nccl-shadowed", with_torch(nccl="2.19.3")),
        ("nccl-shadowed", dataclasses.replace(GOOD, nccl=Nccl("2.28.9", "/opt/l.so", ("/opt/l.so",)))),
        ("low-files", with_host(files_soft=1024)),
        ("low-shm", with_host(shm_bytes=64 << 20)),
        ("few-cpus", with_host(cpus=2)),
        ("busy-host", with_host(load_1m=30.0)),
        ("governor", with_host(governor="powersave")),
        ("no-accelerator", Inventory(accelerator=False)),
    ],
)  # fmt: skip
def test_one_fault_gives_one_finding_with_its_cure(code, inventory):
    (finding,) = examine(inventory)
    assert finding.code == code
    assert finding.evidence
    assert finding.symptom.why
    assert finding.symptom.cure


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "no-driver"),
        ("libnvidia-ml.so.1: cannot open shared object file: No such file or directory", "nvml-missing"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "torch-newer-than-driver"),
        ("AssertionError: Torch not compiled with CUDA enabled", "torch-cpu-build"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "torch-arch"),
        ("ImportError: libtorch_cuda.so: undefined symbol: ncclCommWindowRegister", "nccl-shadowed"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "nccl-missing"),
        ("torch.distributed.DistBackendError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO)", "nccl-error"),
        ("OSError: [Errno 24] Too many open files", "low-files"),
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error.", "low-shm"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", "out-of-memory"),
        ("CUDA error: device-side assert triggered", "device-assert"),
        ("[1.0] NVRM: Xid (PCI:0000:03:00): 31, pid=1, name=python, Ch 00000008", "xid-application"),
        ("[1.0] NVRM: Xid (PCI:0000:03:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "device-lost"),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 44 sourceid", "fabric"),
    ],
)  # fmt: skip
def test_error_texts_are_explained(text, code):
    assert code in texts.codes(text)


def test_a_cause_is_told_without_its_consequences():
    mismatch = "Failed to initialize NVML: Driver/library version mismatch"
    seen = dataclasses.replace(with_torch(devices=0), texts={"nvidia-smi": mismatch})
    assert codes(seen) == ["driver-library-mismatch"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nvidia-smi-errors/gpu-is-lost.txt", ["device-lost"]),
        ("nvidia-smi-errors/handle-unknown-new.txt", ["device-lost"]),
        ("nvidia-smi-errors/handle-unknown-old.txt", ["device-lost"]),
        ("nvidia-smi-errors/no-adapter-probed.txt", ["nouveau"]),
        ("nvidia-smi-errors/no-devices.txt", ["no-device"]),
        ("nvidia-smi-errors/no-driver.txt", ["no-driver"]),
        ("nvidia-smi-errors/nvml-mismatch-580.txt", ["driver-library-mismatch"]),
        ("nvidia-smi-errors/nvml-mismatch-old.txt", ["driver-library-mismatch"]),
        ("nvidia-smi-errors/query-csv-unknown-error.csv", ["device-lost"]),
        ("kernel-log/gpud-xid-119.log", ["xid"]),
        ("kernel-log/gpud-fabricmanager.log", ["fabric"]),
        ("nccl/issue-322-died-in-the-middle.txt", ["nccl-error"]),
        ("nccl/issue-37-out-of-bounds-failed.txt", ["collective-wrong"]),
        ("nccl/pair-failures.txt", ["nccl-error"]),
        ("nccl/pair-ok-N2_G1.log", []),
        ("nccl/polaris-launch-failed.dat", ["launch-failed"]),
        ("nccl/polaris-start-failed.dat", ["launch-failed"]),
        ("nvidia-smi-q/gpud-535.129.03.out.0.valid.a10.txt", ["row-remap-pending", "clocks-unlocked"]),
        ("nvidia-smi-x/telegraf-tesla-t4.xml", ["other-processes", "clocks-unlocked", "persistence-off"]),
        ("smi_q.xml", ["clocks-unlocked"]),
        ("smi_q.txt", ["clocks-unlocked"]),
    ],
)
def test_real_captures(shared_data, name, wanted):
    text = (shared_data / "gpu" / name).read_text(errors="replace")
    assert codes(inventory_of({name: text})) == wanted


@pytest.mark.data
def test_the_two_forms_of_one_report_agree_and_a_cut_one_is_told(shared_data):
    xml, text = (smi.parse((shared_data / "gpu" / name).read_text()) for name in ("smi_q.xml", "smi_q.txt"))
    assert xml.driver == text.driver == "580.159.04"
    ((first, first_state),), ((second, second_state),) = xml.devices, text.devices
    assert (first.model, first.uuid, first.memory_bytes) == (second.model, second.uuid, second.memory_bytes)
    assert first_state == second_state
    assert first_state.ecc_uncorrected == 0
    assert first_state.power_default_w == 700
    cut = (shared_data / "gpu/nvidia-smi-q/gpud-535.183.01.out.0.invalid.txt").read_text()
    inventory = inventory_of({"cut": cut})
    assert len(inventory.devices) == 1
    assert "1 of 8" in inventory.unavailable["cut"]
    half = (shared_data / "gpu/smi_q.xml").read_text()
    assert smi.parse(half[: len(half) // 2]).driver == "580.159.04"


def test_a_hostile_report_is_refused():
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aa">]><nvidia_smi_log>&a;</nvidia_smi_log>'
    with pytest.raises(smi.Unreadable, match="entities"):
        smi.parse(bomb)


def test_results_carry_hints_in_the_same_words():
    (hint,) = evidence(RuntimeError("CUDA error: no kernel image is available for execution"))["hints"]
    symptom = SYMPTOMS["torch-arch"]
    assert hint == {"code": "torch-arch", "what": symptom.what, "why": symptom.why, "cure": symptom.cure}
    assert "hints" not in evidence(ValueError("no luck"))


def test_libraries_in_front_are_those_of_the_path_and_not_torchs_own(tmp_path, monkeypatch):
    for folder in ("other", "nvidia/nccl/lib"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "libnccl.so.2").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/nvidia/nccl/lib:{tmp_path}/other:{tmp_path}/absent")
    monkeypatch.setenv("LD_PRELOAD", "/x/libfoo.so /x/libnccl.so.2")
    assert list(gather.libraries_in_front()) == ["/x/libnccl.so.2", f"{tmp_path}/other/libnccl.so.2"]


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", "from groundspeed.cli.main import main; main()", "doctor", *arguments],
        capture_output=True, text=True, check=False, timeout=250, **options,
    )  # fmt: skip


def test_the_command_checks_this_machine():
    done = run("--json", "--no-torch")
    assert done.returncode in {0, 1}, done.stderr
    said = json.loads(done.stdout)
    assert said["version"] == 1
    if not os.path.exists("/dev/nvidiactl") and not os.path.exists("/dev/kfd"):  # noqa: PTH110
        assert "no-accelerator" in [finding["code"] for finding in said["findings"]]
        assert done.returncode == 0


def test_the_command_reads_captures_and_says_no_with_its_exit_code(tmp_path: Path):
    capture = tmp_path / "error.txt"
    capture.write_text("Failed to initialize NVML: Driver/library version mismatch\n")
    done = run(str(capture))
    assert done.returncode == 1
    assert "cure: reboot" in done.stdout
    done = run(str(tmp_path / "absent"))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    done = run("-", "--json", input="all is well\n")
    assert (done.returncode, json.loads(done.stdout)["findings"]) == (0, [])
