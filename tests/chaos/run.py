"""Chaos: jobs in flight while everything is killed at random; afterwards nothing is lost and nothing doubled.

    python tests/chaos/run.py --seed 1 --jobs 2000

The list of what must be there is made from the commits that were asked for; the service's own tables are only the
other side of the comparison.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

if __package__ in {None, ""}:  # run as a script
    sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from sqlalchemy import select

from chaos.world import EXPECTED, PER_COMMIT_JOBS, World, history, said
from groundspeed.service.db import tables as t

Key = tuple[str, str, str, int]
"""Commit, suite, benchmark, replicate."""


@dataclass
class Outcome:
    """What came of a chaos run; ``problems`` empty: every job is accounted for."""

    jobs: int = 0
    accepted: int = 0
    failures_explained: int = 0
    harms: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    longest_outage_s: float = 0.0
    """How long the API was unreachable at a stretch."""
    problems: list[str] = field(default_factory=list)
    logs: str = ""


def chaos(
    folder: Path,
    seed: int,
    jobs: int,
    fire_s: float,
    settle_s: float = 150.0,
    *,
    outage_s: float = 0.0,
    say: bool = False,
    pace: float = 1.0,
) -> Outcome:
    """Ask for ``jobs`` jobs in portions over ``fire_s`` seconds of random harm, then wait for peace and compare."""
    commits = history(folder / "repo", max(2, jobs // PER_COMMIT_JOBS) + 1)
    world = World(folder, seed, pace=pace, outage_s=outage_s)
    outcome = Outcome()
    try:
        asked = _fire(world, commits, fire_s, outcome, say=say)
        outcome.longest_outage_s = world.longest_outage_s
        _settle(world, len(asked) * PER_COMMIT_JOBS, settle_s, outcome)
        _compare(world, asked, outcome)
        outcome.seconds = time.monotonic() - world.begin
        if outcome.problems:
            outcome.logs = said(world)
    finally:
        world.end()
    return outcome


def _fire(world: World, commits: list[str], fire_s: float, outcome: Outcome, *, say: bool) -> list[str]:
    """Commits are asked for in portions while one harm follows the other; every kind comes once before any repeats."""
    world.ask("/projects", {"repo_url": str(world.folder / "repo"), "watch": False})
    bounds = [round(i * (len(commits) - 1) / 8) for i in range(9)]
    portions = [(a, b) for a, b in itertools.pairwise(bounds) if b > a]
    harms = world.harms()
    order: list[str] = []
    end = time.monotonic() + fire_s
    asked: list[str] = []
    while portions or time.monotonic() < end or order:
        if portions and (fire_s - (end - time.monotonic())) / fire_s >= len(asked) / len(commits):
            a, b = portions.pop(0)
            world.ask("/projects/chaos/requests", {"range": f"{commits[a]}..{commits[b]}"})
            asked += commits[a + 1 : b + 1]
        if not order and time.monotonic() < end:
            order = list(harms)
            world.random.shuffle(order)
        if order:
            name = order.pop()
            world.say(name)
            if say:
                sys.stdout.write(f"{world.log[-1]}\n")
                sys.stdout.flush()
            harms[name]()
            outcome.harms[name] += 1
        world.supervise()
        time.sleep(_pause(world, fire_s))
    return asked


def _pause(world: World, fire_s: float) -> float:
    """Seconds between two harms."""
    return world.pace * world.random.uniform(0.3, max(1.5, fire_s / 60))


def _settle(world: World, jobs: int, limit_s: float, outcome: Outcome) -> None:
    """Wait until every job has ended; what has not by then is a problem."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        world.supervise()
        with world.database.read() as session:
            states = Counter(session.scalars(select(t.Job.state)))
            waiting = session.execute(select(t.Request.id).where(t.Request.finished_at.is_(None))).first()  # type: ignore[union-attr]
        if states.total() >= jobs and not states["queued"] and not states["running"] and waiting is None:
            # What a worker had in its spool when its job was over may still be on its way.
            time.sleep(3)
            while time.monotonic() < end and _unsent(world):
                world.supervise()
                time.sleep(0.5)
            return
        time.sleep(0.5)
    outcome.problems.append(f"after {limit_s:.0f} s of peace not everything has ended: {dict(states)} of {jobs}")


