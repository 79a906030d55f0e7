"""Which kernels make a difference, what cannot be told, and names that can be read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundspeed.service.domain.kernels.difference import Difference, Kernel, Table, difference
from groundspeed.service.domain.kernels.names import LONGEST, short, short_names
from groundspeed.service.domain.kernels.told import Told, tell

Kernels = Mapping[str, tuple[float, float]]
BASE: Kernels = {"gemm": (24, 120.0), "norm": (24, 30.0), "gelu": (24, 20.0), "adam": (1, 800.0), "softmax": (12, 15.0)}
MULTIPLY = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::"
    "binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, at::native::BinaryFunctor<float, float>)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
)
rng = np.random.default_rng(7)


def tables(processes: int, kernels: Kernels | None = None, spread: float = 0.002) -> list[Table]:
    """``kernels``: launches a step and microseconds of each; processes differ, and kernels within them."""
    out = []
    for _ in range(processes):
        whole = rng.normal(1, spread)
        rows = (kernels or BASE).items()
        out.append(Table({n: Kernel(k, k * us * 1e-6 * whole * rng.normal(1, spread)) for n, (k, us) in rows}))
    return out


def compare(head: Kernels, processes: int = 4, effect: float = 0.03, spread: float = 0.002) -> Told:
    found = difference(tables(processes, spread=spread), tables(processes, head, spread), effect)
    assert isinstance(found, Difference)
    return tell(found)


def without(*names: str) -> Kernels:
    return {name: kernel for name, kernel in BASE.items() if name not in names}


@pytest.mark.parametrize(
    ("head", "kind", "says"),
    [
        ({**BASE, "norm": (24, 36.0)}, "slower", "slower per launch: 30"),
        ({**BASE, "norm": (48, 30.0)}, "more-launches", "more launches: 24 → 48 launches a step"),
        ({**BASE, "copy": (24, 5.0)}, "appeared", "new: 24 launches a step, 5.0"),
        ({**without("norm"), "norm_unfused": (24, 36.0)}, "replaced", "24 launches a step, 30"),
    ],
)
def test_the_kernel_that_did_it_comes_first_with_what_became_of_it(head: Kernels, kind: str, says: str) -> None:
    told = compare(head)
    first = told.rows[0]
    assert (told.state, first.kind) == ("told", kind)
    assert first.what.startswith(says[:12])
    assert first.share == pytest.approx(1.0, abs=0.25)
    assert told.culprit == first.name


def test_a_kernel_that_is_gone_makes_a_step_faster() -> None:
    told = compare(without("norm"), effect=-0.14)
    assert [row.kind for row in told.rows] == ["vanished"]
    assert told.rows[0].what.startswith("gone: was 24 launches a step")


def test_of_many_replacements_the_likeliest_are_pairs() -> None:
    """As many launches each, so that only the names say which took whose place."""
    base: Kernels = {"gemm_tile_64x64_a": (24, 50.0), "fmha_forward_v2": (24, 40.0), "other": (3, 9.0)}
    head: Kernels = {"fmha_forward_v3": (24, 60.0), "gemm_tile_64x128_a": (24, 52.0), "other": (3, 9.0)}
    found = difference(tables(3, base), tables(3, head), 0.2)
    assert found is not None
    assert [(row.kind, row.before, row.name) for row in found.rows] == [
        ("replaced", "fmha_forward_v2", "fmha_forward_v3"),
        ("replaced", "gemm_tile_64x64_a", "gemm_tile_64x128_a"),
    ]


def test_what_cannot_be_told_is_said() -> None:
    noisy = compare({**BASE, "norm": (24, 31.0)}, spread=0.06)
    assert noisy.state == "unsure"
    assert "cannot be told" in noisy.summary
    assert noisy.culprit == ""
    same = compare(BASE)
    assert same.state == "same"
    assert "as long as before" in same.summary
    assert same.rows == ()
    against = compare({**BASE, "norm": (24, 20.0)}, effect=0.05)
    assert against.state == "against"
    assert against.culprit == ""
    alike = compare({name: (k, us * 1.03) for name, (k, us) in BASE.items()})
    assert alike.state == "even"
    assert alike.culprit == ""
    assert difference(tables(2), []) is None


def test_of_one_process_a_side_only_launches_are_believed() -> None:
    slower = compare({**BASE, "norm": (24, 36.0)}, processes=1)
    assert (slower.state, slower.rows) == ("single", ())
    copied = compare({**BASE, "copy": (24, 5.0)}, processes=1)
    assert [row.name for row in copied.rows] == ["copy"]
    assert "only what is launched can be compared" in copied.summary


def test_processes_of_the_same_code_are_seldom_told_apart() -> None:
    """Spreads of two processes are often tiny by chance: those of all kernels together keep them in check."""
    told = [compare(BASE, processes=2, effect=0.01, spread=0.004) for _ in range(200)]
    assert sum(bool(one.rows) for one in told) <= 10


def test_a_kernel_that_was_cut_off_the_table_is_not_new() -> None:
    cut = [Table({"gemm": Kernel(24, 3e-3), "norm": Kernel(24, 1e-4)}, rest_s=1e-4)] * 2
    found = difference(cut, [Table({"gemm": Kernel(24, 3e-3), "tiny": Kernel(24, 9e-5)}, rest_s=1e-4)] * 2, 0.01)
    assert found is not None
    assert all(row.name != "tiny" for row in found.rows)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (MULTIPLY, "vectorized_elementwise_kernel<MulFunctor>"),
        (GELU, "vectorized_elementwise_kernel<GeluCUDAKernelImpl>"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, 8, false>(float*, int)", "softmax_warp_forward"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
         "vectorized_elementwise_kernel<FillFunctor>"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
         "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        ("triton_poi_fused_add_gelu_0", "triton_poi_fused_add_gelu_0"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
    ],
)  # fmt: skip
def test_names_are_short_and_say_what_it_is(name: str, expected: str) -> None:
    assert short(name) == expected


def test_a_long_name_keeps_its_end_by_which_variants_differ() -> None:
    stem = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel"
    names = short_names([f"{stem}_a", f"{stem}_b", f"{stem[:70]}x{stem[71:]}_a"])
    assert len(set(names.values())) == 3
    assert names[f"{stem}_a"].endswith("_a")


@settings(deadline=None)
@given(st.lists(st.text(max_size=200) | st.text("_ZNILE09<>():, ab", max_size=400), max_size=6))
def test_any_name_becomes_short_and_stays_apart(names: list[str]) -> None:
    found = short_names(names)
    assert len(set(found.values())) == len(set(names))
    assert all(len(one) <= 2 * LONGEST for one in found.values())
    assert all(len(short(name)) <= LONGEST for name in names)
