"""Compare the time of a kernel's loops with the least time that each unit needs for their bodies."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from npuviz.base.units import format_count, format_share
from npuviz.program.instruction import DetailTable
from npuviz.program.source import CallSite
from npuviz.targets.neuroncore.costs.instructions import issue_cycles, latency_cycles, to_base
from npuviz.targets.neuroncore.isa import ENGINE_NAMES
from npuviz.targets.neuroncore.machine.engine import Engine as Machine
from npuviz.targets.neuroncore.view.sourced_listing import SourcedListing

MAX_LOOPS = 100
"""Most rows of the table."""
_DMA = len(ENGINE_NAMES)
Path = tuple[tuple[int, int, str, int], ...]
"""Loops around an instruction, outermost first: (file, line, variable, iteration)."""


@dataclass
class LoopWork:
    """The work done in the bodies of one loop.

    depth  number of loops around it;  turns  its iterations so far
    spans  first and last cycle of each run, by the iterations of the loops around it
    work   base cycles by engine, DMA last
    """

    depth: int
    turns: set[Path] = field(default_factory=set[Path])
    spans: dict[Path, tuple[int, int]] = field(default_factory=dict[Path, tuple[int, int]])
    work: np.ndarray = field(default_factory=lambda: np.zeros(_DMA + 1))

    @property
    def cycles(self) -> int:
        """Cycles of all runs of the loop, from the first instruction to the end of the last; overlaps count
        once.
        """
        total = until = 0
        for first, last in sorted(self.spans.values()):
            total += max(0, last - max(first, until))
            until = max(until, last)
        return total


def loop_works(
    engine: Machine, listing: SourcedListing, transfer_cycles: np.ndarray
) -> dict[tuple[int, int, str], LoopWork]:
    """Sum up the work that has ended so far by loop (file, line, variable), in the order of the program.

    transfer_cycles  cycles of each transfer, on all DMA engines together
    """
    tables, log = engine.tables, engine.log()
    is_transfer = log[:, 0] < 0
    numbers, ends = np.where(is_transfer, -1 - log[:, 0], log[:, 0]), log[:, 1]
    code = tables.instructions[numbers]
    issue = to_base(issue_cycles(code, engine.spec), code["engine"], engine.spec)
    issue[is_transfer] = 0
    begins = ends - issue - to_base(latency_cycles(code, engine.spec), code["engine"], engine.spec)
    begins[is_transfer] = ends[is_transfer]
    moved = np.zeros(len(log))
    moved[is_transfer] = transfer_cycles[tables.transfer_of[numbers[is_transfer]]]
    moments = tables.tiles[numbers]
    found: dict[tuple[int, int, str], LoopWork] = {}
    for moment in np.unique(moments).tolist():
        mine = np.flatnonzero(moments == moment)
        path = _path(listing.calls_of(int(numbers[mine[0]])))
        work = np.bincount(code["engine"][mine], issue[mine], minlength=_DMA + 1)[: _DMA + 1]
        work[_DMA] = moved[mine].sum()
        low, high = int(begins[mine].min()), int(ends[mine].max())
        for depth, (file, line, variable, _) in enumerate(path):
            loop = found.setdefault((file, line, variable), LoopWork(depth))
            around = path[:depth]
            first, last = loop.spans.get(around, (low, high))
            loop.spans[around] = (min(first, low), max(last, high))
            loop.turns.add(path[: depth + 1])
            loop.work += work
    return found


def _path(calls: Sequence[CallSite]) -> Path:
    return tuple(
        (loop.place.file, loop.place.line, loop.variable, loop.turn)
        for call in reversed(calls)
        for loop in call.loops
    )


def loop_table(engine: Machine, listing: SourcedListing, transfer_cycles: np.ndarray) -> DetailTable:
    """Make a table of loops: iterations, cycles, highest bound and its share, shares of the other units."""
    names = (*ENGINE_NAMES, "DMA")
    rows: list[tuple[str, ...]] = []
    works = loop_works(engine, listing, transfer_cycles)
    for (file, line, variable), loop in list(works.items())[:MAX_LOOPS]:
        order = np.argsort(-loop.work).tolist()
        cycles = max(loop.cycles, 1)
        shares = [(names[unit], float(loop.work[unit]) / cycles) for unit in order[1:] if loop.work[unit]]
        others = ", ".join(f"{name} {format_share(share, 0)}" for name, share in shares)
        rows.append(
            (
                f"{'  ' * loop.depth}{variable}", f"{listing.sources[file].name}:{line}",
                format_count(len(loop.turns)), format_count(loop.cycles),
                format_count(round(float(loop.work[order[0]]))), names[order[0]],
                format_share(float(loop.work[order[0]]) / cycles, 0), others,
            )
        )  # fmt: skip
    columns = ("Loop", "Line", "Turns", "Cycles", "Least cycles", "Of", "Share", "Others")
    return DetailTable("Bounds of loops (of what has ended)", columns, tuple(rows))
