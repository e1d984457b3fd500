"""Values known at compile time. All are immutable: an assignment to an element makes a new value.

Value
 +-- Scalar         numbers, bool, colors, queues, ids, enum values, directions, DSRs
 +-- VoidValue StringValue TypeValue ModuleValue RangeValue
 +-- FunctionValue  a fn or task of a module instance
 +-- ArrayValue StructValue
 +-- PointerValue   into a Storage: a Global, or a Cell (a local variable at compile time)
 +-- DsdValue       mem1d, mem4d, circbuf, fabin, fabout
 +-- FifoValue
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import Span


# Not an abc: its isinstance made compiling a fifth slower (measured).
class Value:
    """Base of all values. `kind` is the type: a field, or one type for all values of a class."""

    __slots__ = ()
    kind: Any

    @property
    def type(self) -> t.Type:
        """The type of the value."""
        return self.kind


@dataclass(frozen=True, slots=True)
class Scalar(Value):
    """A value that is one number.

    `number` is an int for integers, colors, queues, ids, enums, directions and DSRs, a bool for `bool`
    and a float for floats, already rounded to the format.
    """

    kind: t.Type
    number: int | float

    @property
    def integer(self) -> int:
        """The number as an int."""
        return int(self.number)


TRUE = Scalar(t.BOOL, True)
FALSE = Scalar(t.BOOL, False)


@dataclass(frozen=True, slots=True)
class VoidValue(Value):
    """The only value of type void, written `{}`."""

    kind = t.VOID


VOID = VoidValue()


@dataclass(frozen=True, slots=True)
class StringValue(Value):
    """A `comptime_string`: bytes without an end mark."""

    kind = t.COMPTIME_STRING
    text: bytes


@dataclass(frozen=True, slots=True)
class TypeValue(Value):
    """A type as a value."""

    kind = t.TYPE
    denotes: t.Type


@dataclass(frozen=True, slots=True)
class RangeValue(Value):
    """The value of `@range(element, start, stop, step)`."""

    kind = t.RANGE
    element: t.Type
    start: int
    stop: int
    step: int


Elements = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class ArrayValue(Value):
    """An array. `data` is flat (row-major), of dtype `element_dtype(element)`; if that is None, of objects
    (Value).

    `data` is None for an array whose elements are undefined (declared without a value).
    """

    kind: t.ArrayType
    data: Elements

    def element(self, index: int) -> Value:
        """Return an element by its flat index."""
        return from_element(self.kind.element, self.data[index])

    def replaced(self, index: int, value: Value) -> ArrayValue:
        """Return a copy with one element replaced by a value of the element type."""
        data = self.data.copy()
        data[index] = to_element(value)
        return ArrayValue(self.kind, data)


_DTYPES: dict[t.Type, np.dtype[Any]] = {
    t.F16: np.dtype(np.float16),
    t.F32: np.dtype(np.float32),
    t.BF16: np.dtype(np.float32),
    t.CB16: np.dtype(np.float32),
    t.COMPTIME_FLOAT: np.dtype(np.float64),
    t.BOOL: np.dtype(np.bool_),
}


def element_dtype(kind: t.Type) -> np.dtype[Any] | None:
    """Return the numpy dtype in which an array of `kind` is held; None: objects."""
    found = _DTYPES.get(kind)
    if found is not None:
        return found
    if isinstance(kind, t.IntegerType | t.EnumType) and kind.size:
        signed = kind.signed if isinstance(kind, t.IntegerType) else kind.backing.signed
        if kind.size <= 8:
            return np.dtype(f"{'i' if signed else 'u'}{kind.size}")
        return None
    if kind in t.ID_KINDS or kind is t.DIRECTION:
        return np.dtype(np.uint16)
    return None


def from_element(kind: t.Type, item: Any) -> Value:
    """Return the value of an item of an array's data."""
    if isinstance(item, Value):
        return item
    return Scalar(kind, item.item())


def to_element(value: Value) -> Any:
    """Return the item of an array's data that stands for a value."""
    if isinstance(value, Scalar) and element_dtype(value.kind) is not None:
        return value.number
    return value


def make_array(kind: t.ArrayType, elements: list[Value]) -> ArrayValue:
    """Return an array of values that have the element type already."""
    dtype = element_dtype(kind.element)
    if dtype is None:
        data = np.empty(len(elements), dtype=object)
        data[:] = elements
    else:
        data = np.array([to_element(value) for value in elements], dtype=dtype)
    return ArrayValue(kind, data)


