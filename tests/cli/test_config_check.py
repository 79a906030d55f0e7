"""What a suite may say: ``config check`` names every mistake on a line of its own, ``plugins NAME`` tells what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from groundspeed.cli import main
from groundspeed.service.errors import ConfigError, NotFound

TEXT = """[project]
name = "mine"

[[suite]]
name = "first"
plugin = "{plugin}"
target = "benchmarks.first:make"
params = {{ {param} = [1, 2] }}

[[suite]]
name = "second"
plugin = "{second}"
target = "benchmarks.first:make"
"""


def written(folder: Path, plugin: str = "training", param: str = "batch_size", second: str = "inference") -> Path:
    file = folder / "groundspeed.toml"
    file.write_text(TEXT.format(plugin=plugin, param=param, second=second), encoding="utf-8")
    return file


def test_each_mistake_has_a_line_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, param="batch", second="inferense")
    with pytest.raises(typer.Exit) as end:
        main.config_check(file)
    assert end.value.exit_code == 2
    lines = capsys.readouterr().err.splitlines()
    assert (
        f"{file}:8:1: Suite 'first': plugin 'training' has no parameter 'batch'. Did you mean 'batch_size'?" in lines[0]
    )
    assert f"{file}:12:1: there is no plugin 'inferense'. Did you mean 'inference'?" in lines[1]
    assert "2 mistakes" in lines[2]


def test_a_single_mistake_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no plugin 'inferense'"):
        main.config_check(written(tmp_path, second="inferense"))


def test_a_plugin_of_ones_own_is_no_mistake_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main.config_check(written(tmp_path, plugin="acme-thing", param="anything"))
    told = capsys.readouterr()
    assert "is good: 2 suites" in told.out
    assert "'acme-thing' is neither built in nor installed here" in told.err


def test_a_plugin_is_told_with_its_parameters_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    main.plugins("inference")
    told = capsys.readouterr().out
    assert "passed to the factory when it takes batch_size" in told
    assert "latency_p50" in told
    with pytest.raises(NotFound, match="'infernce'") as refused:
        main.plugins("infernce")
    assert "Did you mean 'inference'" in refused.value.advice
