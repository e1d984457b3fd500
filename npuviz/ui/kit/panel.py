"""The base class of panels: what a panel declares, and when the window calls which of its methods."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent, QKeySequence, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLineEdit, QStackedLayout, QWidget

from npuviz.base.units import format_count
from npuviz.ui.bridge.hazard_watch import HazardWatch
from npuviz.ui.bridge.latest_job import LatestJob
from npuviz.ui.bridge.requests import Requests
from npuviz.ui.bridge.session_model import SessionModel
from npuviz.ui.kit.empty_state import EmptyState
from npuviz.ui.kit.parts import FILTERS
from npuviz.ui.theme.theme import Theme
from npuviz.workbench.commands import CommandRegistry
from npuviz.workbench.finding.run_search import Found
from npuviz.workbench.selection import Selection, SelectionModel
from npuviz.workbench.sessions.bookmarks import BookmarkList
from npuviz.workbench.settings import Settings

Area = Literal["left", "center", "right", "bottom"]
FRAME_MS = 16
QUIET_MS = 120
"""Milliseconds a verb must last before panels hear that it began; one step, for example, ends sooner."""


LogLines = Callable[[], Iterable[Found]]
"""Returns the lines of a log that the search goes through."""


@dataclass(frozen=True)
class PanelContext:
    """Objects of the window that every panel may use; a panel with a log adds a function to `log_lines`."""

    model: SessionModel
    selection: SelectionModel
    theme: Theme
    commands: CommandRegistry
    settings: Settings
    hazards: HazardWatch
    requests: Requests = field(default_factory=Requests)
    bookmarks: BookmarkList = field(default_factory=BookmarkList)
    log_lines: list[LogLines] = field(default_factory=list[LogLines])


@dataclass(frozen=True)
class PanelSpec:
    """Declaration of a panel.

    id        "timeline"; its dock is called "panel.timeline"
    icon      QtAwesome name, e.g. "mdi6.chart-gantt"
    area      where the panel goes in a layout that does not name it; order sorts inside the area
    features  features that the panel needs (`SessionModel.features`); () = always shown
    create    makes the widget
    listens   the panel must hear of changes while hidden, so it is created with the first session; others
              are created when they are first shown
    """

    id: str
    title: str
    icon: str
    area: Area
    order: int
    features: tuple[str, ...]
    create: Callable[[PanelContext], "Panel"]
    listens: bool = False

    @property
    def dock_name(self) -> str:
        """objectName of the dock."""
        return f"panel.{self.id}"


class Panel(QWidget):
    """Base of all panels. Override the hooks you need; all do nothing by default.

    `on_session_changed` is always called at once. `on_cycle_changed` and `on_selection_changed` come
    at most once a frame and only while the panel can be seen; changes while it is hidden are delivered once
    when it is shown. `on_running_changed(True)` comes only for verbs that last longer than QUIET_MS,
    `on_running_changed(False)` after every verb, and then always `on_cycle_changed`.
    `on_cycle_changed` also comes while the machine runs: ask `model.is_running` before every use of
    `model.session`, and read `model.reader` and `model.cycle` otherwise.
    """

    def __init__(self, context: PanelContext) -> None:
        super().__init__()
        self.context = context
        self._cycle_due = False
        self._selection_due = False
        self._opened = context.model.opened
        self._seen_verb = context.model.num_verbs
        self.marks_changes = False
        """Whether one step made all differences since the panel was last updated, so that they get a mark."""
        self._frame = QTimer(self, singleShot=True, interval=FRAME_MS)
        self._frame.timeout.connect(self._deliver)
        self._quiet = QTimer(self, singleShot=True, interval=QUIET_MS)
        self._quiet.timeout.connect(self._announce_running)
        context.model.session_changed.connect(self._session_changed)
        context.model.cycle_changed.connect(self._cycle_changed)
        context.model.running_changed.connect(self._running_changed)
        context.theme.changed.connect(self._theme_changed)
        self._unsubscribe = context.selection.changed.subscribe(self._selection_changed)

    @property
    def model(self) -> SessionModel:
        """The session as the window sees it."""
        return self.context.model

    @property
    def theme(self) -> Theme:
        """Colours, fonts and sizes."""
        return self.context.theme

    def set_pages(self, empty: EmptyState | str, content: QWidget, *more: QWidget) -> None:
        """Set the pages of `show_page`: 0 the empty state, 1 the content, further ones from 2 on."""
        self.empty = EmptyState(empty) if isinstance(empty, str) else empty
        self._pages = QStackedLayout(self)
        for page in (self.empty, content, *more):
            self._pages.addWidget(page)

    def show_page(self, number: int | bool) -> None:
        """Show a page: 0 or False the empty state, 1 or True the content."""
        self._pages.setCurrentIndex(int(number))

    @property
    def is_empty(self) -> bool:
        """Whether the empty state is shown."""
        return self._pages.currentIndex() == 0

    def invitation(self, text: str) -> EmptyState:
        """Make an empty state with a button that opens a file."""
        return EmptyState(text, "Open\u2026", lambda: self.context.commands.run("file.open"), self)

    def instruction_text(self, instruction: int) -> str:
        """Return number and opcode of an instruction; "" if the program has no such instruction."""
        program = self.model.program
        if program is None or not 0 <= instruction < len(program.listing):
            return ""
        return f"{format_count(instruction)} {program.listing.describe(instruction).opcode}"

    @property
    def is_settled(self) -> bool:
        """Whether the panel is up to date: no change waits for a frame, no answer is being computed."""
        return self.is_filled and not (self._frame.isActive() and (self._cycle_due or self._selection_due))

    @property
    def is_filled(self) -> bool:
        """Whether all answers that the panel asked for have arrived."""
        return True

    def on_session_changed(self) -> None:
        """Show another session, or none. The window also calls this once after creation."""

    def on_cycle_changed(self) -> None:
        """Show the machine at another cycle or in a changed state."""

    def on_selection_changed(self, selection: Selection) -> None:
        """Show another selection."""

    def on_running_changed(self, running: bool) -> None:
        """React to a long verb that has begun (True), or to any verb that has ended (False)."""

    def on_theme_changed(self) -> None:
        """Take over the colours of another theme; the repaint follows by itself."""

    def save_state(self) -> dict[str, Any]:
        """Return plain values (JSON) to keep for the next start."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Restore what `save_state` returned; unknown or damaged content must be ignored."""

    def dispose(self) -> None:
        """Stop listening, and stop all timers and jobs; the window calls this before it drops the panel."""
        self._unsubscribe()
        for timer in self.findChildren(QTimer):
            timer.stop()
        for job in self.findChildren(LatestJob):
            job.shut_down()

    def join(self) -> None:
        """Show the current session, cycle and selection; the window calls this once after creation."""
        self.on_session_changed()
        self._cycle_due, self._selection_due = True, not self.context.selection.current.is_empty
        self.catch_up()

    def catch_up(self) -> None:
        """Deliver changes that came while hidden, if the panel is visible now; the window calls this for
        tabs.
        """
        if not self._frame.isActive():
            self._deliver()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._deliver(is_coming=True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Focus the panel's filter on Ctrl+F, if it has one; on Esc in it, empty it, then leave it."""
        lines = (line for line in self.findChildren(QLineEdit) if line.property(FILTERS))
        filters = next((line for line in lines if line.isVisible()), None)
        if filters is not None and event.matches(QKeySequence.StandardKey.Find):
            filters.setFocus(Qt.FocusReason.ShortcutFocusReason)
            filters.selectAll()
        elif filters is not None and filters.hasFocus() and event.key() == Qt.Key.Key_Escape:
            if filters.text():
                filters.clear()
            else:
                self.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.catch_up()

    def _session_changed(self) -> None:
        self._cycle_due = self._selection_due = False
        self._opened = self.model.opened
        self._seen_verb, self.marks_changes = self.model.num_verbs, False
        self.on_session_changed()

    def _running_changed(self, running: bool) -> None:
        if running:
            self._quiet.start()
            return
        self._quiet.stop()
        self.on_running_changed(False)

    def _announce_running(self) -> None:
        self.on_running_changed(True)

    def _theme_changed(self) -> None:
        self.on_theme_changed()
        self.update()

    def _cycle_changed(self, _cycle: int) -> None:
        self._cycle_due = True
        self._schedule()

    def _selection_changed(self, _selection: Selection) -> None:
        self._selection_due = True
        self._schedule()

    def show_cycle(self) -> None:
        """Show the machine as it is now; mark changes only if one step was made since the last time."""
        number = self.model.num_verbs
        if number != self._seen_verb:
            self.marks_changes = self.model.is_step and number == self._seen_verb + 1
            self._seen_verb = number
        self.on_cycle_changed()

    def _schedule(self) -> None:
        # The first change of a burst is shown at once, later ones at the end of the frame.
        if self._frame.isActive():
            return
        self._deliver()

    def _deliver(self, is_coming: bool = False) -> None:
        if not (self._cycle_due or self._selection_due):
            return
        # While the window rearranges panels, this panel may not have received the new session yet.
        if self.model.opened is not self._opened:
            return
        # A tab behind another one is "visible" for Qt, but nothing of it is on the screen.
        if not self.isVisible() or not (is_coming or not self.visibleRegion().isEmpty()):
            return
        cycle_due, self._cycle_due = self._cycle_due, False
        selection_due, self._selection_due = self._selection_due, False
        self._frame.start()
        try:
            if cycle_due:
                self.show_cycle()
            if selection_due:
                self.on_selection_changed(self.context.selection.current)
        except Exception as error:
            # With Python 3.11, PySide crashes on an error from C that no Python code has looked at.
            raise error
