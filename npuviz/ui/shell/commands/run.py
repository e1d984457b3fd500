"""Commands of the menu Run: run, step, go to and breakpoints, forward and back in time."""

from collections.abc import Callable
from dataclasses import dataclass

from npuviz.sim.stop import StopKind
from npuviz.ui.bridge.focus import focused_unit
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.shell.commands.element import ElementCommands
from npuviz.workbench.breakpoint_text import condition_for
from npuviz.workbench.commands import Command
from npuviz.workbench.selection import SelectionModel


@dataclass(frozen=True, eq=False)
class RunCommands:
    """The commands of the menu Run, for the open session and the selection.

    _ask_cycle, _tell  ask the user for a cycle to go to, show a notice
    """

    _model: SessionModel
    _selection: SelectionModel
    _ask_cycle: Callable[[], None]
    _tell: Callable[[str], None]

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        model = self._model

        def forward() -> bool:
            return model.can_step

        def back() -> bool:
            return model.can_go_back

        return [
            Command("debug.run", "Run", model.run, forward, ("F5",), "Run", 0, 0, "mdi6.play",
                    doc="Run to the next breakpoint or the end"),
            Command("debug.pause", "Pause", model.pause, lambda: model.is_running, ("F6",), "Run", 0, 1,
                    "mdi6.pause"),
            Command("debug.run_to_end", "Run to the End", model.run_through, forward, (), "Run", 0, 2,
                    "mdi6.skip-next", doc="Run to the end, past all breakpoints"),
            Command("debug.run_to_pointer", "Run to the Selected Cycle", self._run_to_selection,
                    self._has_cycle, ("Ctrl+F10",), "Run", 0, 3),
            Command("debug.step", "Step One Cycle", model.step, forward, ("F11",), "Run", 1, 0,
                    "mdi6.step-forward"),
            Command("debug.step_instruction", "Step One Instruction",
                    lambda: model.when_free(self._step_instruction), forward,
                    ("F10",), "Run", 1, 1, doc="To the next instruction of the selected unit"),
            Command("debug.step_operator", "Run to the End of the Operator",
                    lambda: model.when_free(self._step_operator), forward, ("Shift+F11",), "Run", 1, 2),
            Command("debug.step_back", "Step One Cycle Back", model.step_back, back, ("F4",), "Run", 2, 0,
                    "mdi6.step-backward"),
            Command("debug.step_instruction_back", "Step One Instruction Back",
                    lambda: model.when_free(self._step_instruction_back), back, ("Shift+F4",), "Run", 2, 1),
            Command("debug.run_back", "Run Back", model.run_back, back, ("F7",), "Run", 2, 2,
                    "mdi6.rewind", doc="Back to the previous breakpoint hit, or to cycle 0"),
            Command("debug.restart", "Back to Cycle 0", model.restart, back, ("Shift+F5",), "Run", 2, 3,
                    "mdi6.skip-previous"),
            Command("debug.restart_and_run", "Restart and Run", model.restart_and_run, self._has_session,
                    ("Ctrl+Shift+F5",), "Run", 2, 4),
            Command("debug.goto", "Go to Cycle, Time or Name ...", self._ask_cycle, self._has_session,
                    ("Ctrl+G", "G"), "Run", 3, 0),
            Command("debug.toggle_breakpoint", "Toggle Breakpoint",
                    lambda: model.when_free(self._toggle_breakpoint), self._has_session, ("F9",), "Run", 3, 1,
                    "mdi6.circle",
                    doc="Breakpoint on the selected instruction, operator, memory range or cycle"),
            *ElementCommands(model, self._selection, self._tell).all(),
        ]  # fmt: skip

    def _has_session(self) -> bool:
        return self._model.session is not None

    def _has_cycle(self) -> bool:
        model = self._model
        return self._has_session() and not model.is_running and self._selection.current.cycles is not None

    def _run_to_selection(self) -> None:
        cycles = self._selection.current.cycles
        if cycles is not None:
            self._model.go_to(cycles[0])

    def _step_instruction(self) -> None:
        unit = focused_unit(self._model, self._selection.current)
        if unit is None:
            self._tell("No unit holds an instruction any more: the program is at its end.")
        else:
            self._model.step_instruction(unit)

    def _step_instruction_back(self) -> None:
        unit = focused_unit(self._model, self._selection.current)
        if unit is None:
            description = self._model.description
            unit = description.units[0].id if description and description.units else None
        if unit is not None:
            self._model.step_instruction_back(unit)

    def _step_operator(self) -> None:
        program, session = self._model.program, self._model.session
        if program is None or session is None:
            return
        node = self._selection.current.node
        if node is None:
            unit = focused_unit(self._model, self._selection.current)
            held = session.machine.next_instructions().get(unit, -1) if unit is not None else -1
            node = program.listing.describe(held).node if held >= 0 else -1
        if node < 0:
            self._tell("No operator is under way; select one in the graph or the program.")
            return
        self._model.run_to_end_of_operator(node)

    def _toggle_breakpoint(self) -> None:
        session = self._model.session
        if session is None:
            return
        text = condition_for(self._selection.current, self._model.description, self._model.program)
        if text is None:
            self._tell(
                "Select an instruction, an operator, a memory range or a cycle to set a breakpoint there."
            )
            return
        for existing in session.breakpoints.all:
            if existing.text == text:
                session.breakpoints.remove(existing.id)
                return
        self._model.add_breakpoint(text)


def stop_text(kind: StopKind, detail: str) -> str:
    """Return why the machine stopped as a short text, without saying the kind of stop twice."""
    words = {
        StopKind.UNTIL: "stopped",
        StopKind.BREAKPOINT: "breakpoint",
        StopKind.FINISHED: "finished",
        StopKind.FAULT: "fault",
        StopKind.DEADLOCK: "deadlock",
        StopKind.HANG: "hang",
        StopKind.EVENTS_FULL: "stopped",
        StopKind.INTERRUPTED: "paused",
        StopKind.START: "at the start",
    }
    detail = detail.removeprefix(f"{words[kind]}: ")
    return f"{words[kind]}: {detail}" if detail else words[kind]
