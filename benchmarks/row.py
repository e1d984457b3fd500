"""Defines a row of the table that `npuviz bench` prints."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement.

    value   measured value in `unit` (the best of several repetitions for short work)
    figure  goal as text, "" for none; goals for ratios matter more than those for wall times
    is_wrong  the measurement shows a fault: `npuviz bench` ends with 1
    """

    name: str
    value: float
    unit: str
    figure: str = ""
    is_wrong: bool = False
