"""Number the lines and the moments of a kernel's Python, in the order in which a recording meets them,
and find what its functions call a tile.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from types import CodeType, FrameType

from npuviz.targets.neuroncore.nki.record.call_stacks import (
    Moment,
    Stack,
    Turns,
    forget_loops,
    moment_of,
    stack_now,
)
from npuviz.targets.neuroncore.nki.record.steps import SourceLine
from npuviz.targets.neuroncore.nki.record.tensors import Storage, Tensor
from npuviz.targets.neuroncore.nki.record.variable_names import OWN_FOLDER, forget_texts, users_frame


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
        self.chip_turns: Turns = {}
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
        now = (self.program, stack_now(self.chip_turns))
        found = self._moment_ids.get(now)
        if found is None:
            found = self._moment_ids[now] = len(self.moments)
            self.moments.append(moment_of(*now))
        return found

    def begin_turn(self, frame: FrameType, line: int, value: int) -> None:
        """Note that a loop on a value of the chip, whose head is at a line, begins a turn, or ends with 0."""
        key = (frame, line)
        if value:
            self.chip_turns[key] = (value, self.chip_turns[key][1] + 1 if key in self.chip_turns else 0)
        else:
            self.chip_turns.pop(key, None)

    def where(self, place: int) -> str:
        """A place in words."""
        if not 0 <= place < len(self.places):
            return "an unknown line"
        line = self.places[place]
        return f"{Path(line.file).name}:{line.line}"


MOST_LOOKS = 16
"""How often a function's variables are searched for a tile that none of them has held yet."""


class OtherNames:
    """Finds them while the kernel is recorded: a helper's result under its caller's name, say.

    names  id of a storage -> its other names, in the order in which they were met
    """

    def __init__(self) -> None:
        self.names: dict[int, list[str]] = {}
        self._looks: dict[tuple[int, CodeType], int] = {}

    def note(self, touched: Iterable[Tensor | None]) -> None:
        """Look for tensors that a step touches among the variables of the functions under way."""
        storages = [each.storage for each in touched if each is not None]
        frame = users_frame()
        while frame is not None and not frame.f_code.co_filename.startswith(OWN_FOLDER):
            code = frame.f_code
            wanted = [each for each in storages if self._looks.get((each.id, code), 0) < MOST_LOOKS]
            if wanted:
                self._look(frame, wanted)
            frame = frame.f_back

    def _look(self, frame: FrameType, wanted: Iterable[Storage]) -> None:
        variables, code = frame.f_locals, frame.f_code
        for storage in wanted:
            key = (storage.id, code)
            found = storage.name if _is_whole(variables.get(storage.name), storage) else ""
            found = found or next((name for name, each in variables.items() if _is_whole(each, storage)), "")
            self._looks[key] = MOST_LOOKS if found else self._looks.get(key, 0) + 1
            known = self.names.setdefault(storage.id, [])
            if found and found != storage.name and found not in known:
                known.append(found)


def _is_whole(value: object, storage: Storage) -> bool:
    """Whether a variable holds all of a storage."""
    return isinstance(value, Tensor) and value.storage is storage and value.size == prod(storage.shape)
