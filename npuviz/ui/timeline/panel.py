"""The timeline panel: what every unit did, when, and why it waited."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from PySide6.QtCore import QPoint, QSignalBlocker
from PySide6.QtWidgets import QApplication, QMenu, QToolButton

from npuviz.program.instruction import Dependency, DependencyKind, HasDependencies
from npuviz.sim.fabric import HasElements
from npuviz.trace.unit_times import unit_times
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import button, column, filter_line, line, pop_up
from npuviz.ui.kit.picture import add_save_actions
from npuviz.ui.kit.thing_menu import ThingMenu
from npuviz.ui.timeline.arrows import arrows_of, slice_of
from npuviz.ui.timeline.grouped import By, Groups, can_group
from npuviz.ui.timeline.legend import TimelineLegend
from npuviz.ui.timeline.rows import Place, leading_tracks
from npuviz.ui.timeline.state import NO_INSTRUCTIONS, Picked, Range
from npuviz.ui.timeline.view import TimelineView
from npuviz.workbench.selection import Selection

EMPTY_TEXT = "The timeline shows what every unit does, cycle by cycle. Open a model or a trace to fill it."


LINE_TIP = "Show what each unit did for each line of the program, above the units"
LOOP_TIP = "Show the iterations of the program's loops above the units; a click on one goes there"
MAX_WEIGHED = 256
"""Most tracks whose cycles decide which entries of the legend keep their names."""
REACH = 4.0
"""Distance in pixels from the pointer within which a slice is looked for."""


class TimelinePanel(Panel):
    """Connects the view and the legend with the session and the selection."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self.view = TimelineView(context.theme)
        self.legend = TimelineLegend(context.theme)
        self.filter = filter_line(None, "Filter tracks", self._filter_changed, name="timeline.filter")
        self._own_selection: Selection | None = None
        self._colour = self._toggle("by operator", self._set_by_operator)
        self._counters = self._toggle("counters", self._set_counters, is_on=True)
        tip = "Show only the tracks of the selected element of the fabric"
        self._only = self._toggle("only selected", self._show_only, tip)
        self._by: dict[By, QToolButton] = {
            "line": self._toggle("by line", lambda on: self._set_by("line", on), LINE_TIP),
            "loop": self._toggle("by loop", lambda on: self._set_by("loop", on), LOOP_TIP),
        }
        self._groups = Groups()
        self._leading = frozenset[int]()
        self._element: tuple[int, int] | None = None
        self._is_whole = False
        fit = button(None, "fit", "Show the whole run (F)", self.view.fit, name="timeline.fit")
        tools = (self.filter, fit, self._colour, self._counters, *self._by.values(), self._only)
        bar = line(*tools, (self.legend, 1))
        self.set_pages(EMPTY_TEXT, column(bar, (self.view, 1)))
        self.setFocusProxy(self.view)
        self.view.picked.connect(self._picked)
        self.view.range_changed.connect(self._range_changed)
        self.view.go_to.connect(context.model.go_to)
        self.view.menu_requested.connect(self._show_menu)
        self.view.bookmark_asked.connect(context.bookmarks.add)
        self.view.bookmark_dropped.connect(context.bookmarks.remove)
        self._forget_bookmarks = context.bookmarks.changed.subscribe(self._show_bookmarks)
        self._show_bookmarks()
        context.requests.path_marked.connect(self.view.set_path)

    def _toggle(self, text: str, changed: Any, tip: str = "", is_on: bool = False) -> QToolButton:
        return button(None, text, tip, changed, name=f"timeline.{text.replace(' ', '_')}", is_on=is_on)

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        reader = self.model.reader
        self._own_selection = None
        self._element = None
        session = self.model.session
        self._only.setVisible(session is not None and isinstance(session.machine, HasElements))
        self._show_only()
        description = self.model.description
        is_estimated = description is not None and description.features.get("estimated") is True
        self.view.set_reader(reader, self.name_of if is_estimated else None)
        assumed = {unit.id for unit in description.units if unit.estimated} if description else set[int]()
        self._is_whole = False
        opened = self.model.opened
        for toggle in self._by.values():
            toggle.setVisible(opened is not None and can_group(opened.listing))
        self._leading = frozenset()
        self._regroup()
        self._lead()
        self.view.set_estimated(t.id for t in self.view.tracks if t.unit in assumed)
        self.show_page(reader is not None)
        self._show_legend()
        self.on_cycle_changed()

    def on_cycle_changed(self) -> None:
        if self.model.reader is None:
            return
        has_machine = self.model.description is not None
        was_visible = self._is_cursor_visible()
        self.view.set_cursor_cycle(
            self.model.cycle if has_machine else -1, reveal=was_visible or not self.model.is_running
        )
        self.view.set_under_way(self.model.under_way)
        if self._groups.update(is_final=not self.model.is_running):
            self._arrange()
        self.view.refresh_data()
        picked = self.view.state.picked
        if picked is not None and not self.model.is_running:
            self._show_arrows(picked)

    def on_running_changed(self, running: bool) -> None:
        if running:
            self.view.set_under_way(())
        else:
            self._lead()
            if not self.model.is_step:
                self._weigh_legend()

    def on_theme_changed(self) -> None:
        # The legend shows the view's colours, and Qt would tell the view of the theme only after its panel.
        self.view.refresh_colors()
        self._show_legend()

    def on_selection_changed(self, selection: Selection) -> None:
        self.view.set_node(-1 if selection.node is None else selection.node)
        if selection.element is not None and selection.element != self._element:
            self._element = selection.element
            self._show_only()
        if selection == self._own_selection:
            return
        state = self.view.state
        if selection.track is not None and selection.cycles is not None:
            picked = state.slice_at(selection.track, selection.cycles[0])
        elif selection.instruction is not None:
            picked = self._slice_of_instruction(selection.instruction)
        else:
            picked = None
        self.view.pick(picked, tell=False)
        self.view.set_instructions(NO_INSTRUCTIONS)
        if picked is not None:
            self.view.reveal_row(picked.track)
            self.view.reveal_cycles(picked.start, picked.end)
            self._show_arrows(picked)
        elif selection.unit is not None:
            first = next((t.id for t in self.view.tracks if t.unit == selection.unit), None)
            if first is not None:
                self.view.bring_up(first)
        self._explain_arrows()

    def dispose(self) -> None:
        super().dispose()
        self._forget_bookmarks()

    def zoom_fit(self) -> None:
        """Show the whole run; the window's command calls this."""
        self.view.fit()

    def save_state(self) -> dict[str, Any]:
        options = self.view.options
        return {
            "row_height": options.row_height,
            "header_width": self.view.state.header_width,
            "collapsed": sorted(options.collapsed),
            "shows_counters": options.shows_counters,
            "by_operator": self.view.by_operator,
            "grouped_by": self._grouped_by(),
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        options = self.view.options
        height, width = state.get("row_height"), state.get("header_width")
        if isinstance(height, int) and 12 <= height <= 64:
            options = replace(options, row_height=height)
        if isinstance(width, int):
            self.view.set_header_width(width)
        collapsed = state.get("collapsed")
        if isinstance(collapsed, list):
            options = replace(
                options, collapsed=frozenset(name for name in collapsed if isinstance(name, str))
            )
        self.view.set_options(options)
        self._counters.setChecked(state.get("shows_counters") is not False)
        self._colour.setChecked(state.get("by_operator") is True)
        for by, toggle in self._by.items():
            toggle.setChecked(state.get("grouped_by") == by)

    # -- from the view --------------------------------------------------------------------------------

    def _picked(self, picked: Picked | None) -> None:
        if picked is None:
            self.view.set_instructions(NO_INSTRUCTIONS)
            self._select(Selection())
            self._explain_arrows()
            return
        track = next(track for track in self.view.tracks if track.id == picked.track)
        turn = self._groups.turn_of(picked)
        self.view.set_instructions(NO_INSTRUCTIONS if turn is None else turn.instructions)
        self._select(self._groups.selection_of(picked, track.unit))
        if turn is None:
            self._show_arrows(picked)
        elif self.model.session is not None and not self.model.is_running:
            self.model.go_to(turn.start)

    def _range_changed(self, chosen: Range | None) -> None:
        current = self.context.selection.current
        self._select(current.with_fields(cycles=(chosen.first, chosen.last) if chosen else None))

    def _select(self, selection: Selection) -> None:
        self._own_selection = selection
        self.context.selection.set(selection)

    # -- inside -----------------------------------------------------------------------------------------

    def _is_cursor_visible(self) -> bool:
        state = self.view.state
        return state.viewport.start <= state.cursor <= state.viewport.end

    def _lead(self) -> None:
        """Put the most important tracks first; which units dominate is known only at the end of a run."""
        reader, session = self.model.reader, self.model.session
        if reader is None or self._is_whole:
            return
        tracks = reader.schema.tracks
        self._is_whole = session is None or session.is_finished
        shares: dict[int, float] = {}
        if self._is_whole:
            units = {track.unit for track in tracks if "." not in track.name}
            shares = {unit: time.share for unit, time in unit_times(reader, units=units).items()}
        leading = leading_tracks(tracks, shares)
        self._leading = leading
        self._arrange()

    def _arrange(self) -> None:
        """Put the leading tracks, and those by line or loop, before the others."""
        options = self._groups.arranged(self.view.options, self._leading)
        if options is not self.view.options:
            self.view.set_options(options)

    def _grouped_by(self) -> By:
        """Return by what the tracks above those of the units are, "" for none."""
        chosen: tuple[By, ...] = tuple(by for by, toggle in self._by.items() if toggle.isChecked())
        return chosen[0] if chosen else ""

    def _set_by(self, by: By, checked: bool) -> None:
        if checked:
            for other, toggle in self._by.items():
                if other != by:
                    with QSignalBlocker(toggle):
                        toggle.setChecked(False)
        self._regroup()
        self._show_legend()

    def _regroup(self) -> None:
        """Show the tracks by line or loop that are chosen, or none."""
        reader, opened = self.model.reader, self.model.opened
        if reader is None or opened is None:
            return
        shown = self._groups.choose(self._grouped_by(), reader, opened.listing)
        if shown is not self.view.reader:
            self.view.regroup(shown)
        self._arrange()

    def _units_of(self, instructions: Sequence[int]) -> dict[int, int]:
        """Return {instruction: unit that executes it}, -1 if there is no program."""
        program = self.model.program
        if program is None:
            return dict.fromkeys(instructions, -1)
        units = program.listing.units_of(np.array(instructions, dtype=np.int64)).tolist()
        return dict(zip(instructions, units, strict=True))

    def _show_arrows(self, picked: Picked) -> None:
        reader, program = self.model.reader, self.model.program
        if reader is None:
            return
        needed: tuple[Dependency, ...] = ()
        is_known = program is not None and 0 <= picked.instruction < len(program.listing)
        if program is not None and is_known and isinstance(program.listing, HasDependencies):
            needed = program.listing.dependencies_of(picked.instruction)
        self.view.set_arrows(arrows_of(reader, picked, self._units_of, needed))
        self._explain_arrows()

    def _explain_arrows(self) -> None:
        on_show = {arrow.kind for arrow in self.view.state.arrows}
        self.legend.set_arrows([kind for kind in get_args(DependencyKind) if kind in on_show])

    def _slice_of_instruction(self, instruction: int) -> Picked | None:
        reader = self.model.reader
        if reader is None:
            return None
        found = slice_of(reader, self._units_of, instruction, self.model.cycle)
        return None if found is None else self.view.state.slice_at(found[0], found[1])

    def name_of(self, instruction: int) -> tuple[str, str]:
        """Return opcode and first part of the listing's text of an instruction, as short and long label.

        Used for estimated machines, whose interval kinds say little.
        """
        program = self.model.program
        if program is None or not 0 <= instruction < len(program.listing):
            return "", ""
        found = program.listing.describe(instruction)
        name = found.text.partition("  ")[0]
        return found.opcode, name if name.startswith(found.opcode) else f"{found.opcode}  {name}"

    def _show_legend(self) -> None:
        index = self.view.state.index
        if index is None:
            self.legend.set_entries(None, ())
            return
        self.legend.set_entries(self.view.style_colors, index.categories.legend())
        self._weigh_legend()

    def _weigh_legend(self) -> None:
        """Give the legend the cycles of its entries; not after each step, which changes little."""
        index = self.view.state.index
        if index is not None:
            recorded = self.view.tracks[: self.view.num_recorded]
            tracks = [track.id for track in recorded if track.kind == "interval"]
            self.legend.set_amounts(index.amounts_in_legend(tracks[:MAX_WEIGHED]))

    def _filter_changed(self, text: str) -> None:
        self.view.set_options(replace(self.view.options, filter_text=text))

    def _set_by_operator(self, checked: bool) -> None:
        self.view.set_by_operator(checked)
        self._show_legend()

    def _set_counters(self, checked: bool) -> None:
        self.view.set_options(replace(self.view.options, shows_counters=checked))

    def _show_only(self) -> None:
        """Show only the tracks of the selected element, if the button is on and the element has tracks."""
        session, units = self.model.session, None
        machine = session.machine if session is not None and not self.model.is_running else None
        if self._only.isChecked() and self._element is not None and isinstance(machine, HasElements):
            units = frozenset(machine.units_of_element(*self._element)) or None
        elif self._only.isChecked() and self.model.is_running:
            return
        if units != self.view.options.units:
            self.view.set_options(replace(self.view.options, units=units))

    def _show_bookmarks(self) -> None:
        self.view.set_bookmarks(self.context.bookmarks.all)

    def _show_menu(self, point: QPoint, place: Place) -> None:
        menu = QMenu(self)
        cycle = max(round(self.view.state.viewport.cycle_at(place.x)), 0)
        if place.zone == "tracks" and place.track >= 0:
            self._add_slice(menu, place, cycle)
            menu.addSeparator()
        if self.model.session is not None and place.zone in ("tracks", "ruler"):
            menu.addAction(f"Go to cycle {cycle}", lambda: self.model.go_to(cycle))
        menu.addAction("Show the whole run", self.view.fit)
        self._add_track(menu, place)
        measurement = self.view.state.measurement
        if measurement is not None:
            menu.addAction(
                "Copy measurement as CSV", lambda: QApplication.clipboard().setText(measurement.as_csv())
            )
        menu.addSeparator()
        add_save_actions(menu, self.view, "timeline")
        pop_up(menu, point)

    def _add_slice(self, menu: QMenu, place: Place, cycle: int) -> None:
        """Add entries for the slice under the pointer, or for the gap between two."""
        state, reader = self.view.state, self.model.reader
        if reader is None or not state.is_interval_track(place.track):
            return
        track = next(track for track in self.view.tracks if track.id == place.track)
        picked = state.slice_near(place.track, place.x, REACH)
        things = ThingMenu(self.context, menu)
        turn = self._groups.turn_of(picked) if picked is not None else None
        if turn is not None:
            if self.model.session is not None:
                menu.addAction("Go to where it begins", lambda: self.model.go_to(turn.start))
            menu.addAction("Zoom to it", lambda: self.view.zoom_to(turn.start, turn.end))
            things.add_copy(f"{turn.text}, cycles {turn.start}..{turn.end} ({turn.end - turn.start})")
            return
        if picked is None:
            is_recorded = cycle < reader.end_cycle
            if track.unit >= 0 and is_recorded:
                things.add_slice(track.unit, -1, cycle, waits=True)
            return
        self.view.pick(picked)
        kind = next(kind for kind in reader.schema.kinds if kind.id == picked.kind)
        inside = min(max(cycle, picked.start), picked.end - 1)
        things.add_slice(track.unit, picked.instruction, inside, waits=kind.role.startswith("wait-"))
        menu.addAction("Zoom to it", lambda: self.view.zoom_to(picked.start, picked.end))
        things.add_copy(self._slice_text(picked, track.name, kind.name))

    def _slice_text(self, picked: Picked, track: str, kind: str) -> str:
        """Describe a slice in one line: track, kind, cycles, instruction, operator."""
        parts = [f"{track}: {kind}", f"cycles {picked.start}..{picked.end} ({picked.end - picked.start})"]
        if picked.instruction >= 0:
            parts.append(f"instruction {self.instruction_text(picked.instruction) or picked.instruction}")
        reader = self.model.reader
        if reader is not None and 0 <= picked.node < len(reader.schema.node_names):
            parts.append(f"operator {reader.schema.node_names[picked.node]}")
        return ", ".join(parts)

    def _add_track(self, menu: QMenu, place: Place) -> None:
        """Add entries that pin, hide and show tracks."""
        options = self.view.options
        if place.track >= 0:
            pinned = options.pinned
            if place.track in pinned:
                rest = tuple(track for track in pinned if track != place.track)
                menu.addAction("Unpin track", lambda: self.view.set_options(replace(options, pinned=rest)))
            else:
                more = (*pinned, place.track)
                menu.addAction(
                    "Pin track to the top", lambda: self.view.set_options(replace(options, pinned=more))
                )
            hidden = options.hidden | {place.track}
            menu.addAction("Hide track", lambda: self.view.set_options(replace(options, hidden=hidden)))
        if options.hidden:
            menu.addAction(
                f"Show {len(options.hidden)} hidden tracks",
                lambda: self.view.set_options(replace(options, hidden=frozenset())),
            )


SPEC = PanelSpec("timeline", "Timeline", "mdi6.chart-gantt", "center", 0, (), TimelinePanel, listens=True)
