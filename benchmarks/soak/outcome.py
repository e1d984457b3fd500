"""The result of a part of the soak."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """One row of the table.

    what      that was tried;  tried, good  how often, and how often it ended as it must
    figures   measured beside it, as text
    faults    what went wrong, a line each; the first few are kept
    """

    part: str
    what: str
    tried: int = 0
    good: int = 0
    figures: str = ""
    faults: list[str] = field(default_factory=list[str])

    def count(self, fault: str = "") -> None:
        """Count one try, and note its fault."""
        self.tried += 1
        self.good += not fault
        if fault and len(self.faults) < MOST_FAULTS:
            self.faults.append(" ".join(fault.split())[:500])


MOST_FAULTS = 10
