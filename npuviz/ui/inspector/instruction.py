"""Inspector pages of instructions and of ranges of memories."""

from dataclasses import replace
from functools import partial

import numpy as np

from npuviz.base.units import format_shape
from npuviz.program.dtypes import DTYPES, numpy_dtype
from npuviz.program.instruction import Dependency, HasDependencies, HasDetails, Instruction, Operand
from npuviz.program.memory import Allocation
from npuviz.sim.description import Memory
from npuviz.sim.machine import Region, StillMemories
from npuviz.ui.bridge.still_answers import PENDING
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page import (
    COMPUTING,
    Cell,
    Page,
    Section,
    address_cell,
    bytes_cell,
    count_cell,
    field,
    listed,
    muted_cell,
    number_cell,
    remark,
    span_cells,
    text_cell,
)
from npuviz.ui.inspector.tables import detail_table
from npuviz.ui.kit.trace_facts import Run, intervals_of_instruction, runs_near
from npuviz.workbench.selection import MemoryRange, Selection, selected

MAX_ROWS = 64
MAX_BYTES = 4096
"""Bytes of a memory range that are shown as numbers."""
NUM_NUMBERS = 32


def instruction_page(source: InspectorSource, instruction: Instruction) -> Page:
    """Return the page of an instruction."""
    facts = [
        field("Number", count_cell(instruction.index)),
        field("Unit", source.unit_cell(instruction.unit)),
        field("Operator", source.node_cell(instruction.node)),
    ]
    if instruction.tile >= 0:
        facts.append(field("Tile", count_cell(instruction.tile)))
    runs = (
        intervals_of_instruction(source.reader, instruction.index, instruction.unit) if source.reader else []
    )
    sections = [Section("", tuple(facts)), *_runs(source, instruction, runs)]
    dependencies = dependencies_of(source, instruction.index)
    at = runs[-1].start if runs else source.cycle
    sections += dependency_sections(source, instruction, dependencies, at)
    for title, operands in (("Reads", instruction.reads), ("Writes", instruction.writes)):
        headers = ("Memory", "Address", "Size", "Tensor")
        placed = [in_its_bank(source, instruction, each, at) for each in operands[:MAX_ROWS]]
        sections += listed(title, headers, placed, partial(_operand_row, source), MAX_ROWS)
    sections += detail_sections(source, instruction.index)
    sections += _flows(source, instruction.index, {(d.source, d.sink) for d in dependencies})
    node = source.node(instruction.node)
    title = instruction.opcode
    word, _, operands = instruction.text.partition(" ")
    subtitle = operands.strip() if word == title else instruction.text
    return Page("Instruction", title, subtitle, tuple(sections), node.op_type if node else "")


def memory_page(source: InspectorSource, memory_range: MemoryRange) -> Page:
    """Return the page of a range of bytes."""
    memory = source.memory(memory_range.memory)
    name = memory.name if memory else f"memory {memory_range.memory}"
    first, end = memory_range.address, memory_range.address + memory_range.size_bytes
    facts = [
        field("First byte", address_cell(first)),
        field("Last byte", address_cell(end - 1)),
        field("Size", bytes_cell(memory_range.size_bytes * memory_range.banks)),
    ]
    if memory is not None:
        facts.append(field("Memory", text_cell(name), bytes_cell(memory.size_bytes)))
        if memory.num_banks > 1:
            bank, inside = divmod(first, max(1, memory.bank_bytes))
            if memory_range.banks > 1:
                last = count_cell(bank + memory_range.banks - 1)
                facts.append(field("Banks", count_cell(bank), text_cell("to"), last))
            else:
                facts.append(field("Bank", count_cell(bank)))
            facts.append(field("In the bank", address_cell(inside)))
    sections = [Section("", tuple(facts))]
    sections += _held(source, memory_range)
    sections += _allocated(source, memory_range)
    subtitle = f"0x{first:x} \u2013 0x{end - 1:x}"
    return Page("Memory", name, subtitle, tuple(sections))


