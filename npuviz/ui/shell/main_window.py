"""The main window: builds commands, docks and bars, and updates them when the session changes."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDragEnterEvent,
    QDropEvent,
    QKeyEvent,
    QResizeEvent,
    QShowEvent,
    QUndoStack,
)
from PySide6.QtWidgets import QMainWindow

from npuviz.ui.bridge.bookmark_keeper import BookmarkKeeper
from npuviz.ui.bridge.hazard_watch import HazardWatch
from npuviz.ui.bridge.history import MAX_CHANGES, BookmarkHistory, BreakpointHistory
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.shell.arrangement import Arrangement
from npuviz.ui.shell.bars.error import ErrorBar
from npuviz.ui.shell.bars.note import NoteBanner, add_bar
from npuviz.ui.shell.bars.position import HazardDisplay, PositionDisplay
from npuviz.ui.shell.bars.run import RunBar
from npuviz.ui.shell.bars.status import StatusLine
from npuviz.ui.shell.commands.actions import Actions
from npuviz.ui.shell.commands.bookmark import BookmarkCommands
from npuviz.ui.shell.commands.compare import CompareCommands
from npuviz.ui.shell.commands.edit import EditCommands
from npuviz.ui.shell.commands.file import FileCommands
from npuviz.ui.shell.commands.own_layouts import OwnLayoutCommands
from npuviz.ui.shell.commands.preferences import PreferenceCommands
from npuviz.ui.shell.commands.reopen import ReopenCommands
from npuviz.ui.shell.commands.run import RunCommands
from npuviz.ui.shell.commands.run_on import RunOnCommands
from npuviz.ui.shell.commands.session import SessionCommands
from npuviz.ui.shell.commands.view import ViewCommands
from npuviz.ui.shell.docks import Docks
from npuviz.ui.shell.focus_order import go_to_next_stop
from npuviz.ui.shell.layout_history import LayoutHistory
from npuviz.ui.shell.opening_card import OpeningCard
from npuviz.ui.shell.palette import Palette
from npuviz.ui.shell.palette_entries import Palettes
from npuviz.ui.shell.panel_loader import load_panel_specs
from npuviz.ui.shell.screen import first_size
from npuviz.ui.shell.start_page import StartPage
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.advice import Failure
from npuviz.workbench.commands import CommandRegistry
from npuviz.workbench.opening import OpenOptions, get_ready
from npuviz.workbench.recent import recent_files
from npuviz.workbench.samples import SampleEntry, sample_entries
from npuviz.workbench.selection import SelectionModel
from npuviz.workbench.settings import Settings

OpenOther = Callable[[Path, OpenOptions, bool], None]


class MainWindow(QMainWindow):
    """One window with one session. `Application` makes windows and owns theme and settings."""

    closed = Signal()

    def __init__(self, theme: Theme, settings: Settings, open_other: OpenOther | None = None) -> None:
        super().__init__()
        self.setObjectName("main_window")
        self.setWindowTitle("npuviz")
        self.setAcceptDrops(True)
        self.setDockNestingEnabled(True)
        self.resize(first_size(self))
        self.theme = theme
        self.settings = settings
        self.model = SessionModel(self)
        self.selection = SelectionModel()
        self.commands = CommandRegistry()
        self.hazards = HazardWatch(self.model, self)
        context = PanelContext(self.model, self.selection, theme, self.commands, settings, self.hazards)
        self.requests = context.requests
        BookmarkKeeper(self.model, context.bookmarks, settings)
        specs, failures = load_panel_specs()
        self.docks = Docks(self, specs, context)
        self.arrangement = Arrangement(self.docks, self.model, settings)
        self.palette_box = Palette(theme, self)
        self.opening_card = OpeningCard(theme, self.model, settings, self)
        self.error_bar = ErrorBar(theme, self)
        self.tell = self.error_bar.tell
        self.note_banner = NoteBanner(theme, self)
        self.status = StatusLine(theme, self)
        self.start_page = StartPage(theme, self)
        palettes = Palettes(self.palette_box, self.commands, self.model, self.selection, settings, self.open)
        opens = open_other or (lambda _path, _options, _is_named: None)
        self.files = FileCommands(self, self.model, settings, self.tell, palettes.show_recent, opens)
        runs = RunCommands(self.model, self.selection, palettes.show_go_to, self.tell)
        self.views = ViewCommands(self.docks, self.arrangement, palettes, context, self.tell)
        compares = CompareCommands(self, context, self.docks, self.files)
        chooser = RunOnCommands(self, self.model, (theme, settings), self.files, compares.compare)
        stack = QUndoStack(self, undoLimit=MAX_CHANGES)
        BreakpointHistory(self.model, stack)
        BookmarkHistory(self.model, context.bookmarks, stack)
        LayoutHistory(self.docks, self.model, stack)
        edits = EditCommands(self.model, stack, self.commands)
        self.commands.add(*PreferenceCommands(self, theme, settings, self.commands).all())
        self.commands.add(*self.files.all(), *chooser.all(), *edits.all(), *runs.all(), *self.views.all())
        self.sessions = SessionCommands(self, context, self.docks, self.files, self.tell)
        self.commands.add(*BookmarkCommands(context, self.docks).all(), *self.sessions.all(), *compares.all())
        self.actions_by_id = Actions(self, self.commands, theme)
        self.reopening = ReopenCommands(
            self.model, self.commands, self.files.reopen, self.actions_by_id.forget
        )
        OwnLayoutCommands(self.docks, context, self.actions_by_id.forget)
        self.run_bar = RunBar(
            theme, self.actions_by_id.action, palettes.show_go_to, palettes.show_finder, self
        )
        self.has_looked = False
        self._build(failures)
        self._connect()
        self._show_session()

    def open(self, path: Path, options: OpenOptions | None = None, *, is_named: bool = False) -> None:
        """Open a file in this window; see SessionModel.open."""
        self.files.open_paths([path], options, is_named=is_named)

    # -- building ---------------------------------------------------------------------------------

    def _build(self, failures: tuple[str, ...]) -> None:
        self.setCentralWidget(self.start_page)
        self.setStatusBar(self.status)
        self.addToolBar(Qt.ToolBarArea.TopToolBarArea, self.run_bar)
        add_bar(self, "Limits", "limits", self.note_banner)
        self.actions_by_id.refresh_icons()
        PositionDisplay(self.model, self.run_bar, self.status, self.actions_by_id.refresh_later, self)
        HazardDisplay(self.hazards, self.status.hazards, self.theme, self._show_hazards, self)
        geometry = self.settings.get("geometry")
        if isinstance(geometry, str):
            self.restoreGeometry(QByteArray.fromBase64(geometry.encode()))
        if failures:
            self.error_bar.show_failure(Failure("Some panels cannot be loaded.", "\n".join(failures)))

    def _connect(self) -> None:
        model = self.model
        model.session_changed.connect(self._show_session)
        model.failed.connect(lambda _text: self.error_bar.show_failure(model.failure))
        model.running_changed.connect(lambda _running: self.error_bar.end_offer())
        self.note_banner.details_asked.connect(lambda: self.docks.show_panel("log"))
        self.start_page.chosen.connect(self.open)
        self.start_page.open_asked.connect(self.files.ask_to_open)
        self.requests.told.connect(self.error_bar.show_answer)
        self.requests.compared.connect(lambda _node: self.docks.show_panel("costs"))
        self.theme.changed.connect(self._theme_changed)
        self._unsubscribe = self.selection.changed.subscribe(lambda _s: self.actions_by_id.refresh_later())
        self.error_bar.stay_above(self.docks.all.values())
        for dock in self.docks.all.values():
            dock.visibilityChanged.connect(lambda _shown: self.actions_by_id.refresh_later())

    def _show_hazards(self) -> None:
        """Show the list of hazards, and look for them now."""
        self.docks.show_panel("hazards")
        self.hazards.look()

    # -- following the session --------------------------------------------------------------------

    def _show_session(self) -> None:
        opened, program = self.model.opened, self.model.program
        self.selection.clear()
        if opened is None:
            self.setWindowTitle("npuviz")
            self._remember_layout()
            self.docks.hide_all()
            self.start_page.show_recent(recent_files(self.settings))
            self.start_page.show()
        else:
            self.setWindowTitle(f"{opened.title} \u2013 npuviz")
            self.setWindowFilePath(str(opened.path))
            is_first = not self.start_page.isHidden()
            self.start_page.hide()
            self.arrangement.show(is_first=is_first)
            self.error_bar.dismiss()
        self.note_banner.show_notes(program.notes if program is not None else ())
        self.actions_by_id.refresh()

    def _remember_layout(self) -> None:
        if self.start_page.isHidden():
            self.arrangement.remember()

    def _theme_changed(self) -> None:
        self.actions_by_id.refresh_icons()
        self.docks.refresh_icons()
        self.run_bar.refresh_icons()
        self.start_page.refresh()

    def _look_for_samples(self) -> None:
        # Importing targets loads compilers and kernels, so the worker does it while the user looks around.
        def found(entries: list[SampleEntry]) -> None:
            self.start_page.show_samples(entries)
            if self.model.opened is None and self.model.opening is None:
                self.model.submit("Getting ready", lambda _progress: get_ready(), lambda _nothing: None)

        self.model.submit("Looking for machines", lambda _progress: sample_entries(), found)

    # -- events of the window ---------------------------------------------------------------------
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self.has_looked:
            self.has_looked = True
            QTimer.singleShot(0, self, self._look_for_samples)

    def focusNextPrevChild(self, next: bool) -> bool:
        return go_to_next_stop(self, next)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.error_bar.isVisible():
            self.error_bar.dismiss()
        elif event.key() == Qt.Key.Key_Escape:
            self.selection.clear()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        for overlay in (self.palette_box, self.opening_card, self.error_bar):
            overlay.place()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if any(url.isLocalFile() for url in event.mimeData().urls()):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        if paths:
            event.acceptProposedAction()
            self.files.open_paths(paths)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._remember_layout()
        self.settings.set("geometry", bytes(self.saveGeometry().toBase64().data()).decode())
        self.palette_box.dismiss()
        self.docks.dispose()
        self.actions_by_id.dispose()
        self._unsubscribe()
        self.hazards.shut_down()
        self.model.shut_down()
        super().closeEvent(event)
        self.closed.emit()
