"""Read JSON files of limited size, in which every defect is a FormatError and each key may appear once."""

import json
from pathlib import Path
from typing import Any, NoReturn

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_text

JSON_LIMIT_BYTES = 4 << 20
"""Largest size of a file: hardware and model descriptions have a few kilobytes."""


class _DuplicateKey(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKey(key)
        found[key] = value
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def read_json_object(path: Path, limit: int = JSON_LIMIT_BYTES) -> dict[str, Any]:
    """Read the one JSON object of a file. Raises FormatError for anything else,
    with the place of the defect."""
    text = read_text(path, limit)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except _DuplicateKey as error:
        raise FormatError(
            path, field=f"key {str(error.args[0])[:60]!r}", expected="each key once", found="it twice"
        ) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise FormatError(path, field=place, expected="JSON", found=error.msg) from None
    except RecursionError:
        raise FormatError(path, expected="JSON of sensible depth", found="too many nested brackets") from None
    except ValueError as error:
        # Python's own text about numbers of more than 4300 digits mentions settings of the interpreter.
        found = "a number of thousands of digits" if "digits" in str(error) else str(error)
        raise FormatError(path, expected="JSON", found=found) from None
    if not isinstance(value, dict):
        raise FormatError(path, expected="a JSON object", found=describe_json(value))
    return value


def describe_json(value: Any) -> str:
    """Return a short text for a JSON value in an error message."""
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "an object"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def wrong_json(path: str | Path, field: str, expected: str, value: Any) -> FormatError:
    """Return the error for a JSON value that is not what a field demands."""
    return FormatError(path, field=field, expected=expected, found=describe_json(value))