def _runs(source: InspectorSource, instruction: Instruction, runs: list[Run]) -> list[Section]:
    if source.reader is None:
        return [remark("When", "Nothing is recorded.")]
    if not runs:
        return [remark("When", "It has not run yet.")]
    kinds = {kind.id: kind for kind in source.reader.schema.kinds}
    here = selected(instruction=instruction.index, node=instruction.node, unit=instruction.unit)
    units = {track.id: track.unit for track in source.reader.schema.tracks}
    # If several units ran the instruction, such as elements of a fabric, a column names the unit.
    shared = [units.get(run.track, -1) for run in runs]
    is_shared = len(set(shared)) > 1
    names = {unit: source.unit_cell(unit) for unit in shared}
    # "PE(3,4)" is enough instead of "PE(3,4).task" if all of them are tasks.
    ends = {cell.text.rpartition(".")[2] for cell in names.values()}
    if len(ends) == 1:
        names = {unit: replace(cell, text=cell.text.rpartition(".")[0]) for unit, cell in names.items()}

    def row(run: Run) -> tuple[Cell, ...]:
        kind = kinds.get(run.kind)
        link = here.with_fields(track=run.track, cycles=(run.start, run.end))
        what = text_cell(kind.name if kind else "", role=kind.role if kind else "")
        cycles, length = span_cells(run.start, run.end, source.frequency_hz, link)
        return (what, names[units.get(run.track, -1)], cycles) if is_shared else (what, cycles, length)

    # The inspector has room for three columns.
    headers = ("What", "Unit", "Cycles") if is_shared else ("What", "Cycles", "Length")
    return listed("When", headers, runs, row)


def in_its_bank(source: InspectorSource, instruction: Instruction, operand: Operand, cycle: int) -> Operand:
    """Return an operand of a tile with its address in the bank that the tile was given.

    The listing has only addresses inside a bank; the bank is found in the memory now, or in the trace around
    `cycle`. If neither holds the operand it is returned unchanged.
    """
    memory = source.memory(operand.memory)
    if memory is None or memory.num_banks < 2 or instruction.tile < 0 or source.program is None:
        return operand
    held: list[tuple[int, int]] = []
    if source.session is not None:
        found = source.ask(("regions", memory.id), lambda still: list(still.regions(memory.id)))
        held += [] if found is PENDING else [(r.instruction, r.address) for r in found]
    if source.reader is not None:
        rows = source.reader.lifetimes(memory.id, (cycle, cycle + 1))
        held += zip(rows["instruction"].tolist(), rows["address"].tolist(), strict=True)
    listing = source.program.listing
    for writer, address in held:
        is_same = address % memory.bank_bytes == operand.address and writer >= 0
        if is_same and listing.describe(writer).tile == instruction.tile:
            return replace(operand, address=address)
    return operand


def _operand_row(source: InspectorSource, operand: Operand) -> tuple[Cell, ...]:
    memory = source.memory(operand.memory)
    place = MemoryRange(operand.memory, operand.address, max(1, operand.size_bytes))
    link = selected(memory=place, tensor=operand.tensor) if memory else None
    return (
        text_cell(memory.name if memory else "\u2013"),
        address_cell(operand.address, link),
        bytes_cell(operand.size_bytes),
        source.tensor_cell(operand.tensor),
    )


def _flows(source: InspectorSource, instruction: int, told: set[tuple[int, int]]) -> list[Section]:
    """List links to the instructions whose results an instruction used, and to those that used its result.

    told  (source, sink) pairs that are shown as dependencies already
    """
    if source.reader is None:
        return []
    flows = source.reader.flows_of(instruction)
    sections: list[Section] = []
    for title, mine, other in (("Needed", "sink", "source"), ("Was needed by", "source", "sink")):
        found = [
            row
            for row in flows[flows[mine] == instruction]
            if (int(row["source"]), int(row["sink"])) not in told
        ]

        def cells(row: np.void, other: str = other) -> tuple[Cell, ...]:
            return source.instruction_cell(int(row[other])), count_cell(int(row["cycle"]))

        sections += listed(title, ("Instruction", "Cycle"), found, cells, MAX_ROWS)
    return sections


def _held(source: InspectorSource, wanted: MemoryRange) -> list[Section]:
    """List the regions that the range holds now, and its first bytes as numbers."""
    memory = source.memory(wanted.memory)
    if source.session is None or memory is None:
        return []
    count = max(0, min(wanted.size_bytes, MAX_BYTES, memory.size_bytes - wanted.address))
    answer = source.ask(("held", wanted), lambda still: _ask_range(still, wanted, memory, count))
    if answer is PENDING:
        return [remark("Contents now", COMPUTING)]
    regions, data = answer

    def row(r: Region) -> tuple[Cell, ...]:
        place = MemoryRange(wanted.memory, r.address, r.size_bytes, r.banks)
        return (
            source.tensor_cell(r.tensor) if r.tensor >= 0 else text_cell(r.label),
            address_cell(r.address, Selection(memory=place)),
            text_cell(format_shape(r.shape)),
            count_cell(r.since),
            source.instruction_cell(r.instruction),
            text_cell("valid" if r.is_valid else "on its way", role="" if r.is_valid else "warning"),
        )

    headers = ("Holds", "Address", "Shape", "Since", "Written by", "State")
    sections = listed("Now", headers, regions, row, MAX_ROWS)
    name = regions[0].dtype if regions else memory.dtype
    dtype = numpy_dtype(name if name in DTYPES else "uint8")
    return [*sections, _numbers(data, dtype)] if data else sections


