"""The guided tour of the window: for each step a ring around a part of it and a card with text."""

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QSizePolicy, QWidget

from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.kit.parts import fill, line, muted_label, text_button
from npuviz.ui.shell.docks import Docks
from npuviz.ui.theme.theme import GRID, Theme
from npuviz.workbench.tours import TourStep, work_under_way

WIDTH = 360
MARGIN = 4 * GRID
RING = 2
KEYS = "Enter: on   Left: back   Esc: end"
_ON = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Right, Qt.Key.Key_Space, Qt.Key.Key_PageDown)
_BACK = (Qt.Key.Key_Left, Qt.Key.Key_Backspace, Qt.Key.Key_PageUp)


class TourRing(QWidget):
    """A ring drawn around a part of the window; clicks go through it."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("tour.ring")
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QPen(self._theme.color("accent"), RING))
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), GRID, GRID)
        painter.end()


class TourCard(QFrame):
    """The text of a step, with its number and three buttons; keys do the same.

    moved  the user goes on by 1 or -1 steps
    ended  the user ends the tour
    """

    moved = Signal(int)
    ended = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("palette_box")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.text = QLabel(self, wordWrap=True, textFormat=Qt.TextFormat.PlainText)
        self.text.setObjectName("tour.text")
        self.text.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.MinimumExpanding)
        self.number = muted_label(self, "tour.number")
        self.back = text_button(self, "Back", lambda: self.moved.emit(-1))
        self.back.setObjectName("tour.back")
        end = text_button(self, "End", self.ended.emit)
        end.setObjectName("tour.end")
        self.next = QPushButton("Next", self)
        self.next.setObjectName("tour.next")
        self.next.clicked.connect(lambda: self.moved.emit(1))
        keys = muted_label(self, "tour.keys", KEYS)
        lower = line(self.number, 1, self.back, end, self.next, margins=(0, 0, 0, 0), spacing=2 * GRID)
        fill(self, self.text, keys, lower, margins=(16, 12, 16, 12), spacing=2 * GRID)
        self.setFixedWidth(WIDTH)
        self.hide()

    def show_step(self, number: int, count: int, text: str) -> None:
        """Show the text of a step; numbers begin with 0."""
        self.text.setText(text)
        self.number.setText(f"{number + 1} of {count}")
        self.back.setEnabled(number > 0)
        self.next.setText("Next" if number + 1 < count else "Done")
        self.setAccessibleName(f"Tour, step {number + 1} of {count}")
        self.setAccessibleDescription(f"{text} {KEYS}")
        self.setFixedHeight(self.heightForWidth(WIDTH))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in _ON:
            self.moved.emit(1)
        elif key in _BACK:
            self.moved.emit(-1)
        elif key == Qt.Key.Key_Escape:
            self.ended.emit()
        else:
            super().keyPressEvent(event)


class Tour(QObject):
    """Shows the steps of a tour one after the other, in the window that the docks belong to."""

    def __init__(self, docks: Docks, context: PanelContext) -> None:
        super().__init__(docks.window)
        self._docks, self._context, self._window = docks, context, docks.window
        self._steps: tuple[TourStep, ...] = ()
        self._number = 0
        self._ring = TourRing(context.theme, self._window)
        self.card = TourCard(self._window)
        self.card.moved.connect(self._move)
        self.card.ended.connect(self.end)
        self._place_soon = QTimer(self, singleShot=True, interval=0)
        self._place_soon.timeout.connect(self._place)
        self._window.installEventFilter(self)
        context.model.session_changed.connect(self.end)
        docks.settled.subscribe(self._place_soon.start)

    @property
    def is_under_way(self) -> bool:
        """Whether a step is shown."""
        return bool(self._steps)

    def begin(self, steps: Sequence[TourStep]) -> None:
        """Show the first step; steps about panels that the machine does not offer are left out."""
        self._steps = tuple(step for step in steps if self._is_there(step))
        if self._steps:
            self._show(0)

    def end(self) -> None:
        """Hide ring and card; the window stays as it is."""
        if not self._steps:
            return
        self._steps = ()
        self._ring.hide()
        self.card.hide()
        self._docks.focus_first(self._docks.focused_panel() or "timeline", "timeline")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self._steps:
            self._place_soon.start()
        return False

    def _is_there(self, step: TourStep) -> bool:
        if step.show in self._docks.all:
            return self._docks.is_offered(step.show)
        return self._window.findChild(QWidget, step.show) is not None

    def _move(self, by: int) -> None:
        number = self._number + by
        if number >= len(self._steps):
            self.end()
        elif number >= 0:
            self._show(number)

    def _show(self, number: int) -> None:
        step, model = self._steps[number], self._context.model
        self._number = number
        for command_id in step.do:
            self._context.commands.run(command_id)
        if step.share >= 0:
            model.when_free(lambda: self._go_to(step.share))
        if step.selects:
            model.when_free(self._select)
        if step.show in self._docks.all:
            self._docks.show_panel(step.show)
        self.card.show_step(number, len(self._steps), step.text)
        self._place()
        self.card.setFocus(Qt.FocusReason.OtherFocusReason)
        # Docks that are raised get their geometry only when control returns to the event loop.
        self._place_soon.start()

    def _go_to(self, share: float) -> None:
        model = self._context.model
        if model.reader is not None:
            model.go_to(round(model.reader.end_cycle * share))

    def _select(self) -> None:
        session, reader = self._context.model.session, self._context.model.reader
        found = work_under_way(session, reader) if session is not None else None
        if found is not None:
            self._context.selection.set(found)

    def _place(self) -> None:
        """Move ring and card to the part of the window that the step is about."""
        if not self._steps:
            return
        area = self._area(self._steps[self._number])
        self._ring.setGeometry(area)
        self.card.move(_beside(area, self.card, self._window))
        for part in (self._ring, self.card):
            part.show()
            part.raise_()

    def _area(self, step: TourStep) -> QRect:
        """Return the rectangle that the step is about, in pixels of the window."""
        dock = self._docks.all.get(step.show)
        shown = dock if dock is not None else self._window.findChild(QWidget, step.show)
        assert shown is not None
        return QRect(shown.mapTo(self._window, QPoint()), shown.size()).intersected(self._window.rect())


def _beside(area: QRect, card: QWidget, window: QWidget) -> QPoint:
    """Return the position at which the card covers the least of an area, and among those the nearest one."""
    room = window.rect().adjusted(MARGIN, 3 * MARGIN, -MARGIN, -3 * MARGIN)
    size = card.size()
    across = (room.left(), area.left() - size.width() - MARGIN, area.center().x() - size.width() // 2,
              area.right() + MARGIN, room.right() - size.width())  # fmt: skip
    down = (room.top(), area.top() - size.height() - MARGIN, area.center().y() - size.height() // 2,
            area.bottom() + MARGIN, room.bottom() - size.height())  # fmt: skip
    places = [QRect(QPoint(x, y), size) for x in across for y in down]
    inside = [place for place in places if room.contains(place)] or [QRect(room.topLeft(), size)]

    def cost(place: QRect) -> tuple[int, int]:
        covered = place.intersected(area)
        hidden = covered.width() * covered.height() if covered.isValid() else 0
        return hidden, (place.center() - area.center()).manhattanLength()

    return min(inside, key=cost).topLeft()
