"""Parts of an instruction's inspector page that only some programs can fill: dependencies and tables."""

from dataclasses import replace

import numpy as np

from npuviz.program.instruction import Dependency, HasDependencies, HasDetails, Instruction
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page import Cell, Section, Table, count_cell, text_cell
from npuviz.ui.inspector.tables import detail_table
from npuviz.ui.kit.trace_facts import Run, runs_near
from npuviz.workbench.selection import Selection

MAX_ROWS = 64


def dependencies_of(source: InspectorSource, index: int) -> tuple[Dependency, ...]:
    """What the program says about who waits for whom; empty where it says nothing."""
    listing = source.program.listing if source.program else None
    return listing.dependencies_of(index) if isinstance(listing, HasDependencies) else ()


def dependency_sections(
    source: InspectorSource, instruction: Instruction, found: tuple[Dependency, ...], at: int
) -> list[Section]:
    """Predecessors and successors of an instruction.

    at  cycle near which their intervals are looked for
    """
    others = sorted({d.source if d.sink == instruction.index else d.sink for d in found})
    runs: dict[int, Run] = {}
    if source.reader is not None and source.program is not None and others:
        units = source.program.listing.units_of(np.array(others, dtype=np.int64)).tolist()
        runs = runs_near(source.reader, dict(zip(others, units, strict=True)), at)
    own = source.unit(instruction.unit)
    near = own.group if own is not None and own.group else "\0"
    sections: list[Section] = []
    for title, is_waiting in (("Waits for", True), ("Waited for by", False)):
        chosen = [d for d in found if (d.sink if is_waiting else d.source) == instruction.index]
        rows = tuple(
            _row(source, d, d.source if is_waiting else d.sink, runs, is_waiting, near)
            for d in chosen[:MAX_ROWS]
        )
        if rows:
            when = "Ended" if is_waiting else "Began"
            table = Table(("Kind", "Instruction", "Unit", when), rows, max(0, len(chosen) - MAX_ROWS))
            sections.append(Section(title, table=table))
    return sections


def _row(
    source: InspectorSource,
    dependency: Dependency,
    other: int,
    runs: dict[int, Run],
    is_waiting: bool,
    near: str,
) -> tuple[Cell, ...]:
    """One dependency; units of the group `near` are named without it, because the inspector is narrow."""
    link = source.instruction_cell(other)
    run = runs.get(other)
    unit = link.link.unit if link.link is not None else None
    executor = source.unit_cell(unit if unit is not None else -1)
    found = source.unit(unit) if unit is not None else None
    if found is not None and found.group == near:
        executor = replace(executor, text=executor.text.removeprefix(f"{near}."))
    when = text_cell("not yet", role="text-muted")
    if run is not None and link.link is not None:
        chosen: Selection = link.link.with_fields(track=run.track, cycles=(run.start, run.end))
        when = count_cell(run.end if is_waiting else run.start, chosen)
    return (
        text_cell(dependency.kind, role=f"dependency-{dependency.kind}"),
        link,
        executor,
        when,
    )


def detail_sections(source: InspectorSource, index: int) -> list[Section]:
    """The tables that the program has about an instruction."""
    listing = source.program.listing if source.program else None
    if not isinstance(listing, HasDetails):
        return []
    return [section for table in listing.details_of(index) for section in detail_table(table)]
