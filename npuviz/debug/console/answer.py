"""What a command of the text debugger answers, and how that looks as text and as JSON."""

import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuviz.base.text_table import table_lines

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that text shows shortened and JSON in full."""

    value: Any
    text: str


@dataclass(frozen=True)
class Answer:
    """Pairs, then a table, then a remark; each may be missing.

    columns, rows  of the table; in JSON it is a list of objects under `name`
    """

    pairs: dict[str, Any] = field(default_factory=dict[str, Any])
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    name: str = "rows"
    note: str = ""

    def as_text(self) -> str:
        """`key: value` lines, then the table."""
        lines = [f"{key}: {_text(value)}" for key, value in self.pairs.items()]
        if self.columns and self.rows:
            lines += _table(self.columns, self.rows)
        elif self.columns:
            lines.append(f"{self.name}: none")
        if self.note:
            lines.append(f"note: {self.note}")
        return "\n".join(lines)

    def as_json(self, command: str) -> str:
        """One line."""
        data: dict[str, Any] = {"command": command, **self.pairs}
        if self.columns:
            data[self.name] = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        if self.note:
            data["note"] = self.note
        return json.dumps(data, default=_plain)


def error_json(command: str, text: str) -> str:
    """A failed command as one JSON object."""
    return json.dumps({"command": command, "error": text})


def _table(columns: tuple[str, ...], rows: tuple[Row, ...]) -> list[str]:
    cells = [columns, *(tuple(_text(value) for value in row) for row in rows)]
    return table_lines(cells)


def _text(value: Any) -> str:
    if isinstance(value, Shown):
        return value.text
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return "-" if value is None else str(value)


def _plain(value: Any) -> Any:
    """What the JSON writer does not know. Numbers that JSON lacks become their names, such as "nan"."""
    if isinstance(value, Shown):
        return _plain(value.value) if not isinstance(value.value, int | float) else _finite(value.value)
    if isinstance(value, np.ndarray):
        items = value.tolist() if value.dtype.kind in "iub" else value.astype(float).tolist()
        return _finite(items)
    if isinstance(value, np.generic):
        return _finite(value.item())
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
