"""Runs a stepped plugin: set-up, warm-up, samples, the profiled pass, checks, and what the plugin derives from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groundspeed.plugins.spi import Artefact, Context, Measured, Measurement, SampleState, SteppedPlugin, Workload
from groundspeed.plugins.symptoms import hint
from groundspeed.plugins.timing import classify
from groundspeed.plugins.timing.conditions import NO_ENERGY
from groundspeed.plugins.timing.loop import CHUNK_S, DEVICE_CHUNK_S, LATENCY_SAMPLES, Loop, LoopResult, quiet_collector
from groundspeed.plugins.timing.peak import peak_memory, reset_peak
from groundspeed.plugins.timing.profile import ProfileResult, profile_steps
from groundspeed.plugins.timing.reference import Reference, reference_for
from groundspeed.plugins.timing.steady import SteadyTest
from groundspeed.plugins.timing.unbroken import loop_clock

if TYPE_CHECKING:
    from groundspeed.plugins.execution import Session

HOST_STEADY = SteadyTest()
DEVICE_STEADY = SteadyTest(window_s=0.5)
"""A power cap takes 0.2 to 1 s to bring the clock down."""


def drive(session: Session, plugin: SteppedPlugin, context: Context) -> Iterable[Measured]:
    """The plugin's values. Raises whatever plugin and target raise."""
    with session.phase("setup"):
        reference = reference_for(session.device)
        workload = plugin.prepare(context)
    try:
        measurement = measure(session, workload, reference)
        context.labels.update(measurement.labels)
        values = list(plugin.derive(workload, measurement))
        session.facts |= workload.facts
        context.labels.update(workload.labels)
        for artefact in workload.artefacts() if workload.artefacts is not None else ():
            keep_artefact(session, artefact)
        return values
    finally:
        with session.phase("teardown"):
            if workload.close is not None:
                workload.close()


def measure(session: Session, workload: Workload, reference: Reference | None) -> Measurement:
    """The timed pass, the profiled pass where the device has a tracer, and the check."""
    reset_peak(session.device)
    seen = _loop(session, workload, reference)
    memory = peak_memory(session.device)
    if session.device != "cpu" and "allocated" not in memory:
        session.observed["peak_memory"] = {
            "unavailable": f"torch keeps no peaks of {session.device}, or has not used it"
        }
    profiled = _profile(session, workload, seen)
    if workload.check is not None:
        with session.phase("check"):
            workload.check()
    states, labels = _classify(session, workload, seen, profiled)
    _keep(session, workload, seen, profiled, launch_bound="launch_bound" in labels)
    return Measurement(
        step_wall_s=seen.chunk.wall_s,
        step_cpu_s=seen.chunk.cpu_s,
        step_reference_s=seen.reference_s,
        step_device_busy_s=[step.busy_s for step in profiled.steps],
        step_device_cycles=_cycles(session, seen),
        device_trace=_device_trace(profiled),
        device_states=_states_traced(session, profiled, labels),
        energy_j_per_step=seen.energy_j_per_step,
        labels=labels,
        states=states,
        steps_per_sample=seen.steps_per_sample,
        steady=seen.steady,
        warmup_steps=seen.warmup_steps,
        first_step_s=seen.warmup.wall_s[0],
        warmup_wall_s=seen.warmup.wall_s[2:],
        memory_peak_bytes=memory,
    )


def _loop(session: Session, workload: Workload, reference: Reference | None) -> LoopResult:
    loop = Loop(
        workload.step,
        loop_clock(session.device),
        session.spec.limits,
        session.progress,
        workload.mode,
        reference,
        session.conditions.energy_j if session.conditions is not None else None,
        HOST_STEADY if session.device == "cpu" else DEVICE_STEADY,
        CHUNK_S if session.device == "cpu" else DEVICE_CHUNK_S,
        accelerator=session.device != "cpu",
    )
    with session.phase("loop"):
        seen = loop.run()
    del session.phases_s["loop"]
    session.phases_s |= {"warmup": seen.warmup_s, "measure": seen.measure_s}
    return seen


def _profile(session: Session, workload: Workload, seen: LoopResult) -> ProfileResult:
    if session.device == "cpu":
        return ProfileResult(unavailable="the CPU has no device trace")
    if not session.spec.limits.profile:
        return ProfileResult(unavailable="profiling is turned off for this suite")
    with session.phase("profile"), quiet_collector():
        return profile_steps(
            workload.step,
            session.device,
            statistics.median(seen.chunk.wall_s),
            session.progress,
            session.spec.limits.profile_time_s,
        )


