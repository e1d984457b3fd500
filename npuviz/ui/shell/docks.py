"""The docks of a window, one per panel: arrange them by a layout, save and restore them."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from PySide6.QtCore import QByteArray, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow, QTabBar, QTabWidget, QWidget

from npuviz.base.notifier import Notifier
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.shell.dock_title import DockTitle
from npuviz.ui.shell.panel_place import PanelPlace
from npuviz.workbench.layouts import DEFAULT_LAYOUT, LAYOUTS, Layout, Row, layout_named

STATE_VERSION = 2
"""Version of stored states; incremented when renamed or rearranged docks make older states unusable."""
_TOP = Qt.DockWidgetArea.TopDockWidgetArea
_BOTTOM = Qt.DockWidgetArea.BottomDockWidgetArea


@dataclass(frozen=True)
class Arranged:
    """An arrangement of the docks, for undo.

    layout  name of the layout that was applied last
    state   what Qt's `saveState` returned
    shape   (dock, is hidden, floats, area, tabs beside it) of every dock; without sizes and which tab is in
            front
    """

    layout: str
    state: bytes
    shape: tuple[object, ...]


class Docks:
    """Makes the docks of a window and applies layouts to them. A panel is created when first seen.

    panels   panels created so far, by id
    settled  calls its listeners after docks came, went or moved
    """

    def __init__(self, window: QMainWindow, specs: Iterable[PanelSpec], context: PanelContext) -> None:
        self._window = window
        self._context = context
        self._specs = {spec.id: spec for spec in specs}
        self._docks: dict[str, QDockWidget] = {}
        self._places: dict[str, PanelPlace] = {}
        # Stored states of panels that are not created yet.
        self._kept: dict[str, dict[str, Any]] = {}
        self.panels: dict[str, Panel] = {}
        self.settled: Notifier[()] = Notifier()
        self.layout_name = DEFAULT_LAYOUT
        # Panels that the last machine offered: if hidden, the user closed them, and another file does not
        # open them.
        self._was_offered: set[str] = set()
        window.setTabPosition(Qt.DockWidgetArea.AllDockWidgetAreas, QTabWidget.TabPosition.North)
        self._titles_soon = QTimer(window, singleShot=True)
        self._titles_soon.timeout.connect(self._settle)
        for spec in self._specs.values():
            self._docks[spec.id] = self._make_dock(spec)

    @property
    def window(self) -> QMainWindow:
        """The window that the docks belong to."""
        return self._window

    @property
    def all(self) -> dict[str, QDockWidget]:
        """Docks by panel id, in the order of the panels."""
        return self._docks

    def spec(self, panel_id: str) -> PanelSpec:
        """Return the declaration of a panel."""
        return self._specs[panel_id]

    def is_offered(self, panel_id: str) -> bool:
        """Return whether the open machine has the features that a panel needs."""
        features = self._context.model.features
        return all(name in features for name in self._specs[panel_id].features)

    def layouts(self) -> list[Layout]:
        """Return the layouts that fit the open machine or results."""
        model = self._context.model
        found = [layout for layout in LAYOUTS if all(name in model.features for name in layout.features)]
        if model.opened is not None and model.reader is None:
            # Nothing runs and nothing was recorded: panels of machines would be empty.
            found = [layout for layout in found if layout.features] or found
        return found

    def panel(self, panel_id: str) -> Panel:
        """Return a panel, and create it if needed, showing the open session."""
        if panel_id not in self.panels:
            spec = self._specs[panel_id]
            panel = self.panels[panel_id] = spec.create(self._context)
            panel.setObjectName(f"{spec.dock_name}.widget")
            self._places[panel_id].put(panel)
            if panel_id in self._kept:
                panel.restore_state(self._kept.pop(panel_id))
            panel.join()
        return self.panels[panel_id]

    def make_listening(self) -> None:
        """Create the panels that must hear of changes while hidden (`PanelSpec.listens`)."""
        for panel_id, spec in self._specs.items():
            if spec.listens:
                self.panel(panel_id)

    def make_seen(self) -> None:
        """Create the panels whose places are visible now."""
        layout = self._window.layout()
        if layout is not None:
            layout.activate()
        for panel_id, place in self._places.items():
            if panel_id not in self.panels and place.is_seen:
                self.panel(panel_id)

    def apply(self, layout: Layout) -> None:
        """Arrange the docks by a layout, without panels that the machine does not offer."""
        self.layout_name = layout.name
        offered = [panel_id for panel_id in self._docks if self.is_offered(panel_id)]
        fitted = layout.restricted_to(offered)
        for dock in self._docks.values():
            dock.setFloating(False)
            self._window.removeDockWidget(dock)
        for row, area in zip(fitted.rows, (_TOP, _BOTTOM), strict=False):
            self._place_row(row, area)
        self._was_offered = set(offered)
        self._park_others(fitted)
        self._resize(fitted)
        self.refresh_titles()

    def follow_machine(self) -> None:
        """Hide panels that the newly opened machine does not offer, and show newly offered ones as tabs."""
        layout = layout_named(self.layout_name)
        places = [cell.panels for row in layout.rows for cell in row.cells] if layout else []
        for panel_id, dock in self._docks.items():
            if not self._specs[panel_id].features:
                continue
            if not self.is_offered(panel_id):
                dock.hide()
            elif dock.isHidden() and panel_id not in self._was_offered:
                beside = next((cell for cell in places if panel_id in cell), ())
                # A stored layout may name panels that this version does not have.
                known = (other for other in beside if other in self._docks)
                front = next((other for other in known if not self._docks[other].isHidden()), None)
                if front is not None:
                    self._window.tabifyDockWidget(self._docks[front], dock)
                    dock.show()
                    first = min(panel_id, front, key=beside.index)
                    self._docks[first].raise_()
        self._was_offered = {panel_id for panel_id in self._docks if self.is_offered(panel_id)}
        self.refresh_titles()

    def hide_all(self) -> None:
        """Hide all docks, for the start page."""
        for dock in self._docks.values():
            dock.hide()

    def show_panel(self, panel_id: str) -> None:
        """Bring a panel to the front and give it the focus."""
        dock = self._docks[panel_id]
        dock.show()
        dock.raise_()
        self.make_seen()
        panel = self.panel(panel_id)
        panel.setFocus(Qt.FocusReason.ShortcutFocusReason)
        if self.focused_panel() != panel_id:
            # The widget that usually takes the focus is hidden, for example because there is nothing to show.
            inside = (each for each in panel.findChildren(QWidget) if each.isVisible() and each.isEnabled())
            taking = (each for each in inside if each.focusPolicy() & Qt.FocusPolicy.TabFocus)
            next(taking, dock).setFocus(Qt.FocusReason.ShortcutFocusReason)

    def focus_first(self, *panel_ids: str) -> None:
        """Focus the first of these panels that exists and is shown."""
        for panel_id in panel_ids:
            panel = self.panels.get(panel_id)
            if panel is not None and not self._docks[panel_id].isHidden():
                panel.setFocus(Qt.FocusReason.OtherFocusReason)
                return

    def in_reading_order(self) -> list[str]:
        """Return the ids of the shown panels from top to bottom and left to right; tabs of one place
        together.
        """
        shown = [panel_id for panel_id, dock in self._docks.items() if not dock.isHidden()]
        corners: dict[str, tuple[int, int]] = {}
        for panel_id in shown:
            dock = self._docks[panel_id]
            group = [dock, *(other for other in self._window.tabifiedDockWidgets(dock))]
            front = next((one for one in group if not one.visibleRegion().isEmpty()), dock)
            corners[panel_id] = (front.y(), front.x())
        return sorted(shown, key=lambda panel_id: corners[panel_id])

    def focus_next(self, step: int) -> None:
        """Focus the panel after (1) or before (-1) the focused one, in reading order."""
        order = self.in_reading_order()
        if order:
            focused = self.focused_panel()
            place = order.index(focused) + step if focused in order else 0
            self.show_panel(order[place % len(order)])

    def focused_panel(self) -> str:
        """Return the id of the panel that has the focus, itself or in a child; "" if none has."""
        focused = self._window.focusWidget()
        for panel_id, dock in self._docks.items():
            if dock is focused or dock.isAncestorOf(focused):
                return panel_id
        return ""

    def show_only(self, panel_ids: Iterable[str]) -> None:
        """Show just these panels, side by side."""
        wanted = [panel_id for panel_id in panel_ids if panel_id in self._docks]
        for panel_id, dock in self._docks.items():
            dock.setVisible(panel_id in wanted)
        for panel_id in wanted:
            self._docks[panel_id].raise_()

    def arranged(self) -> Arranged:
        """Return the present arrangement of the docks."""
        window = self._window
        shape = tuple(
            (
                panel_id,
                dock.isHidden(),
                dock.isFloating(),
                window.dockWidgetArea(dock).value,
                frozenset(other.objectName() for other in window.tabifiedDockWidgets(dock)),
            )
            for panel_id, dock in self._docks.items()
        )
        return Arranged(self.layout_name, bytes(window.saveState(STATE_VERSION).data()), shape)

    def rearrange(self, wanted: Arranged) -> None:
        """Restore an arrangement that `arranged` returned for this window."""
        self.layout_name = wanted.layout
        self._window.restoreState(QByteArray(wanted.state), STATE_VERSION)
        self.refresh_titles()

    def describe(self) -> dict[str, Any]:
        """Return plain values that name layout and shown panels, without sizes, for other windows and
        screens.
        """
        return {
            "name": self.layout_name,
            "shown": [panel_id for panel_id, dock in self._docks.items() if not dock.isHidden()],
            "panels": self._states(),
        }

    def follow_description(self, described: Mapping[str, Any]) -> None:
        """Arrange the docks like another window that `describe` described; ignore unknown names."""
        layout = layout_named(str(described.get("name", "")))
        shown = described.get("shown", ())
        if layout is None or not shown:
            return
        self.apply(layout)
        for panel_id, dock in self._docks.items():
            dock.setVisible(panel_id in shown and self.is_offered(panel_id))
        self._restore_states(described.get("panels"))
        self.refresh_titles()

    def save(self) -> dict[str, Any]:
        """Return plain values (JSON) for `restore`."""
        state = bytes(self._window.saveState(STATE_VERSION).data())
        return {
            "layout": self.layout_name,
            "docks": base64.b64encode(state).decode(),
            "offered": sorted(self._was_offered),
            "panels": self._states(),
        }

    def restore(self, stored: object) -> bool:
        """Restore what `save` returned; return whether docks are shown now.

        False without a change if the value cannot be used.
        """
        if not isinstance(stored, dict):
            return False
        layout = layout_named(str(stored.get("layout", "")))
        try:
            state = base64.b64decode(str(stored.get("docks", "")), validate=True)
        except (binascii.Error, ValueError):
            return False
        if layout is None or not state:
            return False
        if not self._window.restoreState(QByteArray(state), STATE_VERSION):
            return False
        self.layout_name = layout.name
        offered = stored.get("offered")
        self._was_offered = {str(name) for name in offered} if isinstance(offered, list) else set()
        for panel_id, dock in self._docks.items():
            if not self.is_offered(panel_id):
                dock.hide()
        self._restore_states(stored.get("panels"))
        return any(not dock.isHidden() for dock in self._docks.values())

    def refresh_titles(self) -> None:
        """Hide titles of docks that have a tab; create panels that came to the front, or update them."""
        for dock in self._docks.values():
            title = dock.titleBarWidget()
            if isinstance(title, DockTitle):
                others = [other for other in self._window.tabifiedDockWidgets(dock) if not other.isHidden()]
                title.set_collapsed(bool(others) and not dock.isFloating())
        if self.panels:
            self.make_seen()
        for panel in self.panels.values():
            panel.catch_up()
        for bar in self._window.findChildren(QTabBar, options=Qt.FindChildOption.FindDirectChildrenOnly):
            bar.setElideMode(Qt.TextElideMode.ElideNone)
            bar.setExpanding(False)
            bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            bar.setAccessibleName("Panels in this place")

    def refresh_icons(self) -> None:
        """Redraw the icons of the titles after the theme changed."""
        for dock in self._docks.values():
            title = dock.titleBarWidget()
            if isinstance(title, DockTitle):
                title.refresh_icons()

    def dispose(self) -> None:
        """Let all panels stop listening."""
        self._titles_soon.stop()
        for panel in self.panels.values():
            panel.dispose()

    def _make_dock(self, spec: PanelSpec) -> QDockWidget:
        dock = QDockWidget(spec.title, self._window)
        dock.setObjectName(spec.dock_name)
        dock.setAccessibleName(spec.title)
        dock.setTitleBarWidget(DockTitle(dock, self._context.theme))
        self._places[spec.id] = place = PanelPlace(dock)
        # Queued, because creating a panel while its place is painted would change what is painted.
        place.missed.connect(self._moved, Qt.ConnectionType.QueuedConnection)
        dock.setWidget(place)
        self._window.addDockWidget(_TOP, dock)
        dock.hide()
        for moved in (dock.visibilityChanged, dock.topLevelChanged, dock.dockLocationChanged):
            moved.connect(self._moved)
        return dock

    def _states(self) -> dict[str, Any]:
        return self._kept | {panel_id: panel.save_state() for panel_id, panel in self.panels.items()}

    def _restore_states(self, states: object) -> None:
        if not isinstance(states, dict):
            return
        for panel_id, kept in cast(dict[str, Any], states).items():
            if not isinstance(kept, dict):
                continue
            if panel_id in self.panels:
                self.panels[panel_id].restore_state(cast(dict[str, Any], kept))
            elif panel_id in self._specs:
                self._kept[panel_id] = cast(dict[str, Any], kept)

    def _settle(self) -> None:
        self.refresh_titles()
        self.settled.notify()

    def _moved(self, *_where: object) -> None:
        if not self._titles_soon.isActive():
            self._titles_soon.start(0)

    def _place_row(self, row: Row, area: Qt.DockWidgetArea) -> None:
        # All fronts first: splitting beside a dock that has tabs would make another tab.
        previous: QDockWidget | None = None
        for cell in row.cells:
            front = self._docks[cell.panels[0]]
            self._window.addDockWidget(area, front)
            if previous is not None:
                self._window.splitDockWidget(previous, front, Qt.Orientation.Horizontal)
            front.show()
            previous = front
        for cell in row.cells:
            front = self._docks[cell.panels[0]]
            last = front
            for panel_id in cell.panels[1:]:
                dock = self._docks[panel_id]
                self._window.addDockWidget(area, dock)
                self._window.tabifyDockWidget(last, dock)
                dock.show()
                last = dock
            front.raise_()

    def _park_others(self, layout: Layout) -> None:
        """Hide panels that a layout does not name; when shown, they become tabs of the widest lower place."""
        placed = {panel for row in layout.rows for cell in row.cells for panel in cell.panels}
        widest = max(layout.rows[-1].cells, key=lambda cell: cell.weight) if len(layout.rows) > 1 else None
        for panel_id, dock in self._docks.items():
            if panel_id in placed:
                continue
            self._window.addDockWidget(_BOTTOM, dock)
            if widest is not None:
                self._window.tabifyDockWidget(self._docks[widest.panels[-1]], dock)
            dock.hide()

    def _resize(self, layout: Layout) -> None:
        width, height = self._window.width(), self._window.height()
        for row in layout.rows:
            total = sum(cell.weight for cell in row.cells)
            fronts = [self._docks[cell.panels[0]] for cell in row.cells]
            widths = [max(1, width * cell.weight // total) for cell in row.cells]
            self._window.resizeDocks(fronts, widths, Qt.Orientation.Horizontal)
        total = sum(row.weight for row in layout.rows)
        if len(layout.rows) > 1 and total:
            fronts = [self._docks[row.cells[0].panels[0]] for row in layout.rows]
            heights = [max(1, height * row.weight // total) for row in layout.rows]
            self._window.resizeDocks(fronts, heights, Qt.Orientation.Vertical)
