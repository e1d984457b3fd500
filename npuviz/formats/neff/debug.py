"""Interpret the debug records of a NEFF: instructions, source lines, origins, defects."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from npuviz.base.errors import FormatError
from npuviz.formats.neff.debug_records import (
    DebugFile,
    DebugRecord,
    parse_debug,
)
from npuviz.formats.neff.model import ENGINES, Finding, Neff, Payload, Subgraph
from npuviz.formats.neff.rules.table import Report, shown

_FOLDER = "debug_info/"


@dataclass(frozen=True, slots=True)
class NamedInstruction:
    """A backend instruction and its slots in the program: `slot_count` from `first_slot`.

    `record` is None for start-up code, which has no name in the file.
    """

    engine: str
    first_slot: int
    slot_count: int
    record: DebugRecord | None
    source: tuple[str, int] | None = None


def debug_records(subgraph: Subgraph, engine: str, level: str = "backend") -> DebugFile:
    """Return the records of one engine: level "backend" has instructions,
    "assembly" one record per 64-byte slot.

    `engine` may also be "DMA" (backend only). Empty when the NEFF has no such file. Raises FormatError.
    """
    if level not in ("backend", "assembly"):
        raise ValueError(f"level {level!r} is neither backend nor assembly")
    if engine == "DMA":
        names = subgraph.dma_debug if level == "backend" else ()
    elif engine not in subgraph.engines:
        names = ()
    else:
        found = subgraph.engines[engine]
        names = found.backend_debug if level == "backend" else found.assembly_debug
    parts = [
        parse_debug(subgraph.files[name], f"{subgraph.folder}/{name}")
        for name in names
        if name in subgraph.files
    ]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return DebugFile()
    return DebugFile(
        parts[0].about,
        parts[0].parent_file,
        parts[0].level,
        max((each.sources for each in parts), key=len),
        tuple(record for each in parts for record in each.records),
    )


def engine_instructions(subgraph: Subgraph, engine: str) -> tuple[NamedInstruction, ...]:
    """Return the program of an engine in order, with its slots grouped by the instruction
    that they belong to.

    Empty when the NEFF has no debug records of this engine. Raises FormatError.
    """
    assembly = debug_records(subgraph, engine, "assembly")
    backend = debug_records(subgraph, engine, "backend")
    by_id = backend.by_id()
    found: list[NamedInstruction] = []
    first = 0
    slots = assembly.records
    for index in range(1, len(slots) + 1):
        if index < len(slots) and slots[index].parents == slots[first].parents:
            continue
        parents = slots[first].parents
        record = by_id.get(parents[0]) if parents else None
        source = backend.source_of(record) if record is not None else None
        found.append(NamedInstruction(engine, first, index - first, record, source))
        first = index
    return tuple(found)


def module_debug(neff: Neff, parent_file: str) -> DebugFile:
    """Return the file of a level above the engines that `DebugFile.parent_file` names;
    empty if there is none.

    Names in the archive end in `_sgNNNNNN`; both cores of an LNC pair share the file of the first.
    """
    if not parent_file:
        return DebugFile()
    for name in (f"{_FOLDER}{parent_file}_sg000000", f"{_FOLDER}{parent_file}"):
        if name in neff.members:
            return _parse_module(bytes(neff.members[name]), name)
    return DebugFile()


@lru_cache(maxsize=16)
def _parse_module(content: bytes, name: str) -> DebugFile:
    return parse_debug(content, name)


def ancestors(neff: Neff, level: DebugFile, record: DebugRecord) -> Iterator[tuple[DebugFile, DebugRecord]]:
    """Yield the operations that a record comes from, level by level: penguin, HLO, framework.
    Raises FormatError."""
    wanted = record.parents
    names: set[str] = set()
    while wanted and level.parent_file and level.parent_file not in names:
        names.add(level.parent_file)
        level = module_debug(neff, level.parent_file)
        by_id = level.by_id()
        found = [by_id[each] for each in wanted if each in by_id]
        for each in found:
            yield level, each
        wanted = tuple(dict.fromkeys(parent for each in found for parent in each.parents))


def check_debug(neff: Neff) -> tuple[Finding, ...]:
    """Check the rules `debug.*` and return their findings:
    warnings only, because nothing runs by debug records."""
    report = Report()
    for name, content in neff.members.items():
        if name.startswith(_FOLDER) and ".dbg" in name:
            _parse_or_report(content, name, report)
    for subgraph in neff.subgraphs:
        _check_subgraph(subgraph, report)
    return report.findings()


def _parse_or_report(content: Payload, name: str, report: Report) -> bool:
    try:
        parse_debug(content, name)
    except FormatError as error:
        report.add("debug.records", name, str(error).removeprefix(f"{name}, ").removeprefix(f"{name}: "))
        return False
    return True


def _check_subgraph(subgraph: Subgraph, report: Report) -> None:
    backends: dict[str, DebugFile] = {}
    for engine in (*ENGINES, "DMA"):
        file = subgraph.engines.get(engine)
        names = (*file.backend_debug, *file.assembly_debug) if file else subgraph.dma_debug
        present = [name for name in names if name in subgraph.files]
        if not all(
            _parse_or_report(subgraph.files[name], f"{subgraph.folder}/{name}", report) for name in present
        ):
            continue
        backends[engine] = debug_records(subgraph, engine, "backend")
        if file is None or not any(name in subgraph.files for name in file.assembly_debug):
            continue
        where = f"{subgraph.folder}/{file.assembly_debug[0]}"
        slots = debug_records(subgraph, engine, "assembly").records
        if len(slots) != file.slot_count:
            report.add("debug.slots", where, f"{len(slots)} records for {file.slot_count} slots")
        known = backends[engine].by_id()
        for index, slot in enumerate(slots):
            if any(parent not in known for parent in slot.parents):
                report.add(
                    "debug.edges", where, f"slot {index} has an unknown parent {shown(list(slot.parents))}"
                )
    ids = {record.id for file in backends.values() for record in file.records}
    for engine, file in backends.items():
        for record in file.records:
            for each in (*record.depends_on, *record.synchronised):
                if each.id not in ids:
                    text = f"{shown(record.name)} depends on an unknown record {each.id}"
                    report.add("debug.edges", f"{subgraph.folder}, {engine}", text)
