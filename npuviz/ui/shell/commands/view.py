"""Commands of the menus View and Help: layouts, panels, theme, palettes, keys."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

from PySide6.QtCore import Qt

from npuviz import __version__
from npuviz.ui.dialogs.manual import ManualDialog
from npuviz.ui.dialogs.shortcuts import ShortcutSheet
from npuviz.ui.kit.panel import PanelContext
from npuviz.ui.shell.arrangement import Arrangement
from npuviz.ui.shell.commands.tour import TourCommands
from npuviz.ui.shell.docks import Docks
from npuviz.ui.shell.palette_entries import Palettes
from npuviz.ui.theme.theme import Mode
from npuviz.workbench.commands import Command
from npuviz.workbench.layouts import LAYOUTS, Layout, layout_named
from npuviz.workbench.preferences.choices import THEMES

PANEL_KEYS = ("Alt+", "Alt+Shift+", "Ctrl+Alt+Shift+")
"""Modifier keys that, with a digit, show one of the first ten panels, of the next ten and so on."""


@dataclass(frozen=True, eq=False)
class ViewCommands:
    """The commands of the menus View and Help of one window."""

    _docks: Docks
    _arrangement: Arrangement
    _palettes: Palettes
    _context: PanelContext
    _tell: Callable[..., None]

    def all(self) -> list[Command]:
        """Return the commands, in menu order."""
        is_open = self._is_open
        return [
            Command("view.palette", "Command Palette", self._palettes.show_commands,
                    shortcuts=("Ctrl+Shift+P", "F1"), menu="View", icon="mdi6.magnify",
                    doc="Every command by name"),
            Command("view.find", "Find Unit, Track or Operator ...", self._palettes.show_finder, is_open,
                    ("Ctrl+P", "/"), "View", order=1, icon="mdi6.magnify"),
            Command("view.search", "Search the Run ...", partial(self._docks.show_panel, "search"),
                    lambda: self._is_open() and "search" in self._docks.all,
                    ("Ctrl+Shift+F",), "View", order=2, icon="mdi6.text-search",
                    doc="Find a text in operators, tensors, units, log, hazards and instructions"),
            Command("view.zoom_fit", "Fit the Run", self._zoom_fit, is_open, (), "View", 1, 0,
                    "mdi6.fit-to-page-outline", doc="Show the whole run in the timeline"),
            # Enabled only while there is work: an idle Esc belongs to the focused panel, then to the window.
            Command("view.cancel", "Cancel Work", self._context.model.cancel, self._is_busy, ("Esc",),
                    "View", 1, 1, doc="Stop running, opening or exporting"),
            Command("view.clear_selection", "Clear Selection", self._context.selection.clear,
                    lambda: not self._context.selection.current.is_empty, (), "View", 1, 2),
            *self._layout_commands(),
            *self._panel_commands(),
            *self._theme_commands(),
            *TourCommands(self._docks, self._context, self._tell).all(),
            Command("help.manual", "Documentation", self._show_manual, shortcuts=("Shift+F1",), menu="Help",
                    icon="mdi6.book-open-page-variant-outline", doc="The documentation, without a network"),
            Command("help.shortcuts", "Keys", self._show_keys, shortcuts=("?",), menu="Help"),
            Command("help.about", "About npuviz", self._about, menu="Help", group=1),
        ]  # fmt: skip

    def _layout_commands(self) -> list[Command]:
        made = [
            Command(
                f"view.layout.{layout.name}", layout.title, partial(self._apply, layout),
                partial(self._offers, layout), (layout.shortcut,), "View/Layout", 2, index,
                is_checked=partial(self._is_layout, layout.name),
            )
            for index, layout in enumerate(LAYOUTS)
        ]  # fmt: skip
        made.append(
            Command("view.reset_layout", "Reset Layout", self.reset_layout, self._is_open, (),
                    "View", 2, 9, doc="Put all panels back where this layout has them")
        )  # fmt: skip
        return made

    def _panel_commands(self) -> list[Command]:
        made = [
            Command("view.side_bar", "Side Bar", self._toggle_side_bar, self._is_open, ("Ctrl+B",),
                    "View", 3, 0, doc="Show or hide the panels at the left"),
            Command("view.next_panel", "Next Panel", partial(self._docks.focus_next, 1), self._is_open,
                    ("Ctrl+Tab",), "View", 3, 1, doc="Give the keys to the next panel, also behind a tab"),
            Command("view.previous_panel", "Previous Panel", partial(self._docks.focus_next, -1),
                    self._is_open, ("Ctrl+Shift+Tab",), "View", 3, 2),
        ]  # fmt: skip
        for index, (panel_id, dock) in enumerate(self._docks.all.items()):
            keys = (f"{PANEL_KEYS[index // 10]}{(index + 1) % 10}",) if index < 10 * len(PANEL_KEYS) else ()
            spec = self._docks.spec(panel_id)
            made.append(
                Command(
                    f"view.panel.{panel_id}", dock.windowTitle(), partial(self._show_panel, panel_id),
                    partial(self._can_show, panel_id), keys, "View/Panels", 3, index, spec.icon,
                    is_checked=partial(self._is_shown, panel_id),
                )
            )  # fmt: skip
        return made

    def _theme_commands(self) -> list[Command]:
        made = [
            Command(
                f"view.theme.{mode}", title, partial(self.set_theme, cast(Mode, mode)),
                menu="View/Theme", group=4, order=index, is_checked=partial(self._is_theme, mode),
            )
            for index, (mode, title) in enumerate(THEMES)
        ]  # fmt: skip
        made.append(
            Command("view.theme", "Switch Between Dark and Light", self._switch_theme, shortcuts=("Ctrl+T",),
                    menu="View/Theme", group=5, icon="mdi6.theme-light-dark")
        )  # fmt: skip
        return made

    def reset_layout(self) -> None:
        """Apply the present layout again, and delete the stored arrangement."""
        self._arrangement.forget()
        self._apply(layout_named(self._docks.layout_name) or LAYOUTS[0])

    def set_theme(self, mode: Mode) -> None:
        """Choose a theme and remember it."""
        self._context.settings.set("theme", mode)
        self._context.theme.set_mode(mode)
        self._context.commands.state_changed.notify()

    def _switch_theme(self) -> None:
        self.set_theme(self._context.theme.opposite)

    def _is_theme(self, mode: str) -> bool:
        return self._context.theme.mode == mode

    def _apply(self, layout: Layout) -> None:
        focused = self._docks.focused_panel()
        self._docks.apply(layout)
        # Docks lose the focus when they are taken out and put back.
        self._docks.focus_first(focused, *(panel for row in layout.rows for panel in row.cells[0].panels))
        self._context.commands.state_changed.notify()

    def _offers(self, layout: Layout) -> bool:
        return self._is_open() and layout in self._docks.layouts()

    def _is_layout(self, name: str) -> bool:
        return self._docks.layout_name == name

    def _is_busy(self) -> bool:
        return self._context.model.is_busy

    def _is_open(self) -> bool:
        return self._context.model.opened is not None

    def _can_show(self, panel_id: str) -> bool:
        return self._is_open() and self._docks.is_offered(panel_id)

    def _is_shown(self, panel_id: str) -> bool:
        return not self._docks.all[panel_id].isHidden()

    def _show_panel(self, panel_id: str) -> None:
        dock = self._docks.all[panel_id]
        panel = self._docks.panels.get(panel_id)
        # A second press on the panel that has the focus closes it again.
        if not dock.isHidden() and panel is not None and panel.hasFocus():
            dock.close()
        else:
            self._docks.show_panel(panel_id)

    def _toggle_side_bar(self) -> None:
        ids = [panel_id for panel_id in self._docks.all if self._docks.spec(panel_id).area == "left"]
        offered = [panel_id for panel_id in ids if self._docks.is_offered(panel_id)]
        shown = any(self._is_shown(panel_id) for panel_id in offered)
        for panel_id in offered:
            self._docks.all[panel_id].setVisible(not shown)

    def _zoom_fit(self) -> None:
        for panel in self._docks.panels.values():
            fit = getattr(panel, "zoom_fit", None)
            if callable(fit):
                fit()

    def _show_manual(self) -> None:
        manual = ManualDialog(self._context.theme, self._docks.window)
        manual.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        manual.show()

    def _show_keys(self) -> None:
        sheet = ShortcutSheet(self._context.commands.all(), self._context.theme, self._docks.window)
        sheet.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        sheet.open()

    def _about(self) -> None:
        self._tell(f"npuviz {__version__}: a visual, cycle-level debugger for neural processing units.")
