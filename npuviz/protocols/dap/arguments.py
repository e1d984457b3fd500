"""Reads arguments of requests; every function raises UsageError for a wrong value."""

from collections.abc import Mapping, Sequence
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.names import echo

Arguments = Mapping[str, Any]


def number_in(arguments: Arguments, name: str, default: int | None = None) -> int:
    """Return an integer argument, `default` if it is left out."""
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 62:
        raise UsageError(f"{name}: expected an integer, found {echo(repr(value))}")
    return value


def text_in(arguments: Arguments, name: str, default: str | None = None) -> str:
    """Return a text argument, `default` if it is left out."""
    value = arguments.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected a text, found {echo(repr(value))}")
    return value


def object_in(arguments: Arguments, name: str) -> dict[str, Any]:
    """Return an object argument, {} if it is left out."""
    value = arguments.get(name) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{name}: expected an object, found {echo(repr(value))}")
    return value


def objects_in(arguments: Arguments, name: str) -> Sequence[dict[str, Any]]:
    """Return a list of objects, empty if it is left out."""
    value = arguments.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UsageError(f"{name}: expected a list of objects, found {echo(repr(value))}")
    return value


def texts_in(arguments: Arguments, name: str) -> Sequence[str]:
    """Return a list of texts, empty if it is left out."""
    value = arguments.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{name}: expected a list of texts, found {echo(repr(value))}")
    return value


def hexadecimal(text: str, what: str) -> int:
    """Parse the number in a reference, such as 0x1a. what  is expected, for the error"""
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(f"{echo(text)!r}: expected {what}") from None
    if not 0 <= value < 1 << 62:
        raise UsageError(f"{echo(text)}: expected {what}")
    return value
