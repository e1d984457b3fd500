"""Define records: each word of a row of the state gets a name, so that kernels read `core.turn`.

    CORE = Record(
        "core",
        turn="cycle of the last turn",
        ring=Words(8, "entries of the queue, oldest first"),
        streams=Rows(STREAM, 5, "in the order of STREAM_"),
    )

Use them in a kernel as in plain Python; `words` is an array, a bare pointer or a row:

    core = CORE(words, word)            the row that begins at that word
    core = CORE(words, first, number)   row `number` of the table that begins at word `first`
    core.turn, core.ring[i], core.streams[n].total, core[i]
    CORE.turn, CORE.num_words           the position of a field in its row, and the size of a row

A compiled row is a bare pointer with a type: a field costs one load, no references are counted, and no
size of a table enters the type. An uncompiled row shows the same words of an array.
"""

import operator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from llvmlite import ir as _ir
from numba import extending as _extending
from numba import types as _types
from numba.core import imputils as _imputils
from numba.core import typeconv as _typeconv
from numba.core.typing import templates as _templates

from npuviz.base.kernels.twins import stand_in
from npuviz.sim.parts.twin_row_kernels import twin_of_record, word_of_row, words_of_row

ir: Any = _ir
types: Any = _types
templates: Any = _templates
typeconv: Any = _typeconv
numba: Any = _extending
lower_constant: Any = _imputils.lower_constant
infer_global: Any = templates.infer_global

# --- declaring -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Words:
    """A field of several words: `row.name[i]`."""

    count: int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """A field of several rows of another record: `row.name[i].field`."""

    record: "Record"
    count: int
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Rest:
    """The last field: the words after the row, of which its owner decides the number: `row.name[i]`."""

    doc: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """Unused words; the name of such a field begins with `_`."""

    count: int


@dataclass(frozen=True, slots=True)
class Same:
    """Another name for the words of an earlier field, for rows in which they mean something else."""

    field: str
    doc: str = ""


Kind = str | Words | Rows | Rest | Gap | Same
_TAKEN = ("title", "fields", "num_words")


@dataclass(frozen=True, slots=True)
class Field:
    """A field and its place in a row.

    count   number of words; 0 for a `Rest`
    record  record of its rows, None if it has words
    """

    name: str
    first: int
    count: int
    doc: str
    is_single: bool
    record: "Record | None" = None


