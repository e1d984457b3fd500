"""Measures the cost of steps of a language model, and names what bounds them."""

from dataclasses import dataclass
from typing import Any

from npuviz.base.units import format_share
from npuviz.sim.machine import HasPeaks, Machine

LOW = 0.5
"""A part that is busy for a smaller share of the time than this does not bound a phase."""


@dataclass(frozen=True)
class Step:
    """One run of the model: cycles, seconds on the chip, bytes to and from DRAM, shares of the time.

    shares  kind of unit -> share of the time it is busy; unit and measure -> used share of its peak rate
    """

    cycles: int
    seconds: float
    num_bytes: int
    shares: dict[str, float]


def step_of(machine: Machine) -> Step:
    """Measure the step that a finished machine ran."""
    cycles = machine.cycle
    seconds = cycles / machine.description.base_clock.frequency_hz
    shares: dict[str, float] = {}
    for name, busy, _ in machine.summary().units:
        kind = name.rpartition("].")[2].partition("[")[0]
        shares[kind] = max(shares.get(kind, 0.0), busy / max(1, cycles))
    num_bytes = 0
    for peak in machine.peaks() if isinstance(machine, HasPeaks) else ():
        if peak.measure == "bytes" and peak.is_exact:
            num_bytes += int(peak.used)
        elif ": " not in peak.name and peak.limit > 0 and not peak.is_exact:
            what = peak.name.rpartition("].")[2].partition("[")[0]
            label = f"{what} {peak.measure}"
            shares[label] = max(shares.get(label, 0.0), peak.used / peak.limit)
    return Step(cycles, seconds, num_bytes, shares)


def bound_text(steps: list[Step]) -> str:
    """Name what bounds steps: the busiest part, or latency if no part is busy for half of the time."""
    cycles = sum(step.cycles for step in steps) or 1
    means: dict[str, float] = {}
    for step in steps:
        for name, share in step.shares.items():
            means[name] = means.get(name, 0.0) + share * step.cycles / cycles
    busiest = sorted(means.items(), key=lambda item: -item[1])[:3]
    shown = ", ".join(f"{name} {format_share(share, 0)}" for name, share in busiest)
    if not busiest or busiest[0][1] < LOW:
        return f"latency: nothing is busy for half of the time ({shown})"
    return f"{busiest[0][0]} ({shown})"


def phase_values(name: str, tokens: int, steps: list[Step]) -> dict[str, Any]:
    """Return the cost of a phase as plain values. tokens  that it processes"""
    cycles, seconds = sum(step.cycles for step in steps), sum(step.seconds for step in steps)
    num_bytes = sum(step.num_bytes for step in steps)
    return {
        "phase": name,
        "tokens": tokens,
        "steps": len(steps),
        "cycles": cycles,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds if seconds else 0.0,
        "dram_bytes": num_bytes,
        "bytes_per_token": num_bytes / tokens if tokens else 0.0,
        "bound": bound_text(steps) if steps else "",
        "step_cycles": [step.cycles for step in steps],
    }
