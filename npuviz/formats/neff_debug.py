"""Debug records of a NEFF (reference 4.8): names, source lines and typed dependencies of instructions.

They say nothing about opcodes, operands, values or time. No schema is published: what the numbers
mean is measured on a real NEFF or, for the kinds of dependencies, inferred.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from npuviz.base.errors import FormatError
from npuviz.formats.neff_model import ENGINES, Finding, Neff, Payload, Subgraph
from npuviz.formats.neff_rule_table import Report, shown
from npuviz.formats.neff_wire import packed, put_bytes, put_number, put_packed, wire_fields

KINDS = {1: "accumulate", 2: "anti", 3: "output", 4: "flow"}
"""Number in the file -> kind of a dependency: accumulation into the same PSUM result, write after
read, write after write, producer to consumer (inferred)."""
LEVELS = {1: "PE", 2: "Activation", 3: "Pool", 4: "DMA", 5: "DVE", 6: "SP"}
_KIND_NUMBERS = {name: number for number, name in KINDS.items()}
_FOLDER = "debug_info/"


@dataclass(frozen=True, slots=True)
class Dependency:
    """The record `id` has to happen first; `kind` is flow, anti, output, accumulate, or its number."""

    id: int
    kind: str = "flow"


@dataclass(frozen=True, slots=True)
class DebugRecord:
    """One record: an instruction, operation or 64-byte slot of its level.

    `parents` are ids one level up. `synchronised` are the dependencies that got a semaphore of their
    own. `number` is a small integer of unknown meaning. Without `has_kinds` the file gives no kinds:
    an edge is an operand, and counts as flow.
    """

    id: int = 0
    name: str = ""
    parents: tuple[int, ...] = ()
    depends_on: tuple[Dependency, ...] = ()
    synchronised: tuple[Dependency, ...] = ()
    number: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    has_kinds: bool = True


@dataclass(frozen=True, slots=True)
class DebugFile:
    """The records of one level in the file's order, with the source paths that they index."""

    about: str = ""
    parent_file: str = ""
    """Name of the file one level up, without its folder and its `_sg000000` ending."""
    level: int = 0
    """Number of the engine, see LEVELS; 0 for levels above the engines."""
    sources: tuple[str, ...] = ()
    records: tuple[DebugRecord, ...] = ()
    frames: bytes | None = None
    """The frame index message of stack_frame_index, not decoded."""

    def source_of(self, record: DebugRecord) -> tuple[str, int] | None:
        """(path on the build host, line) of a record, None when it has none."""
        attributes = record.attributes
        path = attributes.get("source_file", "")
        line = attributes.get("source_line", "")
        if not path:
            index = attributes.get("kernel_file", "")
            line = attributes.get("kernel_line", "")
            if not _is_number(index) or int(index) >= len(self.sources):
                return None
            path = self.sources[int(index)]
        return (path, int(line) if _is_number(line) else 0) if path else None

    def by_id(self) -> dict[int, DebugRecord]:
        """Records by their id."""
        return {record.id: record for record in self.records}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


@dataclass(frozen=True, slots=True)
class NamedInstruction:
    """A backend instruction and the slots of the program that are its own, `slot_count` from `first_slot`.

    `record` is None for start-up code, which has no name in the file.
    """

    engine: str
    first_slot: int
    slot_count: int
    record: DebugRecord | None
    source: tuple[str, int] | None = None


# --- decoding ----------------------------------------------------------------------------------


def parse_debug(content: Payload, file: str) -> DebugFile:
    """The records of a .dbg member. Raises FormatError with the byte that makes no sense."""
    about = parent = ""
    level = 0
    sources: list[str] = []
    records: list[DebugRecord] = []
    frames: bytes | None = None
    for number, value in wire_fields(bytes(content), file):
        if number == 3:
            records.append(_parse_record(_bytes(value, file, "a record"), file))
        elif number == 1:
            about = _text(value, file)
        elif number == 2:
            parent = _text(value, file)
        elif number == 4:
            level = _number(value, file, "a level")
        elif number == 5:
            sources.append(_text(value, file))
        elif number == 6:
            frames = _bytes(value, file, "a frame index")
    return DebugFile(about, parent, level, tuple(sources), tuple(records), frames)


