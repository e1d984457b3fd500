"""Why operators run on the Host, as lines of a summary: those of one kind and reason together."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from npuviz.program.program import Program

MAX_LINES = 12


def host_operators(program: Program) -> list[dict[str, Any]]:
    """Operators on the Host that have a reason: operator, name, node, limit, found, change."""
    nodes = program.graph.nodes
    return [
        {
            "operator": nodes[note.node].op_type,
            "name": nodes[note.node].name,
            "node": note.node,
            **asdict(note.reason),
        }
        for note in program.notes
        if note.reason is not None and 0 <= note.node < len(nodes)
    ]


def host_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What `host_operators` found, the most frequent first; none where nothing runs there."""
    groups = Counter((each["operator"], each["limit"], each["change"]) for each in found)
    lines: list[str] = []
    for (operator, limit, change), count in groups.most_common(MAX_LINES):
        times = f" x {count}" if count > 1 else ""
        lines.append(
            f"  on Host   {operator}{times}: {limit}" + (f"; to lift it: {change}" if change else "")
        )
    if len(groups) > MAX_LINES:
        lines.append(f"  ... and {len(groups) - MAX_LINES} more reasons (--json lists all)")
    return lines
