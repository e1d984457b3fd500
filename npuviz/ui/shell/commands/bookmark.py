"""Commands of the menu Run that set bookmarks and go to the next or previous one."""

from dataclasses import dataclass

from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.shell.docks import Docks
from npuviz.workbench.commands import Command
from npuviz.workbench.finding.places import bookmark_of, selection_of

LIST = "breakpoints"
"""Id of the panel that lists bookmarks."""


@dataclass(frozen=True, eq=False)
class BookmarkCommands:
    """Bookmarks the selection or the cycle, and goes to the bookmarks next to the current cycle."""

    _context: PanelContext
    _docks: Docks

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        return [
            Command("debug.bookmark", "Bookmark or Note ...", self._mark, self._has_trace, ("Ctrl+M",), "Run",
                    4, 0, "mdi6.bookmark-outline", doc="Mark the selected slice or range, or this cycle"),
            Command("debug.next_bookmark", "Next Bookmark", lambda: self._go(1), self._has_any, ("Alt+Down",),
                    "Run", 4, 1),
            Command("debug.previous_bookmark", "Previous Bookmark", lambda: self._go(-1), self._has_any,
                    ("Alt+Up",), "Run", 4, 2),
        ]  # fmt: skip

    def _has_trace(self) -> bool:
        return self._context.model.reader is not None

    def _has_any(self) -> bool:
        return bool(self._context.bookmarks.all)

    def _mark(self) -> None:
        context = self._context
        made = bookmark_of(context.selection.current, context.model.reader, context.model.cycle)
        context.bookmarks.add(made)
        self._docks.show_panel(LIST)
        edit = getattr(self._docks.panels.get(LIST), "edit_bookmark", None)
        if callable(edit):
            edit(made)

    def _go(self, direction: int) -> None:
        context = self._context
        here = context.model.cycle
        if context.model.session is None and context.selection.current.cycles is not None:
            here = context.selection.current.cycles[0]
        beyond = [each for each in context.bookmarks.all if (each.first - here) * direction > 0]
        if not beyond:
            return
        found = beyond[0] if direction > 0 else beyond[-1]
        if found.is_range or context.model.session is None:
            context.selection.set(selection_of(found, context.model.reader))
        if context.model.session is not None:
            context.model.go_to(found.first)