def _parse_record(data: bytes, file: str) -> DebugRecord:
    identity = number = 0
    name = ""
    lists: dict[int, tuple[int, ...]] = {}
    attributes: dict[str, str] = {}
    for key, value in wire_fields(data, file):
        if key == 1:
            identity = _number(value, file, "an id")
        elif key == 2:
            name = _text(value, file)
        elif key in (3, 4, 5, 9, 10):
            lists[key] = lists.get(key, ()) + packed(value, file)
        elif key == 6:
            number = _number(value, file, "a number")
        elif key == 7:
            pair = dict(wire_fields(_bytes(value, file, "an attribute"), file))
            attributes[_text(pair.get(1, b""), file)] = _text(pair.get(2, b""), file)
    return DebugRecord(
        identity,
        name,
        lists.get(3, ()),
        _dependencies(lists.get(4, ()), lists.get(9, ())),
        _dependencies(lists.get(5, ()), lists.get(10, ())),
        number,
        attributes,
        has_kinds=9 in lists or 10 in lists or not (4 in lists or 5 in lists),
    )


def _dependencies(ids: Sequence[int], kinds: Sequence[int]) -> tuple[Dependency, ...]:
    """Ids with their kinds; operands at the higher levels have none and flow."""
    if not ids:
        return ()
    padded = (*kinds[: len(ids)], *(4,) * (len(ids) - len(kinds)))
    return tuple(Dependency(each, KINDS.get(kind, str(kind))) for each, kind in zip(ids, padded, strict=True))


def _text(value: int | bytes, file: str) -> str:
    # Names of tensors may hold any bytes; they are shown, never compared with other files.
    text = _bytes(value, file, "a text").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _bytes(value: int | bytes, file: str, what: str) -> bytes:
    if isinstance(value, int):
        raise FormatError(file, expected=f"{what} of a debug file", found=f"the number {value}")
    return value


def _number(value: int | bytes, file: str, what: str) -> int:
    if not isinstance(value, int):
        raise FormatError(file, expected=f"{what} of a debug file", found="a text")
    return value


# --- encoding ----------------------------------------------------------------------------------


def debug_bytes(content: DebugFile) -> bytes:
    """A .dbg member; what `parse_debug` read from a real file is given back byte for byte."""
    out = bytearray()
    for number, text in ((1, content.about), (2, content.parent_file)):
        if text:
            put_bytes(out, number, text.encode())
    for record in content.records:
        put_bytes(out, 3, _record_bytes(record))
    put_number(out, 4, content.level)
    for source in content.sources:
        put_bytes(out, 5, source.encode())
    if content.frames is not None:
        put_bytes(out, 6, content.frames)
    return bytes(out)


def _record_bytes(record: DebugRecord) -> bytes:
    out = bytearray()
    put_number(out, 1, record.id)
    if record.name:
        put_bytes(out, 2, record.name.encode())
    put_packed(out, 3, record.parents)
    put_packed(out, 4, (each.id for each in record.depends_on))
    put_packed(out, 5, (each.id for each in record.synchronised))
    put_number(out, 6, record.number)
    for key, value in record.attributes.items():
        pair = bytearray()
        put_bytes(pair, 1, key.encode())
        put_bytes(pair, 2, value.encode())
        put_bytes(out, 7, bytes(pair))
    # Kinds stand only at the engines' levels; elsewhere an edge is an operand.
    if record.has_kinds:
        put_packed(out, 9, map(_kind_number, record.depends_on))
        put_packed(out, 10, map(_kind_number, record.synchronised))
    return bytes(out)


def _kind_number(dependency: Dependency) -> int:
    known = _KIND_NUMBERS.get(dependency.kind)
    return known if known is not None else int(dependency.kind)


# --- what a subgraph says ------------------------------------------------------------------------


def debug_records(subgraph: Subgraph, engine: str, level: str = "backend") -> DebugFile:
    """The records of one engine: level "backend" has instructions, "assembly" one record per 64-byte slot.

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
    """The program of an engine in order, slots grouped to the instructions that own them.

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


def module_debug(neff: Neff, parent_file: str, subgraph_index: int = 0) -> DebugFile:
    """The file of a level above the engines that `DebugFile.parent_file` names; empty when there is none.

    Names in the archive carry `_sgNNNNNN`; both cores of an LNC pair may share that of the first.
    """
    if not parent_file:
        return DebugFile()
    for name in (
        f"{_FOLDER}{parent_file}_sg{subgraph_index:06d}",
        f"{_FOLDER}{parent_file}_sg000000",
        f"{_FOLDER}{parent_file}",
    ):
        if name in neff.members:
            return _parse_module(bytes(neff.members[name]), name)
    return DebugFile()


@lru_cache(maxsize=16)
def _parse_module(content: bytes, name: str) -> DebugFile:
    return parse_debug(content, name)


def ancestors(neff: Neff, level: DebugFile, record: DebugRecord) -> Iterator[tuple[DebugFile, DebugRecord]]:
    """The operations a record comes from, level by level: penguin, HLO, framework. Raises FormatError."""
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


# --- checks --------------------------------------------------------------------------------------


def check_debug(neff: Neff) -> tuple[Finding, ...]:
    """The rules `debug.*`: warnings only, because nothing runs by debug records."""
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
