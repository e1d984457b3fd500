"""Make rows for the plain twins of kernels: typed places in memory, as fast as Python allows.

A row is a ctypes array of words, unbounded like a pointer, whose class has a descriptor for every field;
ctypes reads and writes them, and cuts numbers to 64 bits as compiled code does. The caller of the twin keeps
the memory alive.
"""

from ctypes import Structure, addressof, c_int64
from typing import Any

_WORD_BYTES = 8
_ENDLESS = 1 << 40
_Words: Any = c_int64 * _ENDLESS


def twin_of_record(record: Any) -> Any:
    """Return the function that twins see instead of a record: calling it gives rows; its attributes are
    positions.

    It is a function because calling one costs less than calling an object.
    """
    members = {name: _descriptor(field) for name, field in record.fields.items()}
    at: Any = type(record.title, (_Words,), members).from_address
    size = _WORD_BYTES * record.num_words

    def row(words: Any, first: int = 0, number: int = 0) -> Any:
        try:
            return at(addressof(words) + _WORD_BYTES * first + size * number)
        except TypeError:  # an array
            return at(words.ctypes.data + _WORD_BYTES * first + size * number)

    positions = {field.name: field.first for field in record.fields.values()}
    vars(row).update(positions, num_words=record.num_words)
    vars(row)["_inner"] = type(record.title, (c_int64 * record.num_words,), members)
    return row


def _descriptor(field: Any) -> Any:
    """Return a descriptor that reads and writes a field of any object that begins where the row does."""
    if field.is_single:
        kind: Any = c_int64
    elif field.record is not None:
        kind = vars(field.record.for_twins)["_inner"] * (field.count // field.record.num_words)
    else:
        kind = c_int64 * (field.count or _ENDLESS)
    places = [("before", c_int64 * field.first), ("here", kind)]
    layout: Any = type("Layout", (Structure,), {"_fields_": places})
    return layout.here


def word_of_row(words: Any, row: Any) -> int:
    """Return the word of `words` at which a row begins."""
    return (addressof(row) - addressof(words)) // _WORD_BYTES


def words_of_row(row: Any) -> Any:
    """Return the words from a row's first one on, unbounded."""
    return _Words.from_address(addressof(row))
