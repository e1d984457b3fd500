"""Parse JSON members of a NEFF fast, and check the type of every value that is used.

Messages name the file, the member and the key, for example
`m.neff, sg00/PE.json, dma[3].desc.to_off: expected an integer, found "x"`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NoReturn

import orjson

from npuviz.base.errors import FormatError
from npuviz.formats.json_text import describe_json
from npuviz.formats.neff.model import Payload

INTEGER_LIMIT = 1 << 48
"""Bound of sizes, offsets and ids: no device has such a memory, and sums stay within 64 bits."""


def one_line(text: str, limit: int = 400) -> str:
    """Return the text without control characters and of limited length: names in a file may hold anything."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text[:limit])
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def parse_object(content: Payload, file: str, member: str) -> dict[str, Any]:
    """Parse the one JSON object of a member. Raises FormatError for anything else."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise FormatError(
            file, field=f"{member}, line {error.lineno}", expected="JSON", found=error.msg
        ) from None
    if not isinstance(value, dict):
        raise FormatError(file, field=member, expected="a JSON object", found=found_text(value))
    return value


def object_bytes(value: Mapping[str, Any], indented: bool = False) -> bytes:
    """Return JSON text with sorted keys, as the vendor's packager writes it.

    Raises FormatError when a value is nested too deeply or is no JSON.
    """
    options = orjson.OPT_SORT_KEYS | (orjson.OPT_INDENT_2 if indented else 0)
    try:
        return orjson.dumps(value, option=options)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise FormatError(
            "JSON of a NEFF member", expected="values that JSON has", found=str(error)
        ) from None


def found_text(value: Any) -> str:
    """Return a short text for a JSON value in a message."""
    return one_line(describe_json(value[:60] if isinstance(value, str) else value))


@cache
def _defaults(kind: type[Any]) -> Mapping[str, Any]:
    return {each.name: each.default for each in fields(kind)}


def told(value: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return those of a dataclass's named fields that differ from their defaults, as JSON members."""
    defaults = _defaults(type(value))
    return {name: held for name in names if (held := getattr(value, name)) != defaults[name]}


class Fields:
    """The keys of one JSON object, taken one by one with their types checked;
    `rest()` returns those not taken."""

    def __init__(self, value: Any, file: str, where: str) -> None:
        self.file = file
        self.where = where
        self._taken: list[str] = []
        if type(value) is not dict:
            raise FormatError(file, field=one_line(where), expected="an object", found=found_text(value))
        self._value: dict[str, Any] = value

    def fail(self, key: str, expected: str, found: Any = None) -> NoReturn:
        """Raise the FormatError for a key."""
        text = "none" if key not in self._value else found_text(self._value[key])
        separator = ", " if self.where.endswith(".json") else "." if self.where else ""
        place = one_line(f"{self.where}{separator}{key}")
        raise FormatError(self.file, field=place, expected=expected, found=text if found is None else found)

    def raw(self, key: str) -> Any:
        """Take a value as it is, None if the key is absent."""
        self._taken.append(key)
        return self._value.get(key)

    def has(self, key: str) -> bool:
        """Whether the key is present, with whatever value."""
        return key in self._value

    def text(self, key: str, default: str | None = None) -> str:
        """Take a string; a missing key gives `default`, and is an error without one."""
        value = self._get(key, default)
        if type(value) is not str:
            self.fail(key, "a text")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Take an integer below 2**48 in magnitude."""
        value = self._get(key, default)
        if type(value) is not int:
            self.fail(key, "an integer")
        if not -INTEGER_LIMIT < value < INTEGER_LIMIT:
            self.fail(key, "an integer of at most 48 bits")
        return value

    def optional_integer(self, key: str) -> int | None:
        """Take an integer, or None if the key is absent."""
        return self.integer(key) if key in self._value else None

    def optional_text(self, key: str) -> str | None:
        """Take a string, or None if the key is absent."""
        return self.text(key) if key in self._value else None

    def number(self, key: str) -> float | int | None:
        """Take a number, or None if the key is absent."""
        if key not in self._value:
            return None
        value = self.raw(key)
        if type(value) is not float and type(value) is not int:
            self.fail(key, "a number")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Take true or false."""
        value = self._get(key, default)
        if type(value) is not bool:
            self.fail(key, "true or false")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """Take a list of integers; a missing key gives an empty one."""
        value = self._get(key, [])
        if type(value) is not list or not all(
            type(each) is int and -INTEGER_LIMIT < each < INTEGER_LIMIT for each in value
        ):
            self.fail(key, "a list of integers")
        return tuple(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a list of strings; a missing key gives an empty one."""
        value = self._get(key, [])
        if type(value) is not list or not all(type(each) is str for each in value):
            self.fail(key, "a list of texts")
        return tuple(value)

    def objects(self, key: str) -> list[Any]:
        """Take a list, whose entries the caller checks; a missing key gives an empty one."""
        value = self._get(key, [])
        if type(value) is not list:
            self.fail(key, "a list of objects")
        return value

    def mapping(self, key: str) -> dict[str, Any]:
        """Take an object; a missing key gives an empty one."""
        value = self._get(key, {})
        if type(value) is not dict:
            self.fail(key, "an object")
        return value

    def rest(self) -> dict[str, Any]:
        """Return the keys not taken: unknown to npuviz, and kept as they are."""
        return {key: value for key, value in self._value.items() if key not in self._taken}

    def _get(self, key: str, default: Any) -> Any:
        self._taken.append(key)
        value = self._value.get(key, self)
        if value is self:
            if default is None:
                self.fail(key, "this key")
            return default
        return value
