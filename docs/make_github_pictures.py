"""Draws docs/screenshots/github-*.png: comment and check as the product writes them, rendered the way GitHub does.

python docs/make_github_pictures.py     (needs the test part, and a Chromium: GROUNDSPEED_CHROMIUM or on the PATH)
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

from groundspeed.service.domain.kernels.difference import Kernel, Table, difference
from groundspeed.service.domain.kernels.told import Told, tell
from groundspeed.service.domain.pulls.forge import ACCEPT, RERUN
from groundspeed.service.domain.pulls.report import Report, Row
from groundspeed.service.forge import render

HERE = Path(__file__).resolve().parent / "screenshots"
URL = "https://speed.example/projects/tinygpt/pulls/481"
SERIES = "https://speed.example/projects/tinygpt/series"
STYLE = """
body { font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; color: #1f2328;
  background: #fff; margin: 16px; width: 920px }
.box { border: 1px solid #d1d9e0; border-radius: 6px; overflow: hidden }
.bar { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; padding: 8px 16px; color: #59636e }
.bar b { color: #1f2328 } .in { padding: 16px }
h1, h2, h3 { font-size: 1.25em; font-weight: 600; margin: 0 0 16px; line-height: 1.25 } p { margin: 0 0 16px }
table { border-collapse: collapse; margin-bottom: 16px; display: block }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px }
tr:nth-child(2n) { background: #f6f8fa } th { font-weight: 600 } a { color: #0969da; text-decoration: none }
code { font: 85% ui-monospace, "SFMono-Regular", Menlo, "DejaVu Sans Mono", monospace; background: #818b981f;
  border-radius: 6px; padding: .2em .4em }
.tag { border: 1px solid #d1d9e0; border-radius: 2em; padding: 0 7px; font-size: 12px; font-weight: 500 }
.button { border: 1px solid #d1d9e0; border-radius: 6px; background: #f6f8fa; padding: 3px 12px; margin-left: 8px;
  float: right; color: #25292e; font-weight: 500; font-size: 12px; line-height: 20px }
.no { color: #d1242f; font-weight: 700; margin-right: 8px } .mark { border-left: 3px solid #9a6700; padding: 8px 16px;
  margin: 8px 16px 16px; background: #fff8c5 } .faint { color: #59636e; font-size: 12px }
"""


def kernels() -> Told:
    """Of processes of a base and a head whose norm is no longer fused."""

    def side(number: int, norm: tuple[float, float]) -> list[Table]:
        found = {"layer_norm_kernel": norm, "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT": (96, 88.0)}
        return [
            Table({name: Kernel(n, n * us * 1e-6 * (1 + 0.001 * (i + number))) for name, (n, us) in found.items()})
            for i in range(5)
        ]

    compared = difference(side(0, (48, 24.0)), side(1, (48, 36.5)), 0.062)
    assert compared is not None
    return tell(compared)


def report() -> Report:
    """A made-up verdict that has every kind of row."""
    run = "/groundspeed run {}".format
    rows = (
        Row("regressed", "train[batch_size=32]", "step_time", 0.062, 0.057, 0.068, 0.008, url=f"{SERIES}/12",
            repeat=run("train"), suite="train", kernels=kernels()),
        Row("regressed", "train[batch_size=8]", "step_time", 0.041, 0.033, 0.049, 0.011, url=f"{SERIES}/11",
            repeat=run("train"), suite="train"),
        Row("failing", "generate[length=4096]", "", reason="the processes of the head ended as oom", suite="generate",
            repeat=run("generate")),
        Row("improved", "infer[batch_size=1]", "latency_p50", -0.118, -0.125, -0.111, 0.009, url=f"{SERIES}/20",
            repeat=run("infer"), suite="infer"),
        Row("new", "attention[heads=64]", "time", reason="new: the base has no such benchmark", repeat=run("attention"),
            suite="attention"),
        *(Row("unchanged", f"gemm[n={n}]", "time", 0.001, -0.003, 0.004, 0.006, suite="gemm") for n in range(23)),
        *(Row("inconclusive", f"io[n={n}]", "rate", 0.01, -0.06, 0.08, 0.07, suite="io") for n in range(2)),
    )  # fmt: skip
    base, head = "4f1c09d27be3a60d5a1b", "b8e2d7715c60aa94f3ce"
    where = "1 × NVIDIA H200, EPYC 9654, torch 2.11"
    return Report("done", base.ljust(40, "0"), head.ljust(40, "0"), URL, rows, where=where, lines=(("train", 14),))


def pages(found: Report) -> dict[str, str]:
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    comment = markdown.render(render.comment(found))
    check = markdown.render(render.body(found))
    buttons = "".join(f"<span class=button>{one.label}</span>" for one in (ACCEPT, RERUN))
    marks = "".join(
        f"<div class=mark><b>{one['title']}</b><br>{one['message']}<br><span class=faint>{one['path']}, line "
        f"{one['start_line']}</span></div>"
        for one in render.marks(found)[:2]
    )
    return {
        "github-comment": f"<div class=box><div class=bar><b>groundspeed</b> <span class=tag>bot</span> commented</div>"
        f"<div class=in>{comment}</div></div>",
        "github-check": f"<div class=box><div class=bar>{buttons}<span class=no>✕</span><b>Groundspeed</b> / "
        f"{render.headline(found)}</div><div class=in>{check}</div>{marks}</div>",
    }


def main() -> None:
    with sync_playwright() as tool:
        found = os.environ.get("GROUNDSPEED_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        browser = tool.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 960, "height": 200})
        for name, body in pages(report()).items():
            page.set_content(f"<!doctype html><meta charset=utf-8><style>{STYLE}</style>{body}")
            page.screenshot(path=str(HERE / f"{name}.png"), full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
