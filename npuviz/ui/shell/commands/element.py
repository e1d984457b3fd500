"""Commands of the menu Run that move one processing element or unit through the text of its program."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from npuviz.sim.frames import HasFrames
from npuviz.ui.bridge.focus import focused_element, focused_unit
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.workbench.commands import Command
from npuviz.workbench.selection import Selection, SelectionModel


@dataclass(frozen=True, eq=False)
class ElementCommands:
    """Steps of the selected element by line, call and task, forward and back in time."""

    _model: SessionModel
    _selection: SelectionModel
    _tell: Callable[[str], None]

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        lines = (
            ("over", "Step Over Line", "F8", "mdi6.debug-step-over",
             "To the next line of the selected element or unit, past the calls in this one"),
            ("into", "Step Into Line", "F12", "mdi6.debug-step-into",
             "To the next line of the selected element or unit, also in a function it calls"),
            ("out", "Step Out of Function", "Ctrl+F12", "mdi6.debug-step-out",
             "Until the selected element or unit is back in the caller"),
        )  # fmt: skip
        made: list[Command] = []
        for order, (how, title, key, icon, doc) in enumerate(lines):
            shifted = key.replace("F", "Shift+F")
            made.append(
                Command(f"debug.line_{how}", title, self._once_free(self._line, how, False), self._can_step,
                        (key,), "Run/Source", 1, order, icon, doc=doc)
            )  # fmt: skip
            made.append(
                Command(f"debug.line_{how}_back", f"{title}, Back in Time",
                        self._once_free(self._line, how, True), self._can_go_back,
                        (shifted,), "Run/Source", 2, order, "mdi6.undo-variant", doc=doc)
            )  # fmt: skip
        made.append(
            Command("debug.next_task", "To the Next Task", self._once_free(self._task, False), self._can_step,
                    ("Ctrl+F8",), "Run/Source", 1, 3, "mdi6.skip-forward-outline",
                    doc="Until the selected element begins a task")
        )  # fmt: skip
        made.append(
            Command("debug.next_task_back", "To the Beginning of This Task, Back in Time",
                    self._once_free(self._task, True), self._can_go_back, ("Ctrl+Shift+F8",), "Run/Source",
                    2, 3, "mdi6.undo-variant")
        )  # fmt: skip
        return made

    def _once_free(self, step: Callable[..., None], *asked: str | bool) -> Callable[[], None]:
        """Return a function that makes the step once no verb runs: only then the focused element is known."""
        return partial(self._model.when_free, partial(step, *asked))

    def _can_step(self) -> bool:
        return self._model.can_step and "source text" in self._model.features

    def _can_go_back(self) -> bool:
        return self._model.can_go_back and "source text" in self._model.features

    def _element(self) -> int | None:
        session = self._model.session
        if session is None:
            return None
        element = focused_element(session.machine, self._selection.current)
        if element is None:
            self._tell("This machine has no elements to step; step by cycle instead.")
        return element

    def _line(self, how: str, is_back: bool) -> None:
        session = self._model.session
        has_frames = session is not None and isinstance(session.machine, HasFrames)
        subject = self._element() if has_frames else self._unit()
        if subject is not None:
            self._model.step_line(subject, how, is_back)

    def _unit(self) -> int | None:
        """Return the unit to step, None if there is none; select it, so that the next step takes the same."""
        unit = focused_unit(self._model, self._selection.current)
        if unit is None:
            self._tell("No unit has an instruction to go to.")
        elif self._selection.current.unit != unit:
            self._selection.set(Selection(unit=unit))
        return unit

    def _task(self, is_back: bool) -> None:
        element = self._element()
        if element is not None:
            self._model.step_task(element, is_back)
