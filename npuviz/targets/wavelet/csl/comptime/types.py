"""The types of CSL. A type is one object: equal types are the same object, so `is` compares them.

Type
 +-- SimpleType       void, type, comptime_string, comptime_struct, color, ids, DSD kinds, DSRs, direction ..
 +-- IntegerType      iN, uN, comptime_int
 +-- FloatType        f16, f32, bf16, cb16, comptime_float
 +-- ArrayType        [n]T, [n, m]T
 +-- PointerType      *T, [*]T, with const
 +-- FunctionType     fn(T) R, task (T) R
 +-- StructType       named, anonymous, tuple
 +-- EnumType         enum(u16) {..}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.kernels import isa


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """Base of all types.

    name        as CSL writes it
    size        bytes in PE memory; 0 if values exist only at compile time (or are void)
    alignment   natural alignment in bytes
    value_type  isa.T_... of a value held in a register; -1 if it cannot be in one
    """

    name: str
    size: int = 0
    alignment: int = 1
    value_type: int = -1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class SimpleType(Type):
    """A built-in type without structure."""


@dataclass(frozen=True, slots=True, eq=False)
class IntegerType(Type):
    """`iN` / `uN` for numbers `low` to `high`; `comptime_int` is unbounded and takes no memory."""

    bits: int = 0
    signed: bool = True
    low: int = 0
    high: int = 0

    @property
    def is_unbounded(self) -> bool:
        """Whether this is `comptime_int`; `u0` and `i0` have size 0, too, but hold 0."""
        return self.size == 0

    def wrap(self, value: int) -> int:
        """Return `value` reduced to the width (two's complement); unchanged for comptime_int."""
        if self.size == 0 or self.low <= value <= self.high:
            return value
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value > self.high else value


_INTEGER_WORDS = {
    (1, False): isa.T_U8,
    (1, True): isa.T_I8,
    (2, False): isa.T_U16,
    (2, True): isa.T_I16,
    (4, False): isa.T_U32,
    (4, True): isa.T_I32,
    (8, False): isa.T_U64,
    (8, True): isa.T_I64,
}


@dataclass(frozen=True, slots=True, eq=False)
class FloatType(Type):
    """A float format; `comptime_float` has size 0 and is a double."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrayType(Type):
    """`[dimensions]element` with `count` elements, stored row-major."""

    dimensions: tuple[int, ...] = ()
    element: Type = field(default_factory=lambda: VOID)
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PointerType(Type):
    """`*T` or, with `many`, `[*]T`. A pointer takes 2 bytes."""

    pointee: Type = field(default_factory=lambda: VOID)
    many: bool = False
    const: bool = False

    @property
    def element(self) -> Type:
        """What an index yields: the element of a pointed-to array, else the pointee."""
        if not self.many and isinstance(self.pointee, ArrayType):
            return self.pointee.element
        return self.pointee


@dataclass(frozen=True, slots=True, eq=False)
class FunctionType(Type):
    """`fn(T, U) R` or `task (T) R`. A function value takes 2 bytes."""

    kind: Literal["fn", "task"] = "fn"
    parameters: tuple[Type, ...] = ()
    result: Type = field(default_factory=lambda: VOID)


@dataclass(frozen=True, slots=True, eq=False)
class StructType(Type):
    """A struct, or a union, of which a value holds one field. Field names of a tuple are "0", "1", ..

    origin    the text that defines a named type (struct types are equal only if defined at the same place
              with the same structure); None for anonymous structs and tuples
    defaults  fields that may be left out -> their value (a `Value`)
    offsets   bytes from the start, in order of the fields
    parts     number of fields, counting those inside fields
    bits      for a packed type with fields that are no whole words: (first bit, bits) of each field
    """

    names: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    offsets: tuple[int, ...] = ()
    parts: int = 0
    origin: tree.StructType | None = None
    is_tuple: bool = False
    defaults: Mapping[str, object] = field(default_factory=dict[str, object])
    bits: tuple[tuple[int, int], ...] = ()

    @property
    def is_union(self) -> bool:
        """Whether this is a union: its fields share their memory."""
        return self.origin is not None and self.origin.is_union

    @property
    def is_anonymous(self) -> bool:
        """Whether this is the type of a `.{..}` value."""
        return self.origin is None

    def field_type(self, name: str) -> Type | None:
        """Return the type of a field, None if there is no such field."""
        return self.types[self.names.index(name)] if name in self.names else None

    def field_offset(self, name: str) -> int:
        """Return the byte offset of a field in memory."""
        return self.offsets[self.names.index(name)]


@dataclass(frozen=True, slots=True, eq=False)
class EnumType(Type):
    """`enum(u16) {..}`; `members` maps names to numbers."""

    backing: IntegerType = field(default_factory=lambda: U16)
    members: Mapping[str, int] = field(default_factory=dict[str, int])
    origin: tree.EnumType | None = None


def integer(bits: int, signed: bool) -> IntegerType:
    """Return the type iN or uN; in memory it takes the next power of two of bytes (assumed but for 16 and
    32)."""
    return _integer(bits, bool(signed))


@cache
def _integer(bits: int, signed: bool) -> IntegerType:
    size = 1
    while size * 8 < bits:
        size *= 2
    half = (1 << bits) // 2
    low, high = (-half, max(half - 1, 0)) if signed else (0, (1 << bits) - 1)
    name = f"{'i' if signed else 'u'}{bits}"
    return IntegerType(
        name, size, min(4, size), _INTEGER_WORDS.get((size, signed), -1), bits, signed, low, high
    )


def array(dimensions: tuple[int, ...], element: Type) -> ArrayType:
    """Return the type `[dimensions]element`."""
    return _array(tuple(dimensions), element)


@cache
def _array(dimensions: tuple[int, ...], element: Type) -> ArrayType:
    count = math.prod(dimensions)
    name = f"[{', '.join(map(str, dimensions))}]{element}"
    return ArrayType(name, count * element.size, element.alignment, -1, dimensions, element, count)


def pointer(pointee: Type, many: bool = False, const: bool = False) -> PointerType:
    """Return the type `*pointee` (or `[*]pointee`)."""
    return _pointer(pointee, many, const)


# A cache tells calls apart by how arguments are passed: only calls by position reach the cached functions.


@cache
def _pointer(pointee: Type, many: bool, const: bool) -> PointerType:
    name = f"{'[*]' if many else '*'}{'const ' if const else ''}{pointee}"
    return PointerType(name, 2, 2, isa.T_U16, pointee, many, const)


def function(kind: Literal["fn", "task"], parameters: tuple[Type, ...], result: Type) -> FunctionType:
    """Return the type of a function or task."""
    return _function(kind, parameters, result)


@cache
def _function(kind: Literal["fn", "task"], parameters: tuple[Type, ...], result: Type) -> FunctionType:
    name = f"{kind}({', '.join(map(str, parameters))}) {result}"
    return FunctionType(name, 2, 2, isa.T_U16, kind, parameters, result)


def _place(
    types: tuple[Type, ...], origin: tree.StructType | None = None
) -> tuple[tuple[int, ...], int, int]:
    """Return (offsets, size, alignment) of fields laid out in order, each aligned naturally (assumed).

    Fields of a union begin at the same place; fields of a packed type are aligned to words at most.
    """
    offsets: list[int] = []
    at = 0
    largest = 1
    limit = 2 if origin is not None and origin.layout_kind == "packed" else 16
    if origin is not None and origin.is_union:
        largest = max((min(kind.alignment, limit) for kind in types), default=1)
        size = max((kind.size for kind in types), default=0)
        return (0,) * len(types), (size + largest - 1) // largest * largest, largest
    for kind in types:
        alignment = min(kind.alignment, limit)
        largest = max(largest, alignment)
        at = (at + alignment - 1) // alignment * alignment
        offsets.append(at)
        at += kind.size
    return tuple(offsets), (at + largest - 1) // largest * largest, largest


def anonymous_struct(names: tuple[str, ...], types: tuple[Type, ...]) -> StructType:
    """Return the type of `.{.a = 1}`."""
    return _anonymous(names, types, False)


@cache
def _anonymous(names: tuple[str, ...], types: tuple[Type, ...], is_tuple: bool) -> StructType:
    offsets, size, alignment = _place(types)
    name, parts = _described(names, types)
    return StructType(name, size, alignment, -1, names, types, offsets, parts, is_tuple=is_tuple)


def bit_width(kind: Type) -> int:
    """Return the bits that a field takes in a packed type; -1 for types that cannot be its field."""
    if isinstance(kind, IntegerType):
        return -1 if kind.is_unbounded else kind.bits
    if isinstance(kind, EnumType):
        return kind.backing.bits
    if isinstance(kind, StructType):
        if kind.origin is None or kind.origin.layout_kind != "packed":
            return -1
        return max((first + bits for first, bits in kind.bits), default=8 * kind.size)
    if isinstance(kind, FloatType | PointerType):
        return 8 * kind.size
    return 1 if kind is BOOL else -1


def is_whole_words(kind: Type) -> bool:
    """Return whether a packed field takes as many bits as its words in memory have."""
    return kind.size % 2 == 0 and bit_width(kind) == 8 * kind.size > 0


def _bits_of(types: tuple[Type, ...], origin: tree.StructType) -> tuple[tuple[int, int], ...]:
    """Return (first bit, bits) of the fields of a packed type, least significant first; () if bytes place
    them."""
    if origin.layout_kind != "packed" or all(map(is_whole_words, types)):
        return ()
    found: list[tuple[int, int]] = []
    at = 0
    for kind in types:
        width = bit_width(kind)
        found.append((at, width))
        at += 0 if origin.is_union else width
    return tuple(found)


def _place_bits(bits: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], int, int]:
    """Place fields as `_place` does, for a type held by an integer of all its bits; offsets are those of
    words."""
    holder = integer(max(1, *(first + width for first, width in bits)), False)
    return tuple(first // 16 * 2 for first, _ in bits), holder.size, min(holder.alignment, 2)


MAX_STRUCT_PARTS = 100_000
"""Most fields of a struct, counting those inside fields: a struct of structs of structs grows fast."""

_MAX_NAME = 300


def _described(names: tuple[str, ...], types: tuple[Type, ...]) -> tuple[str, int]:
    """Return (name, number of parts) of a struct without a name."""
    inner = ", ".join(f"{name}: {kind}" for name, kind in zip(names, types, strict=True))
    if len(inner) > _MAX_NAME:
        inner = inner[:_MAX_NAME] + ".."
    parts = sum(1 + (kind.parts if isinstance(kind, StructType) else 0) for kind in types)
    return f"struct {{ {inner} }}", parts


def tuple_type(types: tuple[Type, ...]) -> StructType:
    """Return the type of `.{..}` without names."""
    return _anonymous(_numbers(len(types)), types, True)


@cache
def _numbers(count: int) -> tuple[str, ...]:
    return tuple(map(str, range(count)))


Known = dict[tuple[object, ...], Type]
"""Named types of one compilation, so that the same text with the same parts is the same object."""


def named_struct(
    known: Known,
    origin: tree.StructType,
    types: tuple[Type, ...],
    label: str = "",
    defaults: Mapping[str, object] | None = None,
) -> StructType:
    """Return the type that `struct {..}` at `origin` denotes with these field types."""
    key = (origin, types)
    found = known.get(key)
    if not isinstance(found, StructType):
        bits = _bits_of(types, origin)
        offsets, size, alignment = _place_bits(bits) if bits else _place(types, origin)
        names = tuple(field.name for field in origin.fields)
        text, parts = _described(names, types)
        found = StructType(
            *(label or text, size, alignment, -1, names, types, offsets, parts, origin),
            defaults=dict(defaults or {}),
            bits=bits,
        )
        known[key] = found
    return found


def enumeration(
    known: Known, origin: tree.EnumType, backing: IntegerType, members: Mapping[str, int], label: str
) -> EnumType:
    """Return the type that `enum {..}` at `origin` denotes."""
    key = (origin, backing, tuple(members.items()))
    found = known.get(key)
    if not isinstance(found, EnumType):
        name = label or f"enum({backing})"
        found = known[key] = EnumType(
            name, backing.size, backing.alignment, backing.value_type, backing, dict(members), origin
        )
    return found


VOID = SimpleType("void")
COMPTIME_INT = IntegerType("comptime_int")
COMPTIME_FLOAT = FloatType("comptime_float")
F16 = FloatType("f16", 2, 2, isa.T_F16)
F32 = FloatType("f32", 4, 4, isa.T_F32)
BF16 = FloatType("bf16", 2, 2, isa.T_BF16)
CB16 = FloatType("cb16", 2, 2, isa.T_CB16)
U8 = integer(8, False)
I8 = integer(8, True)
U16 = integer(16, False)
I16 = integer(16, True)
U32 = integer(32, False)
I32 = integer(32, True)
U64 = integer(64, False)
I64 = integer(64, True)
BOOL = SimpleType("bool", 1, 1, isa.T_U8)
NORETURN = SimpleType("noreturn")
TYPE = SimpleType("type")
ANYTYPE = SimpleType("anytype")
ANYOPAQUE = SimpleType("anyopaque")
COMPTIME_STRING = SimpleType("comptime_string")
COMPTIME_STRUCT = SimpleType("comptime_struct")
MODULE = SimpleType("imported_module")
RANGE = SimpleType("range")
DIRECTION = SimpleType("direction", 2, 2, isa.T_U16)
COLOR = SimpleType("color", 2, 2, isa.T_U16)
INPUT_QUEUE = SimpleType("input_queue", 2, 2, isa.T_U16)
OUTPUT_QUEUE = SimpleType("output_queue", 2, 2, isa.T_U16)
LOCAL_TASK_ID = SimpleType("local_task_id", 2, 2, isa.T_U16)
DATA_TASK_ID = SimpleType("data_task_id", 2, 2, isa.T_U16)
CONTROL_TASK_ID = SimpleType("control_task_id", 2, 2, isa.T_U16)
UT_ID = SimpleType("ut_id", 2, 2, isa.T_U16)
MEM1D = SimpleType("mem1d_dsd", 8, 4, isa.T_WORD)
MEM4D = SimpleType("mem4d_dsd", 8, 4, isa.T_WORD)
CIRCBUF = SimpleType("circbuf_dsd", 8, 4, isa.T_WORD)
FABIN = SimpleType("fabin_dsd", 8, 4, isa.T_WORD)
FABOUT = SimpleType("fabout_dsd", 8, 4, isa.T_WORD)
FIFO = SimpleType("fifo", 8, 4, isa.T_WORD)
DSR_DEST = SimpleType("dsr_dest", 8, 4, isa.T_WORD)
DSR_SRC0 = SimpleType("dsr_src0", 8, 4, isa.T_WORD)
DSR_SRC1 = SimpleType("dsr_src1", 8, 4, isa.T_WORD)
DSR_FIFO_DEST = SimpleType("dsr_fifo_dest", 8, 4, isa.T_WORD)
DSR_FIFO_SRC1 = SimpleType("dsr_fifo_src1", 8, 4, isa.T_WORD)
XDSR = SimpleType("xdsr")
SR = SimpleType("sr")

DSD_KINDS: dict[Type, int] = {
    MEM1D: isa.KIND_MEM1D,
    MEM4D: isa.KIND_MEM4D,
    CIRCBUF: isa.KIND_CIRCBUF,
    FABIN: isa.KIND_FABIN,
    FABOUT: isa.KIND_FABOUT,
    FIFO: isa.KIND_FIFO,
}
"""DSD type -> isa.KIND_..."""

DSR_FILES: dict[Type, int] = {DSR_DEST: 0, DSR_SRC0: 1, DSR_SRC1: 2, DSR_FIFO_DEST: 0, DSR_FIFO_SRC1: 2}
"""DSR type -> register file."""

ID_KINDS: dict[Type, int] = {
    LOCAL_TASK_ID: isa.ID_LOCAL,
    DATA_TASK_ID: isa.ID_DATA,
    CONTROL_TASK_ID: isa.ID_CONTROL,
    COLOR: isa.ID_COLOR,
    INPUT_QUEUE: isa.ID_INPUT_QUEUE,
    OUTPUT_QUEUE: isa.ID_OUTPUT_QUEUE,
    UT_ID: isa.ID_UT,
}
"""Types whose values are ids, such as colors, queues and tasks -> isa.ID_..."""

_NAMED_TYPES: tuple[Type, ...] = (
    *(COMPTIME_INT, COMPTIME_FLOAT, F16, F32, BF16, CB16, BOOL, VOID, TYPE, ANYTYPE, ANYOPAQUE),
    *(COMPTIME_STRING, COMPTIME_STRUCT, MODULE, DIRECTION),
    *(COLOR, INPUT_QUEUE, OUTPUT_QUEUE, LOCAL_TASK_ID, DATA_TASK_ID, CONTROL_TASK_ID, UT_ID),
    *(MEM1D, MEM4D, CIRCBUF, FABIN, FABOUT, DSR_DEST, DSR_SRC0, DSR_SRC1, DSR_FIFO_DEST, DSR_FIFO_SRC1),
    *(XDSR, SR),
)
PREDEFINED: dict[str, Type] = {str(kind): kind for kind in _NAMED_TYPES}
"""Names that denote types everywhere; iN and uN are found by `named_type`."""

MAX_INTEGER_BITS = 16_777_215
_COMPTIME_ONLY = frozenset(
    (COMPTIME_INT, COMPTIME_FLOAT, COMPTIME_STRING, COMPTIME_STRUCT, TYPE, MODULE, RANGE, XDSR, SR, ANYTYPE)
)


def named_type(name: str) -> Type | None:
    """Return the type that a predefined name denotes (`u16`, `f32`, `color`, `i48`), None for other names."""
    found = PREDEFINED.get(name)
    if (
        found is None
        and len(name) > 1
        and name[0] in "iu"
        and name[1:].isdecimal()
        and (name[1] != "0" or len(name) == 2)
    ):
        bits = int(name[1:]) if len(name) < 10 else MAX_INTEGER_BITS + 1
        if bits <= MAX_INTEGER_BITS:
            found = PREDEFINED[name] = integer(bits, name[0] == "i")
    return found


def is_comptime_only(kind: Type) -> bool:
    """Return whether values of a type never exist at run time."""
    if kind in _COMPTIME_ONLY:
        return True
    if isinstance(kind, ArrayType):
        return is_comptime_only(kind.element)
    if isinstance(kind, StructType):
        return any(is_comptime_only(part) for part in kind.types)
    return False


def is_number(kind: Type) -> bool:
    """Return whether a type is an integer or a float, sized or not."""
    return isinstance(kind, IntegerType | FloatType)
