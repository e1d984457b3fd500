"""The table model of semaphores: those with waits first, one row for each waiting unit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import Qt

from npuviz.base.units import format_count
from npuviz.sim.machine import SemaphoreState, Wait
from npuviz.ui.kit.row_model import RowModel

NAME, VALUE, NEEDED, UNIT, INSTRUCTION, USE, UPDATER = range(7)
ROW_ROLE = Qt.ItemDataRole.UserRole + 1

SIGNS = {">=": "\u2265", "<=": "\u2264", "!=": "\u2260", "==": "="}


@dataclass(frozen=True, slots=True)
class SemaphoreRow:
    """A semaphore and one wait for it, None if no unit waits.

    unit, instruction, updater  texts: which unit waits with which instruction, and which changed it last
    is_changed                  the last step changed the semaphore
    """

    state: SemaphoreState
    wait: Wait | None
    name: str
    unit: str = ""
    instruction: str = ""
    updater: str = ""
    is_changed: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """Semaphore and waiting unit, which identify the row from step to step."""
        return self.state.id, self.wait.unit if self.wait else -1

    @property
    def to_go(self) -> int:
        """Difference of the value to one that ends the wait; 0 if it is met, or for other comparisons."""
        if self.wait is None:
            return 0
        distance = self.wait.needed - self.state.value
        more = {">=": distance, ">": distance + 1, "<=": -distance, "<": 1 - distance, "==": abs(distance)}
        return max(more.get(self.wait.comparison, 0), 0)

    @property
    def fraction(self) -> float:
        """Value as a share of the needed one, 0..1, for waits for at least, or exactly, a value; else
        negative.
        """
        if self.wait is None or self.wait.comparison not in (">=", ">", "==") or self.wait.needed <= 0:
            return -1.0
        return min(max(self.state.value / self.wait.needed, 0.0), 1.0)

    @property
    def needed(self) -> str:
        """Text of the condition and of how much is missing."""
        if self.wait is None:
            return ""
        text = f"{SIGNS.get(self.wait.comparison, self.wait.comparison)} {format_count(self.wait.needed)}"
        return f"{text}, {format_count(self.to_go)} to go" if self.to_go else f"{text}, met"


def rows_of(
    states: Sequence[SemaphoreState],
    unit_name: Callable[[int], str],
    instruction_text: Callable[[int], str],
    before: Iterable[SemaphoreRow] = (),
    has_moved: bool = True,
    marks_changes: bool = True,
) -> list[SemaphoreRow]:
    """Return the rows: semaphores with waits, then the others, each by id.

    before         the previous rows, to find changes
    has_moved      False if the machine is still at the same cycle: keep the marks
    marks_changes  False after a run, or if `before` is not the state before the last step: set no marks
    """
    has_groups = len({state.group for state in states}) > 1
    old = {row.state.id: row for row in before}
    rows: list[SemaphoreRow] = []
    for state in states:
        known = old.get(state.id)
        changed = known is not None and (known.state.value, known.state.waiting) != (
            state.value,
            state.waiting,
        )
        if known is not None and not has_moved and not changed:
            changed = known.is_changed
        changed = changed and marks_changes
        row = SemaphoreRow(
            state,
            None,
            _name(state, has_groups),
            updater=instruction_text(state.updater),
            is_changed=changed,
        )
        waits = [
            replace(
                row,
                wait=wait,
                # A unit of the semaphore's group is named without the group.
                unit=unit_name(wait.unit).removeprefix(f"{state.group}."),
                instruction=instruction_text(wait.instruction),
            )
            for wait in state.waiting
        ]
        rows += waits or [row]
    return sorted(rows, key=lambda row: (row.wait is None, row.state.id))


def _name(state: SemaphoreState, has_groups: bool) -> str:
    """Return a semaphore's name, with its group if there are several; machines may include it or not."""
    own = state.name.removeprefix(f"{state.group}.") if state.group else state.name
    return f"{state.group}.{own}" if has_groups and state.group else own


class SemaphoreTable(RowModel[SemaphoreRow]):
    """One row for each semaphore and waiting unit; announces only changes."""

    titles = ("Semaphore", "Value", "Waited for", "Who waits", "With", "Updated by", "Last change by")
    numbers = (VALUE,)

    def set_rows(self, rows: Sequence[SemaphoreRow]) -> None:
        """Show these rows; other semaphores or another order reset the table."""
        self.show_rows(rows, lambda row: row.key)

    def place_of(self, key: tuple[int, int]) -> int:
        """Return the row number of a key, -1 if it is not shown."""
        return next((place for place, row in enumerate(self.rows) if row.key == key), -1)

    def text(self, row: SemaphoreRow, column: int) -> str:
        texts = (row.name, format_count(row.state.value), row.needed, row.unit, row.instruction)
        return (*texts, row.state.use, row.updater)[column]

    def tooltip(self, row: SemaphoreRow, column: int) -> str:
        state = row.state
        lines = [f"{row.name} = {format_count(state.value)}   (semaphore {state.id})"]
        if state.use:
            lines.append(f"updated by {state.use}")
        if row.updater:
            lines.append(f"last change by {row.updater}")
        if row.wait is not None:
            lines.append(f"{row.unit} waits until it is {row.needed}")
            if row.instruction:
                lines.append(f"with {row.instruction}")
        else:
            lines.append("nobody waits for it now")
        return "\n".join(lines[:6])

    def other(self, row: SemaphoreRow, column: int, role: int) -> SemaphoreRow | None:
        return row if role == ROW_ROLE else None
