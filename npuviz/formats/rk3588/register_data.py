"""Load the register data file of the RK3588 into records."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import Any

from npuviz.base.errors import FormatError

DATA_FILE = "registers.toml"
KINDS = ("count", "minus1", "signed", "hex", "flag", "address", "address16")
MARKS = {"D": "documented", "M": "measured", "I": "inferred"}
TARGETS_WITHOUT_REGISTER = (0x0000, 0x0041, 0x0081)
"""Targets of words that write no register of a window: empty, marker, enables (source: D TRM, XML)."""


@dataclass(frozen=True, slots=True)
class Source:
    """Source of a fact: mark D, M or I, and the keys of the public sources."""

    mark: str
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"{MARKS[self.mark]}: {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class Field:
    """Bits `high` to `low` of a register.

    `kind` is one of KINDS or "enum"; `names` are the texts for the codes of an enumeration. A reserved field
    is a gap between named fields; its meaning is unknown.
    """

    name: str
    high: int
    low: int
    kind: str
    unit: str
    meaning: str
    source: Source
    names: Mapping[int, str]
    reserved: bool = False

    @property
    def bits(self) -> str:
        """The bits as text, "9:7" or "30"."""
        return f"{self.high}:{self.low}" if self.high != self.low else str(self.high)

    @property
    def width(self) -> int:
        """Number of bits."""
        return self.high - self.low + 1

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value that can be encoded."""
        if self.kind == "signed":
            return -(1 << self.width - 1), (1 << self.width - 1) - 1
        return 0, (1 << self.width) - 1

    def extract(self, value: int) -> int:
        """Return the field's value in a register value."""
        held = value >> self.low & (1 << self.width) - 1
        if self.kind == "signed" and held >> self.width - 1:
            held -= 1 << self.width
        return held

    def place(self, held: int, where: str) -> int:
        """Return the field's bits in a register value. Raises FormatError if `held` does not fit."""
        low, high = self.limits
        if not low <= held <= high:
            raise FormatError(
                where,
                field=f"{self.name} (bits {self.bits})",
                expected=f"{low} to {high}",
                found=str(held),
                hint="sizes over the limit of a field need smaller tasks",
            )
        return (held & (1 << self.width) - 1) << self.low

    def text(self, held: int) -> str:
        """Return a field's value as text."""
        match self.kind:
            case "enum":
                name = self.names.get(held)
                return name if name is not None else f"{held} (unknown code)"
            case "flag":
                return "on" if held else "off"
            case "hex":
                return f"{held:#x}"
            case "address":
                return f"{held:#x}"
            case "address16":
                return f"{held << 4:#x}"
            case "minus1":
                return f"{held + 1} {self.unit}".rstrip()
            case _:
                return f"{held} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Register:
    """One 32-bit register; `fields` cover all bits, highest first, gaps as reserved fields."""

    block: str
    name: str
    offset: int
    meaning: str
    source: Source
    fields: tuple[Field, ...]

    @property
    def where(self) -> str:
        """The register's name in messages, with its offset."""
        return f"register {self.block} {self.name} ({self.offset:#06x})"

    def field(self, name: str) -> Field:
        """Return the field of this name. Raises FormatError if there is none."""
        for each in self.fields:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.fields if not each.reserved)
        raise FormatError(
            self.where,
            field="field",
            expected=f"one of {names}",
            found=name,
        )

    def encode(self, held: Mapping[str, int]) -> int:
        """Return the register value with these fields. Raises FormatError as `Field.place` and `field` do."""
        value = 0
        for name, each in held.items():
            value |= self.field(name).place(each, self.where)
        return value


@dataclass(frozen=True, slots=True)
class Block:
    """A 4 KB window of registers; `target` is its code in streams, None if streams cannot write it."""

    name: str
    target: int | None
    base: int
    meaning: str
    source: Source
    registers: Mapping[str, Register]
    by_offset: Mapping[int, Register]


