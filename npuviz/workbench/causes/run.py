"""Attributes the critical path of a run to causes, operators and source lines, and names its costliest
parts."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.base.units import format_share
from npuviz.program.instruction import Listing
from npuviz.program.program import Program
from npuviz.program.source import line_of
from npuviz.trace.causes.graph import CauseGraph, critical_path, graph_of
from npuviz.trace.causes.waits import CAUSES, UNKNOWN, unit_causes
from npuviz.trace.reader import TraceReader
from npuviz.trace.schema import TraceSchema
from npuviz.trace.unit_times import tracks_of_units, unit_label

SHOWN_PARTS = 3
PATH_CAUSES = ("compute", "transfer", "control", *CAUSES[1:])
"""Causes of cycles on a path: three kinds of work, and the causes for which units wait."""
_WORK = {"compute": "compute", "move-in": "transfer", "move-out": "transfer", "control": "control"}


@dataclass(frozen=True, slots=True)
class Cost:
    """All pieces of the critical path that belong to one sort of unit and one kind of work or wait.

    units, kind  ids; kind -1: not recorded
    cause        one of PATH_CAUSES; cycles, count  on the path, and number of pieces
    operators, lines  (name, cycles), most first
    instruction, track, start, end   of the longest piece; instruction -1 if it has none
    """

    name: str
    kind: int
    kind_name: str
    doc: str
    cause: str
    units: tuple[int, ...]
    cycles: int
    count: int
    operators: tuple[tuple[str, int], ...]
    lines: tuple[tuple[str, int], ...]
    instruction: int
    track: int
    start: int
    end: int

    def text(self, total: int) -> str:
        """Describe the cost in a sentence. total  cycles of the run"""
        share = self.cycles / max(total, 1)
        what = self.kind_name if self.kind >= 0 else "a cause that is not recorded"
        times = f"{self.count} times" if self.count != 1 else "once"
        amount = f"{format_share(share, 0)} of the critical path ({self.cycles} cycles, {times})"
        parts = [f"{self.name}: {what} holds {amount}"]
        for label, found in (("operators", self.operators), ("lines", self.lines)):
            if found:
                shown = ", ".join(
                    f"{name} {format_share(cycles / max(self.cycles, 1), 0)}" for name, cycles in found
                )
                parts.append(f"{label}: {shown}")
        return "; ".join(parts)


@dataclass(frozen=True)
class RunCauses:
    """The critical path of a run and what it consists of.

    path      SEGMENT_DTYPE; by_cause  PATH_CAUSES -> cycles, which sum to those of the run
    costs     parts of the path, the costliest first; operators, lines  name -> cycles on the path by cause
    """

    reader: TraceReader
    graph: CauseGraph
    path: np.ndarray
    by_cause: Mapping[str, int]
    costs: tuple[Cost, ...]
    operators: Mapping[str, Mapping[str, int]]
    lines: Mapping[str, Mapping[str, int]]

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return self.graph.end_cycle

    def units(self, limit: int | None = None) -> dict[str, dict[str, int]]:
        """Return unit name -> cycles by CAUSES, which sum to those of the run, for the first `limit`
        units."""
        schema = self.reader.schema
        chosen = list(tracks_of_units(schema))[:limit]
        return {unit_label(schema, unit): unit_causes(self.reader, unit) for unit in chosen}

    def unit_of(self, name: str) -> int:
        """Return the id of a unit by its name in `units`, -1 if there is none."""
        schema = self.reader.schema
        return next((unit for unit in tracks_of_units(schema) if unit_label(schema, unit) == name), -1)


def run_causes(reader: TraceReader, program: Program | None = None) -> RunCauses:
    """Find the critical path of a trace and attribute its cycles. Without a program, source lines are not
    known."""
    graph = graph_of(reader)
    path = critical_path(graph)
    names = _Names(reader, program.listing if program is not None else None)
    causes = np.array([PATH_CAUSES.index(names.cause(kind)) for kind in range(-1, len(graph.waits))])
    cause = causes[path["kind"] + 1]
    cycles = path["end"] - path["start"]
    sums = np.bincount(cause, cycles, len(PATH_CAUSES)).astype(np.int64)
    by_cause = {name: int(sums[place]) for place, name in enumerate(PATH_CAUSES)}
    instructions, place = np.unique(path["instruction"], return_inverse=True)
    operators = np.array([names.operator(i) for i in instructions.tolist()], dtype=object)[place]
    lines = np.array([names.line(i) for i in instructions.tolist()], dtype=object)[place]
    rows = _Rows(path, cycles, cause, operators, lines)
    costs = sorted(_costs(rows, names), key=lambda each: -each.cycles)
    return RunCauses(
        reader, graph, path, by_cause, tuple(costs),
        _by_name(rows, operators), _by_name(rows, lines) if any(lines) else {},
    )  # fmt: skip


@dataclass(frozen=True)
class _Rows:
    path: np.ndarray
    cycles: np.ndarray
    cause: np.ndarray
    operators: np.ndarray
    lines: np.ndarray


class _Names:
    """Looks up kinds, operators and source lines by the ids that a trace uses."""

    def __init__(self, reader: TraceReader, listing: Listing | None) -> None:
        self.schema: TraceSchema = reader.schema
        self.kinds = {kind.id: kind for kind in reader.schema.kinds}
        self._listing = listing
        self._node_of = _nodes_of(reader, listing)

    def cause(self, kind: int) -> str:
        """Return the one of PATH_CAUSES that a kind belongs to."""
        if kind not in self.kinds:
            return UNKNOWN
        role = self.kinds[kind].role
        return _WORK.get(role, role.removeprefix("wait-"))

    def operator(self, instruction: int) -> str:
        """Name of an instruction's operator, "" without one."""
        node = self._node_of(instruction)
        return self.schema.node_names[node] if 0 <= node < len(self.schema.node_names) else ""

    def line(self, instruction: int) -> str:
        """Return the source line of an instruction, "" if it has none or that is not known."""
        return line_of(self._listing, instruction)


