"""The contract of a panel: what a dock declares, and when the window calls it."""

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
"""Verbs that end sooner, such as one step, do not announce that they began."""


LogLines = Callable[[], Iterable[Found]]
"""Tells the lines of a log, to be searched."""


@dataclass(frozen=True)
class PanelContext:
    """What every panel may use; who keeps a log puts its lines into `log_lines`."""

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
    area      where it goes in a layout that does not name it; order sorts inside the area
    features  features it needs (`SessionModel.features`); () = always shown
    create    makes the widget
    listens   it hears of things while it is hidden: it is made with the first session, all others when
              they first come to the screen
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
    at most once a frame and only while the panel can be seen; what was missed is delivered once when
    it is shown. `on_running_changed(True)` comes only for verbs that take a while,
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
        """Whether what differs from the last time was changed by one step, and deserves a mark."""
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
        """Pages for `show_page`: what it shows while there is nothing, what it shows then, and others."""
        self.empty = EmptyState(empty) if isinstance(empty, str) else empty
        self._pages = QStackedLayout(self)
        for page in (self.empty, content, *more):
            self._pages.addWidget(page)

    def show_page(self, number: int | bool) -> None:
        """0 or False: there is nothing to show; 1 or True: there is."""
        self._pages.setCurrentIndex(int(number))

    @property
    def is_empty(self) -> bool:
        """Whether it says that there is nothing to show."""
        return self._pages.currentIndex() == 0

    def invitation(self, text: str) -> EmptyState:
        """An empty state that offers to open a file."""
        return EmptyState(text, "Open\u2026", lambda: self.context.commands.run("file.open"), self)

    def instruction_text(self, instruction: int) -> str:
        """Number and opcode of an instruction; "" where it is none of the program's."""
        program = self.model.program
        if program is None or not 0 <= instruction < len(program.listing):
            return ""
        return f"{format_count(instruction)} {program.listing.describe(instruction).opcode}"

    @property
    def is_settled(self) -> bool:
        """Whether it shows everything it wants to show: no change is put off, no answer is being computed."""
        return self.is_filled and not (self._frame.isActive() and (self._cycle_due or self._selection_due))

    @property
    def is_filled(self) -> bool:
        """Whether all answers that it asked for have come."""
        return True

    def on_session_changed(self) -> None:
        """Another session, or none, is open now. Also called once after creation by the window."""

    def on_cycle_changed(self) -> None:
        """The machine is at another cycle, or its state was changed."""

    def on_selection_changed(self, selection: Selection) -> None:
        """Another thing is selected."""

    def on_running_changed(self, running: bool) -> None:
        """A verb that takes a while is under way; or a verb ended, long or short."""

    def on_theme_changed(self) -> None:
        """Colours are different now; a repaint follows by itself."""

    def save_state(self) -> dict[str, Any]:
        """Plain values (JSON) to keep for the next start."""
        return {}

    def restore_state(self, state: dict[str, Any]) -> None:
        """Take back what `save_state` gave; unknown or damaged content must be ignored."""

    def dispose(self) -> None:
        """Stop listening, and all timers and jobs of the panel; the window calls this before it drops it."""
        self._unsubscribe()
        for timer in self.findChildren(QTimer):
            timer.stop()
        for job in self.findChildren(LatestJob):
            job.shut_down()

    def join(self) -> None:
        """Show the session, the cycle and the selection that are there; the window calls this once."""
        self.on_session_changed()
        self._cycle_due, self._selection_due = True, not self.context.selection.current.is_empty
        self.catch_up()

    def catch_up(self) -> None:
        """Deliver what was missed, if the panel can be seen by now; the window calls this for tabs."""
        if not self._frame.isActive():
            self._deliver()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._deliver(is_coming=True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+F leads to the panel's filter, if it has one; Esc there empties it, then leads back."""
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
        """Show the machine as it is now. After a step that a hidden panel has missed nothing is marked."""
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
        # The window rearranges panels that have not heard yet of what is open now.
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
