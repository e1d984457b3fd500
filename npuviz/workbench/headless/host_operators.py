"""Lists the operators that run on the Host with the reasons, grouped by type and reason for a summary."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from npuviz.base.units import format_share
from npuviz.program.program import Program
from npuviz.sim.machine import HasHostTimes, Machine

MAX_LINES = 12


def host_operators(program: Program, machine: Machine | None = None) -> list[dict[str, Any]]:
    """Return a row for each operator on the Host that has a reason: operator, name, node, limit, found,
    change, and cycles of a run if the machine knows them (else None)."""
    nodes = program.graph.nodes
    cycles = machine.host_cycles() if isinstance(machine, HasHostTimes) else {}
    return [
        {
            "operator": nodes[note.node].op_type,
            "name": nodes[note.node].name,
            "node": note.node,
            **asdict(note.reason),
            "cycles": cycles.get(note.node),
        }
        for note in program.notes
        if note.reason is not None and 0 <= note.node < len(nodes)
    ]


def host_lines(found: Sequence[Mapping[str, Any]], cycles: int = 0) -> list[str]:
    """Write the rows of `host_operators` as lines, grouped, the slowest group first, then the most frequent.

    cycles  of the whole run, to show shares of it; 0 shows none
    """
    groups = Counter((each["operator"], each["limit"], each["change"]) for each in found)
    taken = Counter[tuple[str, str, str]]()
    for each in found:
        taken[each["operator"], each["limit"], each["change"]] += each["cycles"] or 0
    lines: list[str] = []
    order = sorted(groups, key=lambda group: (-taken[group], -groups[group]))
    for operator, limit, change in order[:MAX_LINES]:
        group = (operator, limit, change)
        times = f" x {groups[group]}" if groups[group] > 1 else ""
        share = f" ({format_share(taken[group] / cycles)} of the time)" if cycles and taken[group] else ""
        lines.append(
            f"  on Host   {operator}{times}{share}: {limit}" + (f"; to lift it: {change}" if change else "")
        )
    if len(groups) > MAX_LINES:
        lines.append(f"  ... and {len(groups) - MAX_LINES} more reasons (--json lists all)")
    return lines