def _classify(
    session: Session, workload: Workload, seen: LoopResult, profiled: ProfileResult
) -> tuple[tuple[SampleState, ...], dict[str, str]]:
    """On the CPU a sample during which the kernel took the CPU away is degraded; on a device see classify.py."""
    wall = statistics.median(seen.chunk.wall_s)
    waited = workload.input_wait_s() if workload.input_wait_s is not None else None
    busy = statistics.median(step.busy_s for step in profiled.steps) if profiled.steps else None
    labels = classify.bound_labels(wall, busy, waited)
    if not seen.steady:
        labels["unsteady"] = f"no steady state after {seen.warmup_steps} steps: {hint('unsteady')}"
    if workload.mode == "latency" and len(seen.chunk.wall_s) < LATENCY_SAMPLES:
        labels["tail_from_few"] = f"{len(seen.chunk.wall_s)} requests: {hint('tail-from-few')}"
    if session.device == "cpu" or session.conditions is None or not session.conditions.trace.t_s:
        lost = seen.chunk.preempted if session.device == "cpu" else [False] * len(seen.chunk.wall_s)
        return tuple(SampleState.DEGRADED if one else SampleState.VALID for one in lost), labels
    durations = [value * seen.steps_per_sample for value in seen.chunk.wall_s]
    verdicts = classify.classify_samples(seen.chunk.start_s, durations, session.conditions.trace)
    if "power_capped" in verdicts.labels:
        # The traced pass runs on a cooler device than the timed one, faster; and a device at its limit awaits nobody.
        labels.pop("launch_bound", None)
    return verdicts.states, {**verdicts.labels, **labels}


def _states_traced(session: Session, profiled: ProfileResult, labels: dict[str, str]) -> tuple[SampleState, ...]:
    """Of the traced steps. A stranger that came only then is told too."""
    if session.conditions is None or not session.conditions.trace.t_s:
        return ()
    verdicts = classify.classify_samples(profiled.begin_s, profiled.took_s, session.conditions.trace)
    if "contaminated" in verdicts.labels and profiled.begin_s:
        labels.setdefault("contaminated", verdicts.labels["contaminated"])
    return verdicts.states


def _cycles(session: Session, seen: LoopResult) -> list[float]:
    if session.conditions is None or not session.conditions.trace.t_s:
        return []
    trace = session.conditions.trace
    clocks = [classify.clock_at(start, trace) for start in seen.chunk.start_s]
    if any(clock is None for clock in clocks):
        return []
    return [wall * clock for wall, clock in zip(seen.chunk.wall_s, clocks, strict=True) if clock is not None]


def _device_trace(profiled: ProfileResult) -> dict[str, list[float]]:
    names = ("compute_s", "communication_s", "exposed_communication_s", "launches")
    return {name: [float(getattr(step, name)) for step in profiled.steps] for name in names} if profiled.steps else {}


def _keep(
    session: Session, workload: Workload, seen: LoopResult, profiled: ProfileResult, *, launch_bound: bool
) -> None:
    """What goes beside the samples: how it was measured, and the kernel table as an artefact."""
    session.facts |= {**workload.facts, "samples": len(seen.chunk.wall_s), "stopped": seen.stopped}
    observed: dict[str, Any] = {
        "steady": seen.steady,
        "warmup_steps": seen.warmup_steps,
        "steps_per_sample": seen.steps_per_sample,
        "half_width": round(seen.half_width, 6),
        "preempted_share": round(sum(seen.chunk.preempted) / len(seen.chunk.preempted), 4),
        "launch_bound": launch_bound,
    }
    if session.device != "cpu" and seen.energy_j_per_step is None:
        observed["energy_j_per_step"] = {"unavailable": NO_ENERGY}
    if profiled.unavailable:
        observed["device_trace"] = {"unavailable": profiled.unavailable}
    else:
        observed["device_trace"] = {
            "steps": len(profiled.steps),
            "wall_s": round(profiled.wall_s, 3),
            "tracer": profiled.tracer,
            "tracer_start_s": round(profiled.started_s, 3),
        }
        _keep_table(session, profiled)
    session.observed |= observed


def _keep_table(session: Session, profiled: ProfileResult) -> None:
    keep_artefact(session, Artefact("kernel-table", "kernel-table.json", json.dumps(profiled.table.as_json())))


def keep_artefact(session: Session, artefact: Artefact) -> None:
    """Written into the process's folder, from which the worker takes it."""
    path = Path(session.spec.workdir) / Path(artefact.name).name
    path.write_text(artefact.content, encoding="utf-8")
    session.artefacts.append(
        {"kind": artefact.kind, "name": path.name, "path": path.name, "media_type": artefact.media_type}
    )
