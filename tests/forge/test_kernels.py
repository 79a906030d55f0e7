"""A pull request is told which kernel made it slower: in its check, its comment, on its page, and wherever else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from forge.office import Office, kernel_table
from groundspeed.plugins.timing.kernels import KernelTable
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from web_server import app, serve

ATEN = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, "
    "at::native::GeluType)::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul> >(int)"
)
HOSTILE = "`|](http://evil) @everyone <script>alert(1)</script>\x1b[31m\u202e\n# boo\x00" + "x" * 500
BASE = {"gemm": (24, 120.0), ATEN: (24, 20.0), "layer_norm_fused": (24, 30.0)}


def slower(side: int, pair: int) -> KernelTable:
    """The head's activation takes 26 µs instead of 20, and its norm is a stranger's, launched twice as often."""
    own = {ATEN: (24, 26.0), "layer_norm_fused": (0, 0.0), HOSTILE: (48, 22.0)} if side else {}
    return kernel_table(pair * 2 + side, **{**BASE, **own})


def test_a_slower_head_is_told_with_the_kernels_that_did_it(desk: Office, tmp_path: Path) -> None:
    pull = desk.open(1)
    check = desk.answer(pull, head=1.04, kernels=slower)
    assert check["conclusion"] == "failure"
    (comment,) = desk.verdicts(pull)
    for text in (comment, check["output"]["summary"]):
        assert "**Which kernel**" in text
        assert "batch&#95;size=8&#93;: Kernels of a step take 4.08 → 4.56 ms (+11" in text
        assert "`vectorized_elementwise_kernel<GeluCUDAKernelImpl>` | slower per launch" in text
        assert re.search(r"x+ `` \| new: 48 launches a step", text)
        assert "@everyone" not in re.sub("`` .*? ``", "", text)
        assert not re.search("[\x1b\x00\u202e]", text)
    row = desk.rows(t.Verdict)[0]
    assert row.detail["kernels"]["state"] == "told"
    assert len(str(row.detail)) < 6000, "names of any length are kept short"
    with serve(app(Database(desk.db.url), tmp_path / "pages")) as url, httpx.Client(base_url=url, timeout=60) as http:
        looked_at_everywhere(http, pull.head_sha, desk.git.git("rev-parse", "main"))


def looked_at_everywhere(http: httpx.Client, head: str, base: str) -> None:
    """Pages and API say the same of the pull request, its commit, the comparison and the point of a series."""
    model: dict[str, Any] = http.get("/api/v1/projects/toy/pulls/1").json()["kernels"][0]
    assert (model["benchmark"], model["state"]) == ("train[batch_size=8]", "told")
    assert [row["kind"] for row in model["rows"]] == ["appeared", "vanished", "slower"]
    assert model["rows"][2]["share"] == pytest.approx(0.3, abs=0.1)
    addresses = {
        "/projects/toy/pulls/1": lambda found: found["kernels"],
        f"/projects/toy/commits/{head}": lambda found: found["kernels"],
        f"/projects/toy/compare?base={base}&head={head}": lambda found: found["kernels"],
    }
    for address, of in addresses.items():
        (found,) = of(http.get(f"/api/v1{address}").json())
        assert [row["name"] for row in found["rows"]] == [row["name"] for row in model["rows"]]
        page = http.get(address).text
        assert "vectorized_elementwise_kernel&lt;GeluCUDAKernelImpl&gt;" in page
        assert "<script>alert" not in page
    (explained,) = http.get(f"/api/v1/projects/toy/explain?series=train/time&commit={head[:12]}").json()["kernels"]
    assert explained["summary"] == model["summary"]


def test_why_there_is_no_table_is_one_line_and_a_cpu_has_nothing_to_say(desk: Office) -> None:
    on_cpu = desk.answer(desk.open(1), head=1.2, conditions={"device_trace": {"unavailable": "the CPU has none"}})
    assert "kernel" not in on_cpu["output"]["summary"]
    off = {"device_trace": {"unavailable": "profiling is <off>"}}
    on_gpu = desk.answer(desk.open(2), head=1.2, conditions=off, device_uuid="GPU-1")
    assert "Which kernel did it is not known&#58; neither side has a kernel table" in on_gpu["output"]["summary"]
    assert "profiling is &#60;off&#62;" in on_gpu["output"]["summary"]


def test_a_head_that_is_as_fast_is_told_nothing_of_kernels(desk: Office) -> None:
    check = desk.answer(desk.open(1), kernels=slower)
    assert check["conclusion"] == "success"
    assert "kernel" not in check["output"]["summary"].lower()
