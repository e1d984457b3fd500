"""Number the lines and the moments of a kernel's Python, in the order in which a recording meets them."""

from dataclasses import dataclass, field
from pathlib import Path

from npuviz.targets.neuroncore.nki.record.call_stacks import Moment, Stack, forget_loops, moment_of, stack_now
from npuviz.targets.neuroncore.nki.record.steps import SourceLine
from npuviz.targets.neuroncore.nki.record.variable_names import forget_texts, users_frame


@dataclass(kw_only=True)
class Positions:
    """Where a kernel's Python was.

    moments  where it was at the steps;  places  source lines that steps and storages name by index
    program  the instance of the grid that runs
    """

    moments: list[Moment] = field(default_factory=list[Moment])
    places: list[SourceLine] = field(default_factory=list[SourceLine])
    program: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        forget_texts()
        forget_loops()
        self._moment_ids: dict[tuple[tuple[int, ...], Stack], int] = {}
        self._place_ids: dict[tuple[str, int, str], int] = {}

    def place(self) -> int:
        """Index of the line of the user's text that is running."""
        frame = users_frame()
        if frame is None:
            return -1
        return self._place_id(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)

    def place_of(self, moment: int) -> int:
        """Index of the line that runs at a moment."""
        calls = self.moments[moment].calls
        return self._place_id(calls[0].file, calls[0].line, calls[0].function) if calls else -1

    def _place_id(self, file: str, line: int, function: str) -> int:
        found = self._place_ids.get((file, line, function))
        if found is None:
            found = self._place_ids[file, line, function] = len(self.places)
            self.places.append(SourceLine(file, line, function))
        return found

    def moment(self) -> int:
        """Index of the moment that the user's text is at."""
        now = (self.program, stack_now())
        found = self._moment_ids.get(now)
        if found is None:
            found = self._moment_ids[now] = len(self.moments)
            self.moments.append(moment_of(*now))
        return found

    def where(self, place: int) -> str:
        """A place in words."""
        if not 0 <= place < len(self.places):
            return "an unknown line"
        line = self.places[place]
        return f"{Path(line.file).name}:{line.line}"
