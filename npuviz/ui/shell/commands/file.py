"""Commands of the menus File and Trace: opening, closing, reloading, exporting."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

from npuviz.base.errors import ConditionError
from npuviz.base.progress import Progress
from npuviz.ui.bridge.file_watch import FileWatch
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.dialogs.files import ask_bundle_to_open, ask_export, ask_files_to_open
from npuviz.ui.dialogs.trust import ask_to_run
from npuviz.ui.shell.consent import Consent
from npuviz.workbench.choosing import targets
from npuviz.workbench.commands import Command
from npuviz.workbench.headless.run import export_trace, exporters
from npuviz.workbench.opening import OpenOptions
from npuviz.workbench.preferences.choices import CHECKPOINTS, preferred
from npuviz.workbench.recent import recent_files, remember
from npuviz.workbench.sessions.file import SUFFIX
from npuviz.workbench.sessions.last_times import remember_time
from npuviz.workbench.settings import Settings


class Tell(Protocol):
    """A function that shows a notice: a line, an optional button (title, function), foldable details."""

    def __call__(
        self, text: str, action: tuple[str, Callable[[], object]] | None = None, details: str = ""
    ) -> None: ...


class FileCommands:
    """Opens and closes files for one window.

    window      parent of dialogs
    open_other  opens a further file in another window
    """

    def __init__(
        self,
        window: QWidget,
        model: SessionModel,
        settings: Settings,
        tell: Tell,
        show_recent: Callable[[], None],
        open_other: Callable[[Path, OpenOptions, bool], None],
    ) -> None:
        self._window = window
        self._model = model
        self._settings = settings
        self._tell = tell
        self._show_recent = show_recent
        self._open_other = open_other
        self.consent = Consent(settings, partial(ask_to_run, window))
        model.may_open = self.consent.may_open
        self._after: Callable[[], None] | None = None
        self.open_session: Callable[[Path], None] = model.open
        self._watch = FileWatch(window)
        self._watch.changed.connect(self._file_changed)
        model.session_changed.connect(self._session_changed)

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        is_open = self._is_open
        return [
            Command("file.open", "Open Model ...", self.ask_to_open, shortcuts=("Ctrl+O",), menu="File",
                    icon="mdi6.folder-open-outline", doc="Open a model"),
            Command("file.open_bundle", "Open Trace Bundle ...", self._ask_bundle, menu="File", order=2),
            Command("file.open_recent", "Open Recent ...", self._show_recent, self._has_recent,
                    ("Ctrl+Shift+O",), "File", order=3),
            Command("file.reload", "Reload", self.reload, is_open, ("Ctrl+R",), "File", 1, 0,
                    doc="Open the file again and come back to this cycle"),
            Command("file.close", "Close", self._model.close, is_open, ("Ctrl+W",), "File", 1, 9),
            Command("file.quit", "Quit", self._quit, shortcuts=("Ctrl+Q",), menu="File", group=2),
            Command("trace.export", "Export ...", self._ask_export, self._has_trace, ("Ctrl+S", "Ctrl+E"),
                    "Trace", 0, 0, "mdi6.export-variant", doc="Write the trace for another tool"),
        ]  # fmt: skip

    def open_paths(
        self, paths: Sequence[Path], options: OpenOptions | None = None, *, is_named: bool = False
    ) -> None:
        """Open the first file here and each other one in another window; see SessionModel.open."""
        chosen = options or OpenOptions()
        for index, path in enumerate(paths):
            if index == 0:
                self._open_here(path, chosen, is_named)
            else:
                self._open_other(path, chosen, is_named)

    def reload(self) -> None:
        """Open the same file again, and restore breakpoints and cycle."""
        opened = self._model.opened
        if opened is None:
            return
        self.open_as(opened.path, opened.options)

    def reopen(self, settings: Mapping[str, str]) -> None:
        """Open the same file with other settings, and restore breakpoints and cycle."""
        opened = self._model.opened
        if opened is not None:
            chosen = {**opened.options.settings, **settings}
            self.open_as(opened.path, replace(opened.options, settings=chosen))

    def open_as(self, path: Path, options: OpenOptions, *, is_named: bool = False) -> None:
        """Open a path with options of the user; if that file is open already, restore breakpoints and
        cycle.
        """
        opened = self._model.opened
        if opened is None or opened.path.resolve() != path.resolve():
            self.open_paths([path], options, is_named=is_named)
            return
        session = opened.session
        marks = tuple((item.text, item.enabled) for item in session.breakpoints.all) if session else ()
        self._after = partial(self.restore, self._model.cycle, marks)
        self._model.open(opened.path, self._budgeted(options), is_named=True)

    def open_then(self, path: Path, options: OpenOptions, after: Callable[[], None]) -> None:
        """Open a path that the user has not named, and call `after` once it is open."""
        self._after = after
        self._model.open(path, self._budgeted(options))

    def restore(self, cycle: int, marks: Sequence[tuple[str, bool]]) -> None:
        """Set breakpoints, given as (condition, is enabled), and go to a cycle of the open program."""
        session, lost = self._model.session, 0
        for text, is_enabled in marks:
            try:
                made = self._model.add_breakpoint(text)
                if made is not None and session is not None and not is_enabled:
                    session.breakpoints.set_enabled(made.id, False)
            except ConditionError:  # this program may lack the names in the text
                lost += 1
        if cycle > 0 and session is not None:
            self._model.go_to(cycle)
        if lost:
            self._tell_later(f"{lost} breakpoints name things that this program does not have.")

    def ask_to_open(self) -> None:
        """Let the user pick files."""
        self.open_paths(self._ask_files())

    def ask_file(self) -> Path | None:
        """Let the user pick one file; None when dismissed."""
        return next(iter(self._ask_files()), None)

    def _ask_files(self) -> list[Path]:
        kinds = {suffix: text for target in targets().values() for suffix, text in target.file_kinds.items()}
        kinds[SUFFIX] = "session of npuviz"
        return ask_files_to_open(self._window, kinds, self.folder())

    def export_to(self, name: str, path: Path) -> None:
        """Write the trace with an exporter, as a job."""
        reader, opened = self._model.reader, self._model.opened
        listing = opened.listing if opened is not None else None

        def work(progress: Progress) -> None:
            export_trace(reader, exporters()[name], name, path, progress, listing)

        def done(_result: object) -> None:
            self._tell(f"Exported to {path}")

        self._model.submit(f"Exporting {path.name}", work, done)

    def _tell_later(self, text: str) -> None:
        # Later, because the window dismisses its message when it shows another session.
        QTimer.singleShot(0, self._window, lambda: self._tell(text))

    def _open_here(self, path: Path, options: OpenOptions, is_named: bool) -> None:
        self._after = None
        if path.suffix == SUFFIX:
            self.open_session(path)
        else:
            self._model.open(path, self._budgeted(options), is_named=is_named)

    def _budgeted(self, options: OpenOptions) -> OpenOptions:
        """Return the options with the user's preferred memory for checkpoints."""
        size = preferred(self._settings, CHECKPOINTS)
        if size == CHECKPOINTS.default:
            return options
        return replace(options, checkpoint_budget_bytes=size << 20)

    def _session_changed(self) -> None:
        opened = self._model.opened
        self._watch.watch(opened.path if opened else None)
        if opened is None:
            return
        target = opened.options.target or (opened.target.id if opened.target else "")
        remember(self._settings, opened.path, replace(opened.options, target=target))
        if opened.session is not None:
            remember_time(self._settings, opened)
        after, self._after = self._after, None
        if after is not None:
            after()

    def _file_changed(self, path: Path) -> None:
        self._tell(f"{path.name} was changed by another program.", ("Reload (Ctrl+R)", self.reload))

    def _ask_bundle(self) -> None:
        path = ask_bundle_to_open(self._window, self.folder())
        if path is not None:
            self.open_paths([path])

    def _ask_export(self) -> None:
        opened = self._model.opened
        if opened is None:
            return
        suffixes = {name: exporter.suffix for name, exporter in exporters().items()}
        chosen = ask_export(self._window, suffixes, self.folder() / opened.path.stem)
        if chosen is not None:
            self.export_to(*chosen)

    def folder(self) -> Path:
        """Return the folder in which file dialogs begin: that of the open file, else of the last recent
        one.
        """
        opened = self._model.opened
        if opened is not None:
            return opened.path.parent
        recent = recent_files(self._settings)
        return recent[0].path.parent if recent else Path.cwd()

    def _quit(self) -> None:
        self._window.close()

    def _is_open(self) -> bool:
        return self._model.opened is not None

    def _has_recent(self) -> bool:
        return bool(recent_files(self._settings))

    def _has_trace(self) -> bool:
        return self._model.reader is not None and not self._model.is_busy