def _ask_range(
    still: StillMemories, wanted: MemoryRange, memory: Memory, count: int
) -> tuple[list[Region], bytes]:
    """Return the regions that overlap a range, and its first `count` bytes."""
    regions = [r for r in still.regions(wanted.memory) if _overlaps(r, wanted, memory.bank_bytes)]
    return regions, still.read_memory(wanted.memory, wanted.address, count)


def _overlaps(region: Region, wanted: MemoryRange, bank_bytes: int) -> bool:
    """Return whether a region and a range, which may each extend over several banks, share a byte."""
    if region.banks == wanted.banks == 1:
        end = wanted.address + wanted.size_bytes
        return region.address < end and wanted.address < region.address + region.size_bytes
    (bank, inside), (other, first) = divmod(region.address, bank_bytes), divmod(wanted.address, bank_bytes)
    shares_banks = bank < other + wanted.banks and other < bank + region.banks
    return shares_banks and inside < first + wanted.size_bytes and first < inside + region.size_bytes


def _numbers(data: bytes, dtype: np.dtype) -> Section:
    whole = len(data) // dtype.itemsize
    values = np.frombuffer(data[: whole * dtype.itemsize], dtype=dtype)[:NUM_NUMBERS].astype(np.float64)
    hexadecimal = data[:32].hex(" ", 4)
    fields = [field("Bytes", number_cell(hexadecimal + (" \u2026" if len(data) > 32 else "")))]
    if len(values):
        text = "  ".join(f"{value:.6g}" for value in values)
        text += "  \u2026" if whole > NUM_NUMBERS else ""
        fields.insert(0, field(dtype.name, number_cell(text)))
    return Section("Contents now", tuple(fields))


def _allocated(source: InspectorSource, wanted: MemoryRange) -> list[Section]:
    """List the tensors whose place in the program's memory map overlaps the range."""
    if source.program is None:
        return []
    end = wanted.address + wanted.size_bytes
    found = [
        a
        for a in source.program.memory_map.allocations
        if a.memory == wanted.memory and a.address < end and wanted.address < a.address + a.size_bytes
    ]

    def row(a: Allocation) -> tuple[Cell, ...]:
        return source.tensor_cell(a.tensor), address_cell(a.address), bytes_cell(a.size_bytes)

    return listed("Allocated here", ("Tensor", "Address", "Size"), found, row, MAX_ROWS)


def dependencies_of(source: InspectorSource, index: int) -> tuple[Dependency, ...]:
    """Return the dependencies of an instruction from the program; empty if it has none or lists none."""
    listing = source.program.listing if source.program else None
    return listing.dependencies_of(index) if isinstance(listing, HasDependencies) else ()


def dependency_sections(
    source: InspectorSource, instruction: Instruction, found: tuple[Dependency, ...], at: int
) -> list[Section]:
    """List predecessors and successors of an instruction.

    at  cycle near which the intervals of the others are looked for
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
        headers = ("Kind", "Instruction", "Unit", "Ended" if is_waiting else "Began")
        row = partial(_dependency_row, source, runs, is_waiting, near)
        sections += listed(title, headers, chosen, row, MAX_ROWS)
    return sections


def _dependency_row(
    source: InspectorSource, runs: dict[int, Run], is_waiting: bool, near: str, dependency: Dependency
) -> tuple[Cell, ...]:
    """Return the row of a dependency; names of units in the group `near` are shortened to save room."""
    other = dependency.source if is_waiting else dependency.sink
    link = source.instruction_cell(other)
    run = runs.get(other)
    unit = link.link.unit if link.link is not None else None
    executor = source.unit_cell(unit if unit is not None else -1)
    found = source.unit(unit) if unit is not None else None
    if found is not None and found.group == near:
        executor = replace(executor, text=executor.text.removeprefix(f"{near}."))
    when = muted_cell("not yet")
    if run is not None and link.link is not None:
        chosen: Selection = link.link.with_fields(track=run.track, cycles=(run.start, run.end))
        when = count_cell(run.end if is_waiting else run.start, chosen)
    return text_cell(dependency.kind, role=f"dependency-{dependency.kind}"), link, executor, when


def detail_sections(source: InspectorSource, index: int) -> list[Section]:
    """Return the program's detail tables about an instruction as sections."""
    listing = source.program.listing if source.program else None
    if not isinstance(listing, HasDetails):
        return []
    return [section for table in listing.details_of(index) for section in detail_table(table)]