def load_blocks() -> dict[str, Block]:
    """Load the blocks of the data file, by name.

    Raises FormatError if the file contradicts itself: two fields on one bit, two registers at one
    offset, a register outside of its window, an unknown encoding or source.
    """
    text = resources.files("npuviz.formats.rk3588").joinpath(DATA_FILE).read_text("utf-8")
    data = tomllib.loads(text)
    return {name: _block(name, entry, data) for name, entry in data["blocks"].items()}


def _block(name: str, entry: dict[str, Any], data: dict[str, Any]) -> Block:
    source = _source(entry["source"], name, data)
    base = entry["base"]
    found: dict[str, Register] = {}
    by_offset: dict[int, Register] = {}
    for register_name, offset, record in _records(entry, data, base):
        register = Register(
            name,
            register_name,
            offset,
            record.get("meaning", ""),
            _source(record["source"], register_name, data) if "source" in record else source,
            _fields(f"{name} {register_name}", record, data, source),
        )
        if offset in by_offset or register_name in found or not base <= offset < base + 0x1000:
            raise _wrong(f"{name} {register_name}", "a free offset in the window", f"{offset:#06x}")
        found[register_name] = register
        by_offset[offset] = register
    return Block(
        name,
        entry.get("target"),
        base,
        entry["meaning"],
        source,
        MappingProxyType(dict(sorted(found.items(), key=lambda item: item[1].offset))),
        MappingProxyType(by_offset),
    )


def _records(
    entry: dict[str, Any], data: dict[str, Any], base: int
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    shared = data["common"] if entry.get("common") else data[entry["like"]] if "like" in entry else {}
    for name, record in shared.items():
        yield name, base + record["offset"], record
    for name, record in entry.get("registers", {}).items():
        yield name, record["offset"], record
    for name, record in entry.get("series", {}).items():
        for index in range(record["count"]):
            yield f"{name}{index}", record["offset"] + 4 * index, record


def _fields(where: str, record: dict[str, Any], data: dict[str, Any], source: Source) -> tuple[Field, ...]:
    rows = data["shared"][record["like"]]["fields"] if "like" in record else record["fields"]
    own = _source(record["source"], where, data) if "source" in record else source
    named = sorted((_field(where, row, data, own) for row in rows), key=lambda field: -field.high)
    fields: list[Field] = []
    top = 31
    for field in named:
        if field.high > top or field.low > field.high:
            raise _wrong(f"{where}, {field.name}", "bits of its own", field.bits)
        if field.high < top:
            fields.append(_gap(top, field.high + 1, own))
        fields.append(field)
        top = field.low - 1
    if top >= 0:
        fields.append(_gap(top, 0, own))
    return tuple(fields)


def _gap(high: int, low: int, source: Source) -> Field:
    return Field(f"reserved_{high}_{low}", high, low, "hex", "", "not documented", source, {}, reserved=True)


def _field(where: str, row: list[str], data: dict[str, Any], source: Source) -> Field:
    bits, name, encoding, meaning, own = [*row, "", ""][:5] if len(row) < 5 else row
    high, _, low = bits.partition(":")
    kind, _, unit = encoding.partition(" ")
    names: dict[int, str] = {}
    if kind not in KINDS:
        if kind not in data["enums"]:
            raise _wrong(f"{where}, {name}", "a known encoding", kind)
        names = {int(code): text for code, text in data["enums"][kind].items()}
        kind = "enum"
    return Field(
        name,
        int(high),
        int(low or high),
        kind,
        unit,
        meaning,
        _source(own, where, data) if own else source,
        MappingProxyType(names),
    )


def _source(text: str, where: str, data: dict[str, Any]) -> Source:
    mark, _, keys = text.partition(" ")
    split = tuple(keys.split(", "))
    if mark not in MARKS or not set(split) <= set(data["sources"]):
        raise _wrong(where, "a mark and known source keys", text)
    return Source(mark, split)


def _wrong(field: str, expected: str, found: str) -> FormatError:
    return FormatError(DATA_FILE, field=field, expected=expected, found=found)
