"""What a node says of itself, and the tiny workload by which a machine is told from the code."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path
from typing import Any

import pytest

from groundspeed.plugins.device import libraries, nvml_facets
from groundspeed.plugins.device.base import Facet
from groundspeed.service.wire import v1
from groundspeed.workers import control, facets, loaded, system
from groundspeed.workers.stack import Stack


def test_docstring_examples_hold() -> None:
    assert doctest.testmod(nvml_facets).failed == 0


def read(tmp_path: Path, environ: dict[str, str] | None = None) -> dict[str, Facet]:
    return {facet.name: facet for facet in system.facets(environ or {}, tmp_path)}


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_governor_numa_and_network_are_read_from_the_kernel(tmp_path: Path) -> None:
    put(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    put(tmp_path, "sys/devices/system/node/node0/cpulist", "0-3")
    put(tmp_path, "sys/devices/system/node/node1/cpulist", "4-7")
    put(tmp_path, "sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002")
    put(tmp_path, "sys/class/infiniband/mlx5_0/board_id", "MT_0000000838")
    put(tmp_path, "sys/module/mlx5_core/version", "23.10-2.1.3")
    found = read(tmp_path)
    values = {name: found[name].value for name in ("governor", "numa_nodes", "nic", "ofed")}
    assert values == {
        "governor": "performance",
        "numa_nodes": "2",
        "nic": "mlx5_0 MT_0000000838 firmware 28.39.1002",
        "ofed": "23.10-2.1.3",
    }
    assert all(found[name].tracked for name in values)


def test_what_is_not_there_is_unknown_with_the_reason_and_does_not_count(tmp_path: Path) -> None:
    governor = read(tmp_path)["governor"]
    assert (governor.value, governor.tracked) == (None, False)
    assert "no frequency scaling" in governor.reason


def test_variables_that_steer_libraries_count_and_secrets_are_never_told(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        {"NCCL_ALGO": "Ring", "CUDA_VISIBLE_DEVICES": "0", "NCCL_SECRET_KEY": "x", "HOME": "/root",
         "NVIDIA_TF32_OVERRIDE": "0", "NVIDIA_VISIBLE_DEVICES": "all",
         "GROUNDSPEED_WORKER_IMAGE": "sha256:1"},
    )  # fmt: skip
    names = {name for name in found if name.startswith("env.")}
    assert names == {"env.NCCL_ALGO", "env.CUDA_VISIBLE_DEVICES", "env.NVIDIA_TF32_OVERRIDE"}
    assert found["env.NCCL_ALGO"].tracked
    assert not found["env.CUDA_VISIBLE_DEVICES"].tracked
    assert (found["image"].layer, found["image"].value) == ("stack", "sha256:1")


def test_operators_and_projects_move_facets_between_what_counts_and_what_is_told() -> None:
    found = [
        v1.Facet(layer="node", name="gpu0.vbios", value="1"),
        v1.Facet(layer="node", name="os", value="x", tracked=False),
    ]
    assert facets.choose(found, (), ()) == tuple(found)
    chosen = facets.choose(found, ["os"], ["gpu*.vbios"])
    assert {facet.name: facet.tracked for facet in chosen} == {"gpu0.vbios": False, "os": True}


class Libraries:
    """What ctypes would open, by path; a number is a status that a call failed with."""

    def __init__(self, version: int, status: int = 0) -> None:
        self.version, self.status = version, status
        self.ncclGetVersion = self.cudaRuntimeGetVersion = self._into
        self.cudnnGetVersion = Dated(version)

    def _into(self, place: Any) -> int:
        place._obj.value = self.version
        return self.status


class Dated:
    restype: Any = None

    def __init__(self, version: int) -> None:
        self.version = version

    def __call__(self) -> int:
        return self.version


def test_the_versions_that_a_process_has_really_loaded_are_read_from_the_libraries(tmp_path: Path) -> None:
    there = {
        "/opt/nccl/lib/libnccl.so.2.27.7": Libraries(22707),
        "/site/nvidia/cudnn/lib/libcudnn.so.9": Libraries(91002),
        "/usr/lib/libcudart.so.13": Libraries(13000, status=35),
    }
    lines = [f"7f{i:010x}-7f{i + 1:010x} r-xp 00000000 08:01 {i} {path}" for i, path in enumerate(there)]
    put(tmp_path, "maps", "\n".join([*lines, "7ffd00000000-7ffd00001000 rw-p 00000000 00:00 0 [stack]"]))
    found = libraries.loaded(tmp_path / "maps", there.__getitem__)
    assert found["nccl"] == ("2.27.7", "")
    assert found["cudnn"] == ("9.10.2", "")
    assert found["cuda_runtime"] == (None, "libcudart.so.13 was loaded and does not say its version: status 35")
    assert "cublas" not in found
    conditions = {"libraries": libraries.as_conditions(found)}
    assert conditions["libraries"]["nccl"] == "2.27.7"
    known = [Facet("stack", "loaded.nccl", "2.26.2"), Facet("stack", "loaded.cudnn", "9.10.2")]
    assert loaded.otherwise(conditions, known) == (Facet("build", "loaded.nccl", "2.27.7"),)
    assert loaded.otherwise({}, known) == ()


def test_a_stack_is_asked_what_it_loads_and_a_failure_is_an_answer() -> None:
    stack = Stack(Path(sys.executable), Path(), "3", "cpython", "linux", {}, Path(), "x")
    assert loaded.facets(stack) == ()  # no torch
    (found,) = loaded._ask("/nonexistent/python", ())
    assert (found.name, found.value, found.tracked) == ("loaded.nccl", None, False)
    assert "could not be asked" in found.reason


def test_the_control_workload_times_its_pieces_and_its_failure_is_an_answer() -> None:
    found = control.measure(Path(sys.executable), "none")
    assert found["version"] == control.VERSION
    assert found["cpu_s"] > 0
    assert "could not be run" in control.measure(Path("/nonexistent/python"), "none")["unavailable"]
    assert "failed" in control.measure(Path(sys.executable), "no-such-device", size=8)["unavailable"]


def test_the_control_workload_on_a_device_times_product_and_copy() -> None:
    pytest.importorskip("torch")
    found = control.measure(Path(sys.executable), "cpu", size=64)
    assert found["device_s"] > 0
    assert found["memory_s"] > 0


def test_a_worker_that_has_some_of_the_devices_uses_those() -> None:
    from groundspeed.workers.node import own
    from groundspeed.workers.slots import divide

    found = tuple(v1.DeviceSpec(index=i, uuid=f"GPU-{i}", model="H200") for i in range(4))
    assert own(found, ()) == found
    assert [device.uuid for device in own(found, ("1", "GPU-3"))] == ["GPU-1", "GPU-3"]
    assert divide(1, (), ("GPU-1",))[0].devices == ()
    assert divide(1, (), ("GPU-1",), restricted=True)[0].devices == ("GPU-1",)