def _nodes_of(reader: TraceReader, listing: Listing | None) -> Callable[[int], int]:
    if listing is not None:
        count = len(listing)
        return lambda one: int(listing.nodes_of(np.array([one]))[0]) if 0 <= one < count else -1
    known: dict[int, int] = {}
    for track in reader.schema.tracks:
        if track.kind == "interval":
            columns = reader.interval_columns(track.id)
            found, first = np.unique(columns.instruction, return_index=True)
            known.update(zip(found.tolist(), columns.node[first].tolist(), strict=True))
    return lambda one: known.get(one, -1)


def _costs(rows: _Rows, names: _Names) -> list[Cost]:
    """Group the pieces of the path by sort of unit and kind."""
    sorts = [_sort_of(track.name) for track in names.schema.tracks]
    numbers = {name: place for place, name in enumerate(dict.fromkeys(sorts))}
    of_track = np.array([*(numbers[name] for name in sorts), len(numbers)], dtype=np.int64)
    key = of_track[rows.path["track"]] * (len(names.kinds) + 1024) + rows.path["kind"] + 1
    found: list[Cost] = []
    for one in np.unique(key).tolist():
        found.append(_cost(rows, np.flatnonzero(key == one), names))
    return found


def _cost(rows: _Rows, mine: np.ndarray, names: _Names) -> Cost:
    path, tracks = rows.path[mine], names.schema.tracks
    longest = path[int(np.argmax(rows.cycles[mine]))]
    kind, track = int(longest["kind"]), int(longest["track"])
    used = [tracks[t] for t in np.unique(path["track"]).tolist() if t >= 0]
    name = "The end of the run" if not used else used[0].name
    if len(used) > 1:
        name = f"{_sort_of(used[0].name)} ({len(used)} of them)"
    known = names.kinds.get(kind)
    return Cost(
        name, kind, known.name if known else UNKNOWN, known.doc if known else "", names.cause(kind),
        tuple(sorted({each.unit for each in used})), int(rows.cycles[mine].sum()), len(mine),
        _most(rows.operators[mine], rows.cycles[mine]), _most(rows.lines[mine], rows.cycles[mine]),
        int(longest["instruction"]), track, int(longest["start"]), int(longest["end"]),
    )  # fmt: skip


def _sort_of(name: str) -> str:
    """Return a track's name without its numbers: "Core.DMA" for "Core[0].DMA[3]"."""
    return re.sub(r"[\[(][\d, ]+[\])]", "", name)


def _most(names: np.ndarray, cycles: np.ndarray) -> tuple[tuple[str, int], ...]:
    total: Counter[str] = Counter()
    for name, count in zip(names.tolist(), cycles.tolist(), strict=True):
        if name:
            total[name] += count
    return tuple(total.most_common(SHOWN_PARTS))


def _by_name(rows: _Rows, names: np.ndarray) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, cause, cycles in zip(names.tolist(), rows.cause.tolist(), rows.cycles.tolist(), strict=True):
        one = found.setdefault(name, {})
        one[PATH_CAUSES[cause]] = one.get(PATH_CAUSES[cause], 0) + cycles
    return dict(sorted(found.items(), key=lambda item: -sum(item[1].values())))


def as_plain(cost: Cost, total: int) -> dict[str, Any]:
    """Return a cost as plain values for JSON. total  cycles of the run"""
    return {
        "units": cost.name,
        "kind": cost.kind_name,
        "cause": cost.cause,
        "cycles": cost.cycles,
        "share": cost.cycles / max(total, 1),
        "count": cost.count,
        "text": cost.text(total),
        "operators": dict(cost.operators),
        "lines": dict(cost.lines),
        "longest": {"start": cost.start, "end": cost.end},
    }
