"""Represent the answer of a text command, as text and as JSON."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from npuviz.base.text_table import table_lines

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that is shown shortened as text, and in full in JSON."""

    value: Any
    text: str


@dataclass(frozen=True)
class Answer:
    """An answer: pairs, then a table, then a note; each may be missing.

    columns, rows  of the table; in JSON it is a list of objects under `name`

    In Python `answer["cycle"]` is a value of the pairs, `answer[0]` a row as a dict; iterating gives all
    rows, `str` the text, and Jupyter shows a table.
    """

    pairs: dict[str, Any] = field(default_factory=dict[str, Any])
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    name: str = "rows"
    note: str = ""

    def __getitem__(self, key: str | int) -> Any:
        """Return a value of the pairs by its name, or a row (column -> value) by its number."""
        if isinstance(key, str):
            return _value(self.pairs[key])
        return self._record(self.rows[key])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows, each as column -> value."""
        return (self._record(row) for row in self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __bool__(self) -> bool:
        """Return True: an answer without rows is an answer, too."""
        return True

    def __str__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        """Return the answer as HTML, which notebooks show."""
        parts = [_html_table((), [(key, _text(value)) for key, value in self.pairs.items()])]
        if self.columns:
            parts.append(_html_table(self.columns, [[_text(value) for value in row] for row in self.rows]))
        parts.append(f"<p>{escape(self.note)}</p>" if self.note else "")
        return "".join(parts)

    def _record(self, row: Row) -> dict[str, Any]:
        return {name: _value(value) for name, value in zip(self.columns, row, strict=True)}

    def as_text(self) -> str:
        """Return `key: value` lines, then the table, then the note."""
        lines = [f"{key}: {_text(value)}" for key, value in self.pairs.items()]
        if self.columns and self.rows:
            lines += _table(self.columns, self.rows)
        elif self.columns:
            lines.append(f"{self.name}: none")
        if self.note:
            lines.append(f"note: {self.note}")
        return "\n".join(lines)

    def as_json(self, command: str) -> str:
        """Return one line of JSON."""
        data: dict[str, Any] = {"command": command, **self.pairs}
        if self.columns:
            data[self.name] = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        if self.note:
            data["note"] = self.note
        return json.dumps(data, default=_plain)


def error_json(command: str, text: str) -> str:
    """Return a failed command as one JSON object."""
    return json.dumps({"command": command, "error": text})


MOST_HTML_ROWS = 200
"""Most rows of a table that a notebook shows."""


def _html_table(columns: tuple[str, ...], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of texts, "" for an empty one; only the first rows of a long one."""
    if not rows and not columns:
        return ""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:MOST_HTML_ROWS]
    )
    more = f"<p>... and {len(rows) - MOST_HTML_ROWS} rows more</p>" if len(rows) > MOST_HTML_ROWS else ""
    return f"<table>{f'<tr>{head}</tr>' if columns else ''}{body}</table>{more}"


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Shown) else value


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
    """Convert a value that the JSON writer does not know.
    Infinities and NaN become their names, such as "nan"."""
    if isinstance(value, Shown):
        inner = value.value
        return _plain(inner) if isinstance(inner, np.ndarray | np.generic) else _finite(inner)
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
