"""One line of the table that `npuviz bench` prints."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measurement.

    value   what was measured, in `unit` (the best of several repetitions for short work)
    figure  what it should reach, as text, "" if nothing is asked; ratios matter more than wall times
    is_wrong  the measurement shows a fault: `npuviz bench` ends with 1
    """

    name: str
    value: float
    unit: str
    figure: str = ""
    is_wrong: bool = False
