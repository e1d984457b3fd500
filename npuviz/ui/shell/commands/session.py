"""Save what the window shows to a session file, and open such files."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from npuviz.base.progress import Progress
from npuviz.ui.dialogs.files import ask_file_like, ask_session_to_save
from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.shell.commands.file import FileCommands, Tell
from npuviz.ui.shell.docks import Docks
from npuviz.workbench.commands import Command
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.recent import remember
from npuviz.workbench.sessions.file import (
    SUFFIX,
    SavedSession,
    Source,
    difference,
    find_source,
    read_session,
    source_of,
    write_session,
)


class _Found(NamedTuple):
    """A session file that was read.

    path, config  where its model and its machine's description file are now, None: not found, or none needed
    differs       how they differ from when the session was saved, "" if they do not
    """

    saved: SavedSession
    path: Path | None
    config: Path | None
    differs: str


class SessionCommands:
    """Saves and opens session files of one window."""

    def __init__(
        self, window: QWidget, context: PanelContext, docks: Docks, files: FileCommands, tell: Tell
    ) -> None:
        self._window, self._context, self._docks = window, context, docks
        self._files, self._tell = files, tell
        self._last: Path | None = None
        self.bookmarks = context.bookmarks
        files.open_session = self.open

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        return [
            Command("file.save_session", "Save Session ...", self._ask_to_save, self._can_save,
                    ("Ctrl+Shift+S",), "File", 1, 3, "mdi6.content-save-outline",
                    doc="Keep cycle, breakpoints, bookmarks and layout in a file, for later or for others"),
        ]  # fmt: skip

    def save(self, path: Path) -> None:
        """Write what the window shows to a session file, as a job."""
        opened = self._context.model.opened
        if opened is None:
            return
        saved = self._present(opened)

        def work(_progress: Progress) -> None:
            config = opened.options.config
            write_session(
                path,
                replace(
                    saved,
                    source=source_of(opened.path, path),
                    config=source_of(config, path) if config is not None else None,
                ),
            )

        def done(_result: object) -> None:
            self._last = path
            remember(self._context.settings, path, OpenOptions())
            lost = "; the arrays of --input are not in it" if opened.options.inputs else ""
            self._tell(f"Saved {path.name}{lost}.")

        self._context.model.submit(f"Saving {path.name}", work, done)

    def open(self, path: Path) -> None:
        """Open the model of a session file, then restore cycle, breakpoints, bookmarks and layout."""

        def work(_progress: Progress) -> _Found:
            saved = read_session(path)
            place = find_source(saved.source, path)
            config = find_source(saved.config, path) if saved.config is not None else None
            differs = difference(saved.source, place) if place is not None else ""
            if saved.config is not None and config is not None:
                differs = differs or difference(saved.config, config)
            return _Found(saved, place, config, differs)

        self._context.model.submit(f"Reading {path.name}", work, partial(self._begin, path))

    def _begin(self, path: Path, found: _Found) -> None:
        self._last = path
        for source, place in ((found.saved.source, found.path), (found.saved.config, found.config)):
            if source is not None and place is None:
                self._tell(
                    f"{source.name} is not where {path.name} says; find it to go on.",
                    (f"Locate {source.name} ...", partial(self._locate, path, found, source)),
                )
                return
        assert found.path is not None
        remember(
            self._context.settings, path, replace(found.saved.options, target="", preset="", settings={})
        )
        options = replace(found.saved.options, config=found.config)
        self._files.open_then(found.path, options, partial(self._restore, path, found))

    def _locate(self, path: Path, found: _Found, source: Source) -> None:
        place = ask_file_like(self._window, source.name, path.parent)
        if place is None:
            return

        def work(_progress: Progress) -> _Found:
            is_model = source is found.saved.source
            kept = found._replace(path=place) if is_model else found._replace(config=place)
            return kept._replace(differs=found.differs or difference(source, place))

        self._context.model.submit(f"Reading {place.name}", work, partial(self._begin, path))

    def _restore(self, path: Path, found: _Found) -> None:
        saved, context = found.saved, self._context
        for bookmark in saved.bookmarks:
            context.bookmarks.add(bookmark)
        self._files.restore(saved.cycle, saved.breakpoints)
        # Later, because the window arranges its docks and dismisses its message when a session opens.
        QTimer.singleShot(0, self._window, partial(self._arrange, path, found))

    def _arrange(self, path: Path, found: _Found) -> None:
        source = found.saved.source
        self._context.model.when_free(partial(self._docks.follow_description, found.saved.layout))
        if found.differs:
            other = partial(self._locate, path, found._replace(differs=""), source)
            self._tell(f"{found.differs} Places and notes may not fit.", (f"Locate {source.name} ...", other))

    def _present(self, opened: Opened) -> SavedSession:
        context, session = self._context, opened.session
        points = session.breakpoints.all if session is not None else ()
        target = opened.options.target or (opened.target.id if opened.target is not None else "")
        return SavedSession(
            Source(opened.path.name, ""),
            options=replace(opened.options, target=target),
            cycle=context.model.cycle,
            breakpoints=tuple((each.text, each.enabled) for each in points),
            bookmarks=context.bookmarks.all,
            layout=self._docks.describe(),
        )

    def _ask_to_save(self) -> None:
        opened = self._context.model.opened
        if opened is None:
            return
        proposal = self._last or opened.path.with_name(opened.path.name.split(".")[0] + SUFFIX)
        path = ask_session_to_save(self._window, proposal, SUFFIX)
        if path is not None:
            self.save(path)

    def _can_save(self) -> bool:
        model = self._context.model
        return model.opened is not None and model.opened.sweep is None and not model.is_running
