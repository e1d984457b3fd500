"""Fill the palette: with commands, recent files, and everything in the program that has a name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.shell.palette import Palette, PaletteEntry
from npuviz.workbench.commands import Command, CommandRegistry
from npuviz.workbench.finding.fuzzy import best
from npuviz.workbench.finding.places import EXPECTED, Place, places
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.recent import recent_files
from npuviz.workbench.selection import SelectionModel
from npuviz.workbench.settings import Settings

LIMIT = 60


@dataclass(frozen=True, eq=False)
class Palettes:
    """Opens the palette of a window with commands, places or recent files."""

    _palette: Palette
    _commands: CommandRegistry
    _model: SessionModel
    _selection: SelectionModel
    _settings: Settings
    _open_file: Callable[[Path, OpenOptions], None]

    def show_commands(self) -> None:
        """Open the palette to run a command by name."""
        self._palette.open(self._command_entries, "Type a command")

    def show_finder(self) -> None:
        """Open the palette to select a unit, track, operator or tensor by name."""
        self._palette.open(self._place_entries, "Find a unit, track, operator or tensor")

    def show_go_to(self) -> None:
        """Open the palette to go to a cycle, a time or a name."""
        self._palette.open(self._place_entries, "Go to cycle 182340, 1.5 us, 40 %, #instruction or a name")

    def show_recent(self) -> None:
        """Open the palette to open a recent file."""
        self._palette.open(self._recent_entries, "Open a recent file")

    def _command_entries(self, text: str) -> list[PaletteEntry]:
        words = text.split(maxsplit=1)
        if len(words) == 2 and words[0] in ("j", "f"):
            return self._place_entries(text)

        def title(command: Command) -> str:
            return f"{command.menu.replace('/', ' ')} {command.title}" if command.menu else command.title

        # Of equally good matches, enabled commands come first.
        commands = sorted(self._commands.all(), key=lambda command: not command.is_enabled())
        return [
            PaletteEntry(
                command.title.removesuffix(" ..."),
                lambda command_id=command.id: self._commands.run(command_id),
                command.menu.replace("/", " \u203a "),
                command.shortcuts[0] if command.shortcuts else "",
                command.is_enabled(),
            )
            for command in best(text, commands, title, LIMIT)
        ]

    def _place_entries(self, text: str) -> list[PaletteEntry]:
        model = self._model
        if model.description is None and model.reader is None:
            return [PaletteEntry("Nothing is open", _nothing, is_enabled=False)]
        end = self._end_cycle()
        found = places(text, model.description, model.program, end, LIMIT)
        if not found:
            return [PaletteEntry(f"Nothing fits: {EXPECTED}", _nothing, is_enabled=False)]
        return [
            PaletteEntry(place.title, lambda place=place: self._go(place), place.detail) for place in found
        ]

    def _end_cycle(self) -> int | None:
        session = self._model.session
        if session is not None and session.end_cycle is not None:
            return session.end_cycle
        reader = self._model.reader
        return reader.end_cycle if reader is not None else None

    def _recent_entries(self, text: str) -> list[PaletteEntry]:
        files = best(
            text, recent_files(self._settings), lambda recent: f"{recent.path} {recent.detail}", LIMIT
        )
        return [
            PaletteEntry(
                recent.path.name,
                lambda recent=recent: self._open_file(recent.path, recent.options),
                "  ".join(part for part in (recent.detail, str(recent.path.parent)) if part),
            )
            for recent in files
        ]

    def _go(self, place: Place) -> None:
        if place.cycle is not None:
            self._model.go_to(place.cycle)
        if place.selection is not None:
            self._selection.set(place.selection)


def _nothing() -> None:
    """Do nothing: for an entry that is only a message."""
