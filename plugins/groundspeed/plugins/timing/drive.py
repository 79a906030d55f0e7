"""Runs a stepped plugin: set-up, warm-up, samples, checks, and the values that the plugin derives from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from groundspeed.plugins.spi import Context, Measured, Measurement, SampleState, SteppedPlugin, Workload
from groundspeed.plugins.timing.clocks import clock_for
from groundspeed.plugins.timing.loop import Loop, LoopResult
from groundspeed.plugins.timing.peak import peak_memory, reset_peak
from groundspeed.plugins.timing.reference import Reference, reference_for

if TYPE_CHECKING:
    from groundspeed.plugins.execution import Session


def drive(session: Session, plugin: SteppedPlugin, context: Context) -> Iterable[Measured]:
    """The plugin's values. Raises whatever plugin and target raise."""
    with session.phase("setup"):
        reference = reference_for(session.device)
        workload = plugin.prepare(context)
    try:
        return _measure(session, plugin, workload, reference)
    finally:
        with session.phase("teardown"):
            if workload.close is not None:
                workload.close()


def _measure(
    session: Session, plugin: SteppedPlugin, workload: Workload, reference: Reference | None
) -> list[Measured]:
    clock = clock_for(session.device)
    reset_peak(session.device)
    loop = Loop(workload.step, clock, session.spec.limits, session.progress, workload.mode, reference)
    with session.phase("loop"):
        seen = loop.run()
    del session.phases_s["loop"]
    session.phases_s |= {"warmup": seen.warmup_s, "measure": seen.measure_s}
    if workload.check is not None:
        with session.phase("check"):
            workload.check()
    measurement = as_measurement(seen, peak_memory(session.device))
    session.facts |= {**workload.facts, "samples": len(seen.chunk.wall_s), "stopped": seen.stopped}
    session.observed |= {
        "steady": seen.steady,
        "warmup_steps": seen.warmup_steps,
        "steps_per_sample": seen.steps_per_sample,
        "half_width": round(seen.half_width, 6),
        "preempted_share": round(sum(seen.chunk.preempted) / len(seen.chunk.preempted), 4),
    }
    return list(plugin.derive(workload, measurement))


def as_measurement(seen: LoopResult, memory: dict[str, int]) -> Measurement:
    """A sample during which the kernel took the CPU away is degraded: kept, and not used while there are better."""
    states = [SampleState.DEGRADED if lost else SampleState.VALID for lost in seen.chunk.preempted]
    return Measurement(
        step_wall_s=seen.chunk.wall_s,
        step_cpu_s=seen.chunk.cpu_s,
        step_reference_s=seen.reference_s,
        states=states,
        steps_per_sample=seen.steps_per_sample,
        steady=seen.steady,
        warmup_steps=seen.warmup_steps,
        memory_peak_bytes=memory,
    )
