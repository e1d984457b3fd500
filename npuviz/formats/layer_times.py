"""Read tables of measured layer times: CSV with a column of names and one of microseconds."""

import csv
import math
from pathlib import Path

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_text

LIMIT_BYTES = 16 << 20
NAME_COLUMNS = ("name", "operator", "layer", "id")
"""Columns that may hold the operator's name; the first one that the table has is used."""
TIME_COLUMN = "time_us"


def beside(model: Path) -> Path | None:
    """Return the path of the table beside a model, `MODEL.layers.csv`, or None if there is none."""
    path = model.with_name(f"{model.name.split('.')[0]}.layers.csv")
    return path if path.is_file() else None


def read_layer_times(path: Path) -> dict[str, float]:
    """Read a table: operator name -> measured microseconds. Lines that begin with # are comments.

    Raises FormatError for missing columns and for times that are not positive numbers.
    """
    lines = [line for line in read_text(path, LIMIT_BYTES).splitlines() if line and not line.startswith("#")]
    reader = csv.DictReader(lines)
    columns = [name.strip() for name in reader.fieldnames or ()]
    name = next((column for column in NAME_COLUMNS if column in columns), "")
    if not name or TIME_COLUMN not in columns:
        raise FormatError(
            path,
            field="columns",
            expected=f"{TIME_COLUMN} and one of {', '.join(NAME_COLUMNS)}",
            found=", ".join(columns)[:80] or "none",
        )
    reader.fieldnames = columns
    found: dict[str, float] = {}
    for number, row in enumerate(reader, 1):
        text = (row.get(TIME_COLUMN) or "").strip()
        try:
            time = float(text)
        except ValueError:
            time = math.nan
        if not (math.isfinite(time) and time > 0):
            raise FormatError(
                path, field=f"row {number}, {TIME_COLUMN}", expected="microseconds above 0", found=repr(text)
            )
        found[(row.get(name) or "").strip()] = time
    return found
