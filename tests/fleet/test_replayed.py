"""What was measured in two environments of one machine, asked again by a campaign: the setting is judged by it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.bench.gpu import replayed, two_environments

LEVELS = {"gemm-tf32": 4.0e14, "gemm-bf16": 7.0e14, "memory": 4.2e12}


def recorded(folder: Path, rounds: int) -> Path:
    """As ``compare`` leaves it: TF32 is 80 % slower with the variable, the rest as it was."""
    drawn = random.Random(1)
    folder.mkdir()
    driver = {"layer": "node", "name": "gpu.driver", "value": "580.95.05", "reason": "", "tracked": True}
    unread = {"layer": "node", "name": "gpu0.clocks_policy", "value": None, "reason": "Not Supported", "tracked": True}
    changed = {"layer": "stack", "name": "env.NVIDIA_TF32_OVERRIDE", "value": "0", "reason": "", "tracked": True}
    about = {
        "variable": "NVIDIA_TF32_OVERRIDE=0", "before": [driver, unread], "after": [driver, unread, changed],
        "hardware": {"gpu_model": "NVIDIA H200", "gpu_count": 1, "cpu_model": "EPYC", "cpu_count": 16},
        "devices": [{"index": 0, "uuid": "GPU-1", "model": "NVIDIA H200", "memory_bytes": 2**37, "facts": {}}],
    }  # fmt: skip
    (folder / "environments.json").write_text(json.dumps(about))
    with (folder / "samples.jsonl").open("w") as file:
        for number in range(rounds):
            for one in two_environments.round_of(number):
                plugin, params = two_environments.SUITES[one["suite"]]
                slower = 0.2 if (one["suite"], one["side"]) == ("gemm-tf32", "after") else 1.0
                value = LEVELS[one["suite"]] * slower * drawn.gauss(1.0, 0.001)
                name = "bandwidth" if one["suite"] == "memory" else "flops_sustained"
                metric = {
                    "metric": name, "unit": "B/s" if one["suite"] == "memory" else "FLOP/s", "direction": 1,
                    "kind": "rate", "gate": True, "clock": "wall", "params": {}, "values": [value], "states": [],
                }  # fmt: skip
                report = {
                    "outcome": "ok", "plugin_version": "1", "metrics": [metric], "evidence": {}, "conditions": {},
                    "facts": {}, "phases_s": {}, "wall_s": 5.0, "request": {"plugin": plugin, "params": params},
                }  # fmt: skip
                file.write(json.dumps({**one, "round": number, **report}) + "\n")
    return folder


def test_the_setting_is_found_bad_for_what_it_slows_and_harmless_for_the_rest(tmp_path: Path) -> None:
    results = recorded(tmp_path / "results", 8)
    replayed.replay(results, tmp_path / "docs")
    shown = json.loads((tmp_path / "docs" / "report.json").read_text())
    assert (shown["state"], shown["phase"], shown["answer"]) == ("aborted", "canary", "no-go")
    answers = {metric["metric"].partition(":")[0]: metric["answer"] for metric in shown["metrics"]}
    assert answers == {"gemm-tf32": "no-go", "gemm-bf16": "go", "memory": "go"}
    (slowed,) = [metric for metric in shown["metrics"] if metric["answer"] == "no-go"]
    assert slowed["worsening"] == pytest.approx(4.0, abs=0.05)
    assert slowed["nodes"] == 3
    page = (tmp_path / "docs" / "README.md").read_text()
    assert "stack env.NVIDIA_TF32_OVERRIDE: 0 (was not there)" in page
    assert "parts of one machine" in page
    assert "*unknown:* Not Supported" in page


def test_too_little_for_a_verdict_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="5 whole rounds, and 6 are needed"):
        replayed.load(recorded(tmp_path / "results", 5))