def _unsent(world: World) -> int:
    """Messages that are still to be sent."""
    with world.database.read() as session:
        return len(session.execute(select(t.Outbox.id).where(t.Outbox.sent_at.is_(None))).all())  # type: ignore[union-attr]


def _compare(world: World, asked: list[str], outcome: Outcome) -> None:
    wanted: set[Key] = {(sha, suite, key, replicate) for sha in asked for suite, key, replicate in EXPECTED}
    with world.database.read() as session:
        rows = session.execute(
            select(
                t.Revision.sha,
                t.Job.suite,
                t.Run.benchmark_key,
                t.Run.replicate,
                t.Run.outcome,
                t.Run.evidence,
                t.Run.id,
            )
            .join(t.Job, t.Job.id == t.Run.job_id)
            .join(t.Revision, t.Revision.id == t.Run.revision_id)
        ).all()
        results = Counter(session.scalars(select(t.Result.run_id)))
        jobs = session.execute(select(t.Job.id, t.Job.state, t.Job.error)).all()
        outcome.attempts = Counter(session.scalars(select(t.Attempt.state)))
    got = Counter((sha, suite, key, replicate) for sha, suite, key, replicate, *_ in rows)
    outcome.jobs, outcome.accepted = len(jobs), len(rows)
    outcome.problems += [f"lost: {key}" for key in sorted(wanted - got.keys())[:10]]
    outcome.problems += [f"never asked for: {key}" for key in sorted(got.keys() - wanted)[:10]]
    outcome.problems += [f"{count} times: {key}" for key, count in got.items() if count > 1][:10]
    if len(jobs) != len(asked) * PER_COMMIT_JOBS:
        outcome.problems.append(f"{len(jobs)} jobs for {len(asked)} commits")
    for *_, how, evidence, run_id in rows:
        if (how == "ok") != (results[run_id] == 1):
            outcome.problems.append(f"run {run_id} is {how} with {results[run_id]} results")
        if how != "ok":
            outcome.failures_explained += 1
            if not evidence.get("message"):
                outcome.problems.append(f"run {run_id} is {how} without a word")
    outcome.problems += [f"job {i} is {state}: {error}" for i, state, error in jobs if state != "done"][:10]
    if unsent := _unsent(world):
        outcome.problems.append(f"{unsent} messages were never sent")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=300.0, help="of harm; the rest of the time is peace")
    parser.add_argument("--settle", type=float, default=240.0, help="longest wait for the rest, in seconds")
    parser.add_argument("--outage", type=float, default=60.0, help="the API's longest absence, in seconds")
    parser.add_argument("--keep", action="store_true", help="leave the folder with all logs")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="gs-chaos-"))
    try:
        outcome = chaos(
            folder, options.seed, options.jobs, options.seconds, options.settle, outage_s=options.outage, say=True
        )
    finally:
        if options.keep:
            sys.stdout.write(f"logs: {folder}\n")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(outcome.logs[-8000:])
    for problem in outcome.problems:
        sys.stdout.write(f"PROBLEM {problem}\n")
    sys.stdout.write(
        f"seed {options.seed}: {outcome.jobs} jobs, {outcome.accepted} results accepted, "
        f"{outcome.failures_explained} explained failures, {len(outcome.problems)} problems, {outcome.seconds:.0f} s\n"
        f"harm: {dict(outcome.harms)}; the API unreachable for {outcome.longest_outage_s:.0f} s at a stretch\nattempts: {dict(outcome.attempts)}\n"
    )
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
