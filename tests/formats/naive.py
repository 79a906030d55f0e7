"""Counts of results by other, simpler ways than the parsers': text searches and plain walks over JSON."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def text_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")


def numbers(value: Any) -> int:
    """How many finite numbers stand anywhere in a JSON value."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int | float):
        return int(math.isfinite(value))
    if isinstance(value, dict):
        return sum(map(numbers, value.values()))
    return sum(map(numbers, value)) if isinstance(value, list) else 0


def occurrences(pattern: str) -> Callable[[str], int]:
    return lambda text: len(re.findall(pattern, text, re.MULTILINE))


def asv(text: str) -> int:
    """Numbers in the first place of every entry (version 2), or under "result" or alone (version 1)."""
    doc = json.loads(text)
    if "result_columns" in doc:
        return sum(numbers(row[0]) for row in doc["results"].values())
    return sum(numbers(v["result"]) if isinstance(v, dict) else numbers(v) for v in doc["results"].values())


def asv_failures(text: str) -> int:
    """Benchmarks without a single number."""
    doc = json.loads(text)
    first = [row[0] if isinstance(row, list) else row for row in doc["results"].values()]
    return sum(numbers(v["result"] if isinstance(v, dict) else v) == 0 for v in first)


GBENCH_META = "family_index|per_family_instance_index|repetitions|repetition_index|threads|iterations|cpu_coefficient|real_coefficient"


def google_benchmark(text: str) -> int:
    """Lines with a number after "benchmarks": less those of bookkeeping, less the derived aggregates' times."""
    body = text.partition('"benchmarks"')[2]
    lines = re.findall(r'^\s*"([^"]+)": (-?[\d.]+(?:e[-+]?\d+)?),?\s*$', body, re.MULTILINE | re.IGNORECASE)
    total = sum(not re.fullmatch(GBENCH_META, key) for key, _ in lines)
    return total - len(re.findall(r'"rms": ', body))


def nvbench(text: str) -> int:
    wanted = ("/time/gpu/mean", "/time/cpu/mean", "bw/item_rate", "bytes_per_second", "bw/global/utilization")
    return sum(len(re.findall(re.escape(tag) + '"', text)) for tag in wanted)


def pyperf(text: str) -> int:
    return sum(numbers(run.get("values", [])) for b in json.loads(text)["benchmarks"] for run in b["runs"])


def hyperfine(text: str) -> int:
    """Every run's time, and user and system time of each command."""
    doc = json.loads(text)
    return sum(len(r["times"]) for r in doc["results"]) + text.count('"user"') + text.count('"system"')


def go(text: str) -> int:
    """Half of what follows the number of iterations: values and units take turns."""
    return sum((len(line.split()) - 2) // 2 for line in text.splitlines() if re.match(r"Benchmark\S*\s+\d", line))


def nccl(text: str) -> int:
    """Three values for each side of a row of the table that has numbers, and one average a table."""
    rows = [line.split() for line in text.splitlines() if re.match(r"\s+\d+\s+\d+\s+\w+ ", line)]
    return 6 * len(rows) + len(re.findall(r"Avg bus bandwidth", text))


def csv_cells(columns: list[str], comment: bool = False) -> Callable[[str], int]:
    def count(text: str) -> int:
        rows = csv.DictReader(io.StringIO(text.lstrip("#")))
        kept = [r for r in rows if not (comment and next(iter(r.values())).startswith("#"))]
        return sum(bool(r[c]) for r in kept for c in columns)

    return count


def mlperf(text: str) -> int:
    """One time to train, the throughputs, and the last accuracy."""
    last = 1 if '"eval_accuracy"' in text else 0
    return text.count('"run_stop"') + len(re.findall(r'"throughput":', text)) + last


def llm(text: str) -> int:
    """Numbers under keys that end like latencies or throughputs, the duration and the completed requests."""
    keys = r'"(?:(?:mean|median|p\d+)_\w+_ms|\w*throughput|max_output_tokens_per_s|duration|completed)": -?\d'
    return len(re.findall(keys, text)) + len(re.findall(r'"request_goodput": \d', text))


def superbench(text: str) -> int:
    docs = (
        json.loads(text) if text.lstrip().startswith("[") else [json.loads(x) for x in text.splitlines() if x.strip()]
    )
    return sum(numbers({k: v for k, v in d.items() if k not in {"node", "index"}}) for d in docs)


def hud(text: str) -> int:
    return sum(len(json.loads(m)) for m in re.findall(r'"benchmark_values": (\[[^\]]*\])', text))


def matrix(text: str) -> int:
    """nvbandwidth: numbers with two decimals in rows, and the sums."""
    rows = [line for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\.\d\d", line)]
    return sum(len(re.findall(r"\d+\.\d\d", row)) for row in rows) + len(re.findall(r"^SUM ", text, re.MULTILINE))


def go_series(text: str) -> int:
    return len(re.findall(r'"present": true', text))