class Record:
    """Fields of a row in the order of their words: `name="what it is"`, or Words, Rows, Rest, Gap, Same.

    align     the size of a row is a multiple of this many words
    at_least  least number of words of a row
    """

    def __init__(self, title: str, *, align: int = 1, at_least: int = 0, **fields: Kind) -> None:
        self.title = title
        self.fields: dict[str, Field] = {}
        self._given = (title, align, at_least, tuple(fields.items()))
        size, is_open = 0, False
        for name, kind in fields.items():
            if is_open:
                raise ValueError(f"record {title}: {name} stands behind the rest of the row")
            if name in _TAKEN or hasattr(Record, name) or hasattr(Row, name):
                raise ValueError(f"record {title}: {name} cannot be the name of a field")
            if isinstance(kind, Same):
                self.fields[name] = replace(self.fields[kind.field], name=name, doc=kind.doc)
                continue
            is_open = isinstance(kind, Rest)
            field = _field(name, kind, size)
            size += field.count
            if isinstance(kind, Gap) != name.startswith("_"):
                raise ValueError(f"record {title}: {name} should be a gap and begin with _, or neither")
            if not isinstance(kind, Gap):
                self.fields[name] = field
        self.num_words = -(-max(size, at_least) // align) * align
        if is_open and self.num_words != size:
            raise ValueError(f"record {title}: a row that goes on cannot be padded")
        places = [
            (f.name, f.first, f.count, f.is_single, f.record and repr(f.record)) for f in self.fields.values()
        ]
        digest = blake2b(repr((places, self.num_words)).encode(), digest_size=4).hexdigest()
        self._key = f"{title} {digest}"
        self._row = _make_row_class(self)
        self._twin: Any = None

    def __getattr__(self, name: str) -> int:
        """Return the position of a field in its row."""
        fields: dict[str, Field] = self.__dict__.get("fields", {})
        if name not in fields:
            raise AttributeError(f"record {self.__dict__.get('title')} has no field {name}")
        return fields[name].first

    def __call__(self, words: Any, first: int = 0, number: int = 0) -> Any:
        """Return row `number` of the table at word `first`, counted in an array or from the first word of a
        row."""
        return self._row(words, first + number * self.num_words)

    @property
    def for_twins(self) -> Any:
        """The function that the twins of kernels see instead of the record."""
        if self._twin is None:
            self._twin = twin_of_record(self)
        return self._twin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, self._given

    def __repr__(self) -> str:
        return self._key

    def column_of(self, words: np.ndarray, first: int, count: int, name: str) -> np.ndarray:
        """Return a field of all rows of a table (a view): (count,), or (count, n) for a field of several
        words."""
        field = self.fields[name]
        table = words[first : first + count * self.num_words].reshape(count, self.num_words)
        if field.is_single:
            return table[:, field.first]
        return table[:, field.first : field.first + field.count]

    def make(self, **values: Any) -> np.ndarray:
        """Make a row with these values, else zeros, (num_words,) int64."""
        words = np.zeros(self.num_words, np.int64)
        for name, value in values.items():
            field = self.fields[name]
            words[field.first : field.first + field.count] = value
        return words

    def table(self) -> str:
        """Return the layout as text: first word, number of words, name, meaning."""
        lines = [f"{self.title}: {self.num_words} words"]
        for field in self.fields.values():
            doc = f"{field.doc} [{field.record.title}]" if field.record else field.doc
            lines.append(f"{field.first:4} {field.count or '..':>3}  {field.name:16} {doc}".rstrip())
        return "\n".join(lines)


def _field(name: str, kind: str | Words | Rows | Rest | Gap, first: int) -> Field:
    if isinstance(kind, str):
        return Field(name, first, 1, kind, is_single=True)
    if isinstance(kind, Rows):
        return Field(name, first, kind.count * kind.record.num_words, kind.doc, False, kind.record)
    if isinstance(kind, Rest):
        return Field(name, first, 0, kind.doc, is_single=False)
    return Field(name, first, kind.count, kind.doc if isinstance(kind, Words) else "", is_single=False)


def _rebuild(title: str, align: int, at_least: int, fields: tuple[tuple[str, Kind], ...]) -> Record:
    return Record(title, align=align, at_least=at_least, **dict(fields))


def word_of(words: Any, row: Any) -> int:
    """Return the word of `words` (an array, a pointer or a row) at which a row begins."""
    return _first_word(row) - _first_word(words)


def words_of(row: Any) -> Any:
    """Return a bare pointer to the first word of a row, for kernels that take words only."""
    return row.all_words[row.first_word :] if isinstance(row, Row) else row


def _first_word(words: Any) -> int:
    return words.first_word if isinstance(words, Row) else 0


stand_in(word_of, word_of_row)
stand_in(words_of, words_of_row)


# --- rows of plain Python --------------------------------------------------------------------------------


class Row:
    """A row of an array, for observers and for uncompiled kernels; each record has a class of its own."""

    __slots__ = ("all_words", "first_word")

    def __init__(self, words: Any, first: int) -> None:
        if isinstance(words, Row):
            words, first = words.all_words, words.first_word + first
        self.all_words, self.first_word = words, first

    def __getitem__(self, index: int) -> Any:
        return self.all_words[self.first_word + index]

    def __setitem__(self, index: int, value: Any) -> None:
        self.all_words[self.first_word + index] = value


class _Table:
    """Rows one after the other, in plain Python."""

    __slots__ = ("_first", "_record", "_words")

    def __init__(self, record: Record, words: Any, first: int) -> None:
        self._record, self._words, self._first = record, words, first

    def __getitem__(self, number: int) -> Any:
        return self._record(self._words, self._first, number)


def _make_row_class(record: Record) -> Any:
    members = {field.name: _member(field) for field in record.fields.values()}
    return type("Row", (Row,), {**members, "__slots__": (), "__doc__": record.table()})


def _member(field: Field) -> property:
    at, end, record = field.first, field.first + field.count, field.record

    def word(row: Row) -> Any:
        return row.all_words[row.first_word + at]

    def store(row: Row, value: Any) -> None:
        row.all_words[row.first_word + at] = value

    def words(row: Row) -> Any:
        return row.all_words[row.first_word + at : row.first_word + end if end > at else None]

    def rows(row: Row) -> Any:
        assert record is not None
        return _Table(record, row.all_words, row.first_word + at)

    if field.is_single:
        return property(word, store, doc=field.doc)
    return property(rows if record else words, doc=field.doc)


# --- rows of compiled code -------------------------------------------------------------------------------

_WORD = ir.IntType(64)
_POINTER = types.CPointer(types.int64)


class RowType(types.Type):
    """The type of a compiled row: equal for records with the same title and layout, in every process."""

    def __init__(self, record: Record) -> None:
        self.record = record
        super().__init__(f"row of {record!r}")

    def can_convert_to(self, _context: Any, other: Any) -> Any:
        """Let a row be passed where a pointer to words is expected."""
        return typeconv.Conversion.safe if other == _POINTER else None


class TableType(types.Type):
    """The type of a field of several rows in a compiled row."""

    def __init__(self, record: Record) -> None:
        self.record = record
        super().__init__(f"rows of {record!r}")


class RecordType(types.Callable):
    """The type of a record that a kernel names: calling it gives rows; its attributes are positions."""

    def __init__(self, record: Record) -> None:
        self.record = record
        super().__init__(f"record {record!r}")

    def get_call_type(self, _context: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call that takes a row at the first word, at a word, or by number; None
        for others."""
        if kws or not 1 <= len(args) <= 3 or not _is_base(args[0]):
            return None
        if not all(isinstance(each, types.Integer) for each in args[1:]):
            return None
        return templates.signature(RowType(self.record), args[0], *[types.int64] * (len(args) - 1))

    def get_call_signatures(self) -> Any:
        """Return no signatures: they depend on the arguments."""
        return [], True

    def get_impl_key(self, _signature: Any) -> Any:
        """Return the key under which all records' calls are compiled."""
        return Record


def _is_base(words: Any) -> bool:
    """Whether rows can be taken from an object of this type."""
    if isinstance(words, types.Array):
        return words.dtype == types.int64 and words.ndim == 1 and words.layout == "C"
    return isinstance(words, RowType) or words == _POINTER


def _pointer(context: Any, builder: Any, kind: Any, words: Any) -> Any:
    """Return the bare pointer to the first of the words."""
    return context.make_array(kind)(context, builder, words).data if isinstance(kind, types.Array) else words


@numba.typeof_impl.register(Record)
def _typeof_record(record: Record, _context: Any) -> Any:
    return RecordType(record)


class _PointerModel(numba.models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _WORD.as_pointer())


numba.register_model(RowType)(_PointerModel)
numba.register_model(TableType)(_PointerModel)
numba.register_model(RecordType)(numba.models.OpaqueModel)


@numba.lower_cast(RowType, types.CPointer)
def _row_to_pointer(_context: Any, _builder: Any, _from: Any, _to: Any, row: Any) -> Any:
    return row


@numba.infer_getattr
class _RecordAttributes(templates.AttributeTemplate):
    key = RecordType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        """Return the type of a position; None for an unknown name, which numba then reports with the line."""
        return types.int64 if name == "num_words" or name in kind.record.fields else None


@numba.lower_getattr_generic(RecordType)
def _position(_context: Any, _builder: Any, kind: Any, _value: Any, name: str) -> Any:
    return _WORD(getattr(kind.record, name))


@lower_constant(RecordType)
def _record_constant(context: Any, _builder: Any, _kind: Any, _value: Any) -> Any:
    return context.get_dummy_value()


@numba.lower_builtin(Record, types.VarArg(types.Any))
def _call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    place = _pointer(context, builder, signature.args[0], args[0])
    if len(args) > 1:
        place = builder.gep(place, [args[1]])
    if len(args) > 2:
        size = _WORD(signature.return_type.record.num_words)
        place = builder.gep(place, [builder.mul(args[2], size)])
    return place


@numba.infer_getattr
class _RowAttributes(templates.AttributeTemplate):
    key = RowType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        """Return the type of a field: a word, a pointer to words, or a table; None for an unknown name."""
        field = kind.record.fields.get(name)
        if field is None:
            return None
        if field.record is not None:
            return TableType(field.record)
        return types.int64 if field.is_single else _POINTER


@numba.lower_getattr_generic(RowType)
def _load_field(_context: Any, builder: Any, kind: Any, row: Any, name: str) -> Any:
    field = kind.record.fields[name]
    place = builder.gep(row, [_WORD(field.first)])
    return builder.load(place) if field.is_single else place


@numba.lower_setattr_generic(RowType)
def _store_field(context: Any, builder: Any, signature: Any, args: Any, name: str) -> Any:
    row, given = signature.args
    field = row.record.fields[name]
    value = context.cast(builder, args[1], given, types.int64)
    builder.store(value, builder.gep(args[0], [_WORD(field.first)]))


@infer_global(operator.getitem)
class _GetItem(templates.AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of `row[i]`, a word, or of `table[i]`, a row."""
        words, index = args
        if isinstance(index, types.Integer):
            if isinstance(words, RowType):
                return templates.signature(types.int64, words, types.int64)
            if isinstance(words, TableType):
                return templates.signature(RowType(words.record), words, types.int64)
        return None


@infer_global(operator.setitem)
class _SetItem(templates.AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature of `row[i] = word`."""
        words, index, _value = args
        if isinstance(words, RowType) and isinstance(index, types.Integer):
            return templates.signature(types.none, words, types.int64, types.int64)
        return None


@numba.lower_builtin(operator.getitem, RowType, types.int64)
def _load_item(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
    return builder.load(builder.gep(args[0], [args[1]]))


@numba.lower_builtin(operator.setitem, RowType, types.int64, types.int64)
def _store_item(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
    builder.store(args[2], builder.gep(args[0], [args[1]]))
    return context.get_dummy_value()


@numba.lower_builtin(operator.getitem, TableType, types.int64)
def _row_of_table(_context: Any, builder: Any, signature: Any, args: Any) -> Any:
    size = _WORD(signature.args[0].record.num_words)
    return builder.gep(args[0], [builder.mul(args[1], size)])


@numba.type_callable(word_of)
def _type_word_of(_context: Any) -> Any:
    def typer(words: Any, row: Any) -> Any:
        return types.int64 if _is_base(words) and isinstance(row, RowType) else None

    return typer


@numba.lower_builtin(word_of, types.Any, RowType)
def _word_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    base = _pointer(context, builder, signature.args[0], args[0])
    distance = builder.sub(builder.ptrtoint(args[1], _WORD), builder.ptrtoint(base, _WORD))
    return builder.ashr(distance, _WORD(3), flags=["exact"])


@numba.type_callable(words_of)
def _type_words_of(_context: Any) -> Any:
    def typer(row: Any) -> Any:
        return _POINTER if _is_base(row) else None

    return typer


@numba.lower_builtin(words_of, types.Any)
def _words_of(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return _pointer(context, builder, signature.args[0], args[0])