def filled_array(kind: t.ArrayType, value: Value) -> ArrayValue:
    """Return an array whose elements are all `value`."""
    dtype = element_dtype(kind.element)
    data = np.empty(kind.count, dtype=object if dtype is None else dtype)
    data.fill(to_element(value))
    return ArrayValue(kind, data)


@dataclass(frozen=True, slots=True, eq=False)
class StructValue(Value):
    """A struct or tuple; `fields` in the order of `kind.names`."""

    kind: t.StructType
    fields: Mapping[str, Value]


def anonymous(fields: Mapping[str, Value]) -> StructValue:
    """Return the value `.{.name = value, ..}`."""
    kind = t.anonymous_struct(tuple(fields), tuple(value.type for value in fields.values()))
    return StructValue(kind, fields)


def tuple_of(elements: list[Value]) -> StructValue:
    """Return the value `.{a, b, ..}`."""
    kind = t.tuple_type(tuple(value.type for value in elements))
    return StructValue(kind, dict(zip(kind.names, elements, strict=True)))


# No abc, as in Value.
class Storage:
    """Something a pointer can point to."""

    __slots__ = ()

    @property
    def storage_type(self) -> t.Type:
        """Type of what is stored."""
        raise NotImplementedError  # every subclass has its own

    @property
    def storage_name(self) -> str:
        """Name for messages and symbols."""
        raise NotImplementedError  # every subclass has its own


@dataclass(frozen=True, slots=True)
class PointerValue(Value):
    """An address whose storage is known, though not the storage's own address.

    path    way from the storage to what is pointed to: flat element indices and field names
    offset  bytes from the start of the storage
    """

    kind: t.PointerType
    target: Storage | None
    path: tuple[int | str, ...] = ()
    offset: int = 0

    def cast(self, kind: t.PointerType) -> PointerValue:
        """Return the same address as another pointer type."""
        return PointerValue(kind, self.target, self.path, self.offset)


@dataclass(frozen=True, slots=True)
class DsdValue(Value):
    """A descriptor with all fields known.

    base         memory kinds: what the base address points to; `offset` counts bytes from there
    extent       elements or wavelets; outermost first for mem4d
    stride       elements; innermost first for mem4d
    wraparound   circbuf: elements from the base to the exclusive end
    queue, color  fabric kinds, -1: not given
    """

    kind: t.Type
    base: PointerValue | None = None
    offset: int = 0
    extent: tuple[int, ...] = (0,)
    stride: tuple[int, ...] = (1,)
    wraparound: int = 0
    queue: int = -1
    color: int = -1
    index_offset: bool = False
    control: bool = False
    control_transform: bool = False
    advance_switch: bool = False
    simd: int = 0
    priority: int = -1
    zero: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class FifoValue(Value):
    """The result of `@allocate_fifo`: row `index` of `PeRegistry.fifos`."""

    kind = t.FIFO
    index: int
    element: t.Type


def integer_of(value: Value, at: Span) -> int:
    """Return the integer that a value is. Raises CslError for anything else."""
    if isinstance(value, Scalar) and isinstance(value.kind, t.IntegerType):
        return value.integer
    raise CslError(at, f"expected an integer, found {value.type}")


def boolean_of(value: Value, at: Span) -> bool:
    """Return the bool that a value is. Raises CslError for anything else."""
    if isinstance(value, Scalar) and value.kind is t.BOOL:
        return bool(value.number)
    raise CslError(at, f"expected a bool, found {value.type}", "compare it: x != 0")


def weight_of(value: Value) -> int:
    """Return the cost of hashing and keeping a value, as a number of statements that take as long; 0 for
    small ones."""
    if isinstance(value, ArrayValue):
        return value.data.size if value.data.dtype == object else value.data.nbytes >> 8
    if isinstance(value, StructValue):
        return value.kind.parts
    return len(value.text) >> 8 if isinstance(value, StringValue) else 0


def too_many_parts(at: Span) -> CslError:
    """Make the error for a struct of too many fields."""
    return CslError(at, f"a struct has more than {t.MAX_STRUCT_PARTS} fields, with those inside of fields")
