"""Decode and encode the debug records of a NEFF (reference 4.8).

They say nothing about opcodes, operands, values or time. No schema is published: what the numbers
mean is measured on a real NEFF or, for the kinds of dependencies, inferred.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from npuviz.base.errors import FormatError
from npuviz.base.names import is_number
from npuviz.formats.neff.model import Payload
from npuviz.formats.neff.protobuf import packed, put_bytes, put_number, put_packed, wire_fields

KINDS = {1: "accumulate", 2: "anti", 3: "output", 4: "flow"}
"""Number in the file -> kind of a dependency: accumulation into the same PSUM result, write after
read, write after write, producer to consumer (inferred)."""
LEVELS = {1: "PE", 2: "Activation", 3: "Pool", 4: "DMA", 5: "DVE", 6: "SP"}
_KIND_NUMBERS = {name: number for number, name in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Dependency:
    """A record that has to happen first, by `id`; `kind` is flow, anti, output, accumulate, or its number."""

    id: int
    kind: str = "flow"


@dataclass(frozen=True, slots=True)
class DebugRecord:
    """One record: an instruction, operation or 64-byte slot of its level.

    `parents` are ids one level up. `synchronised` are the dependencies that have a semaphore of their
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
        """Return (path on the build host, line) of a record, None if it has none."""
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
        """Return the records by id."""
        return {record.id: record for record in self.records}


def _is_number(text: str) -> bool:
    return is_number(text, 9)


# --- decoding ----------------------------------------------------------------------------------


def parse_debug(content: Payload, file: str) -> DebugFile:
    """Parse a .dbg member. Raises FormatError with the byte that is invalid."""
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
    """Join ids with their kinds; operands at the higher levels have no kinds and count as flow."""
    if not ids:
        return ()
    padded = (*kinds[: len(ids)], *(4,) * (len(ids) - len(kinds)))
    return tuple(Dependency(each, KINDS.get(kind, str(kind))) for each, kind in zip(ids, padded, strict=True))


def _text(value: int | bytes, file: str) -> str:
    # Names of tensors may contain any bytes; they are shown, but never compared with other files.
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
    """Encode a .dbg member; what `parse_debug` read from a real file is written back byte for byte."""
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
    # Only the engines' levels have kinds; elsewhere an edge is an operand.
    if record.has_kinds:
        put_packed(out, 9, map(_kind_number, record.depends_on))
        put_packed(out, 10, map(_kind_number, record.synchronised))
    return bytes(out)


def _kind_number(dependency: Dependency) -> int:
    known = _KIND_NUMBERS.get(dependency.kind)
    return known if known is not None else int(dependency.kind)
