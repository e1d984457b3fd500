"""Show raw values as text and colour role: bytes, numbers and states, the same way everywhere."""

import math
from typing import Any

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.sim.probe import Probe

STATUS_ROLES = {"busy": "compute", "waiting": "wait-dependency", "idle": "wait-empty", "done": "control"}
"""Colour role of a unit's status, for machines that name no role."""


def numbers(data: bytes, dtype: str) -> np.ndarray:
    """Return bytes as elements, a one-dimensional copy; an incomplete element at the end is left out.

    Raises ValueError for an unknown element type.
    """
    kind = numpy_dtype(dtype)
    count = len(data) // kind.itemsize
    return np.frombuffer(data, kind, count).copy()


def format_number(value: Any) -> str:
    """Return one number as text: integers in full, others with six digits, `inf` and `nan` as such."""
    if isinstance(value, bool | np.bool_):
        return "1" if value else "0"
    if isinstance(value, int | np.integer):
        return str(int(value))
    number = float(value)
    if math.isfinite(number) and number == int(number) and abs(number) < 1e6:
        return str(int(number))
    return f"{number:.6g}"


def format_value(value: Any, limit: int = 16) -> str:
    """Return a number, or an array with its first `limit` elements, as text."""
    if not isinstance(value, np.ndarray):
        return format_number(value)
    flat = value.reshape(-1)
    shown = " ".join(format_number(item) for item in flat[:limit])
    more = f" ... ({flat.size} elements)" if flat.size > limit else ""
    return f"[{shown}{more}]"


def parse_value(text: str, probe: Probe) -> Any:
    """Parse a value for a probe: a number, or as many numbers as it has elements, separated by commas.

    Raises ValueError.
    """
    parts = [part for part in text.replace(",", " ").split() if part]
    count = math.prod(probe.shape)
    if len(parts) != count:
        raise ValueError(f"probe {probe.id}: expected {count} numbers, found {len(parts)}")
    kind = numpy_dtype(probe.dtype)
    values = [_parse_number(part, kind) for part in parts]
    if probe.shape == ():
        return values[0]
    try:
        return np.array(values).astype(kind).reshape(probe.shape)
    except OverflowError:
        raise ValueError(f"probe {probe.id}: a value does not fit {probe.dtype}") from None


def status_role(status: str, role: str = "") -> str:
    """Return the colour role of a unit's status; a role that the machine gives has priority."""
    return role or STATUS_ROLES.get(status, "control")


def _parse_number(text: str, kind: np.dtype) -> int | float:
    is_integer = kind.kind in "iub"
    try:
        value = int(text, 0) if is_integer or text.lower().startswith("0x") else float(text)
    except ValueError:
        what = "an integer" if is_integer else "a number"
        raise ValueError(f"{text!r}: expected {what}") from None
    if kind.kind in "iu" and not np.iinfo(kind).min <= value <= np.iinfo(kind).max:
        raise ValueError(f"{text}: does not fit {kind.name}")
    return value
