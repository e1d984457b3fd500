"""Context menus as a person uses them: a right click, then a click on an entry."""

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget


def right_click(widget: QWidget, point: QPoint) -> QMenu:
    """The menu that a right click, or the context menu event that Qt makes of it, opens."""
    QTest.mouseClick(widget, Qt.MouseButton.RightButton, pos=point)
    if not isinstance(QApplication.activePopupWidget(), QMenu):
        # The offscreen platform sends no context menu event after the click.
        from PySide6.QtGui import QContextMenuEvent

        event = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, point, widget.mapToGlobal(point))
        QApplication.sendEvent(widget, event)
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu), "no context menu"
    return menu


def entries(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def entry(menu: QMenu, beginning: str) -> QAction:
    found = [action for action in menu.actions() if action.text().startswith(beginning)]
    assert found, f"no entry {beginning!r} in {entries(menu)}"
    return found[0]


def choose(menu: QMenu, beginning: str) -> None:
    """Click an entry."""
    place = menu.actionGeometry(entry(menu, beginning)).center()
    QTest.mouseClick(menu, Qt.MouseButton.LeftButton, pos=place)


def inner(menu: QMenu, beginning: str) -> QMenu:
    """A menu inside of another one, opened."""
    found = entry(menu, beginning).menu()
    assert isinstance(found, QMenu)
    QTest.mouseMove(menu, menu.actionGeometry(entry(menu, beginning)).center())
    found.popup(menu.mapToGlobal(QPoint(menu.width(), 0)))
    return found
