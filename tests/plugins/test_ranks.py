"""Ranks that die, stop, hang or compute something wrong: the result names the rank and keeps what was measured."""

from __future__ import annotations

import pytest

from groundspeed.plugins.distributed.ranks import RankFailed, Ranks
from groundspeed.plugins.spi import Context, TimedOut, WrongResult

pytest.importorskip("torch")
ENTRY = "groundspeed.plugins.distributed.sweep:entry"


def sweep(tmp_path, fault, rank, silence_s=60.0):
    """(bytes of the points that rank 0 measured, what was raised)."""
    payload = {"collective": "all_reduce", "dtype": "float32", "min_bytes": 1024, "max_bytes": 4096, "factor": 2,
               "launch": "eager", "samples": 5, "seconds_per_size": 0.0,
               "fault": {"kind": fault, "rank": rank, "bytes": 4096}}  # fmt: skip
    context = Context("cpu", {}, None, tmp_path, lambda _: None)
    points, raised = [], None
    with Ranks(context, ENTRY, 2, payload, silence_s) as ranks:
        try:
            for number, event in ranks.run():
                if number == 0 and event["event"] == "point":
                    points.append(event["bytes"])
        except (RankFailed, TimedOut, WrongResult) as error:
            raised = error
    return points, raised


def test_a_rank_that_hangs_is_named_by_its_stack_and_the_curve_so_far_is_kept(tmp_path):
    points, raised = sweep(tmp_path, "hang", 1, silence_s=15.0)
    assert isinstance(raised, TimedOut)
    assert points == [1024, 2048]
    assert raised.evidence["rank"] == 1
    assert "rank 1 of 2 holds up the others, last at 'all_reduce of 4096 bytes'" in str(raised)
    stacks = {one["rank"]: one["stderr_tail"] for one in raised.evidence["ranks"]}
    assert all(one["collectives"].keys() & {"last", "unavailable"} for one in raised.evidence["ranks"])
    assert "_plant" in stacks[1]
    assert "all_reduce" in stacks[0]


def test_a_rank_that_is_killed_is_named_and_not_the_one_that_complains(tmp_path):
    points, raised = sweep(tmp_path, "SIGKILL", 1)
    assert isinstance(raised, RankFailed)
    assert points == [1024, 2048]
    assert raised.evidence["rank"] == 1
    assert "rank 1 of 2 was killed by SIGKILL" in str(raised)


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("SIGSTOP", TimedOut, "rank 1 of 2 is stopped"),
        ("SIGSEGV", RankFailed, "rank 1 of 2 was killed by SIGSEGV"),
        ("wrong", WrongResult, "rank 1: planted wrong value at 4096 bytes"),
    ],
)
def test_other_ends(tmp_path, fault, kind, words):
    points, raised = sweep(tmp_path, fault, 1, silence_s=15.0)
    assert isinstance(raised, kind)
    assert points == [1024, 2048]
    assert words in str(raised)
