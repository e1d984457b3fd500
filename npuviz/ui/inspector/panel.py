"""The inspector panel: shows the page of the selection, with links to related things."""

from functools import partial
from typing import Any

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QToolButton

from npuviz.ui.bridge.still_answers import StillAnswers
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page_choice import make_page
from npuviz.ui.inspector.view import InspectorView
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import add_keys, button, column, line, paint_icons
from npuviz.ui.kit.trace_facts import NodeTimes
from npuviz.workbench.selection import NOTHING, Selection

NOTHING_OPEN = "Open a model or a trace; what you select is explained here."
MAX_HISTORY = 200


class InspectorPanel(Panel):
    """Updates the page of the selection, and keeps a history of selections to go back and forward in."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._consumers: dict[int, list[int]] | None = None
        self._times: NodeTimes | None = None
        self._times_complete = True
        self._made: dict[str, tuple[Any, Any]] = {}
        self._history: list[Selection] = [NOTHING]
        self._place = 0
        self.view = InspectorView(context.theme, self)
        self.view.followed.connect(context.selection.set)
        self._answers = StillAnswers(self)
        self._answers.changed.connect(self._show_page)
        self._back = self._button("mdi6.arrow-left", "Back to what was selected before (Alt+Left)", -1)
        self._forward = self._button("mdi6.arrow-right", "Forward again (Alt+Right)", 1)
        self._machine = self._button("mdi6.home-outline", "The machine and the program", 0)
        self._times_timer = QTimer(self, interval=0)
        self._times_timer.timeout.connect(self._read_times)
        self._lay_out()
        self.on_theme_changed()
        self.on_session_changed()

    def _button(self, name: str, tip: str, step: int) -> QToolButton:
        run = partial(self.travel, step) if step else self._go_home
        return button(self, "", tip, lambda: run(), icon_name=name)

    def _lay_out(self) -> None:
        tools = (self._back, self._forward, self._machine)
        bar = line(*tools, 1, margins=(4, 2, 8, 2), spacing=2)
        self.set_pages(self.invitation(NOTHING_OPEN), column(bar, (self.view, 1), parent=self))
        add_keys(self, (("Alt+Left", lambda: self.travel(-1)), ("Alt+Right", lambda: self.travel(1))))

    # -- hooks --------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        program, reader = self.model.program, self.model.reader
        self._history, self._place = [NOTHING], 0
        self._consumers = program.graph.consumers() if program else None
        self._times = None
        self._made = {}
        self._answers.move(None)
        if reader is not None and (num_nodes := len(reader.schema.node_names)):
            self._times = NodeTimes(reader, num_nodes)
        is_open = reader is not None or program is not None
        self.show_page(is_open)
        self._refresh()

    def on_cycle_changed(self) -> None:
        session = self.model.session
        if not self.model.is_running:
            self._answers.move(session.machine if session is not None else None)
            self._refresh()

    def on_selection_changed(self, selection: Selection) -> None:
        if selection != self._history[self._place]:
            self._history = [*self._history[: self._place + 1], selection][-MAX_HISTORY:]
            self._place = len(self._history) - 1
        self._refresh()

    def on_theme_changed(self) -> None:
        paint_icons((self._back, self._forward, self._machine), self.theme)
        self.view.refresh()

    def save_state(self) -> dict[str, Any]:
        return {"folded": sorted(self.view.folded)}

    def restore_state(self, state: dict[str, Any]) -> None:
        folded = state.get("folded")
        if isinstance(folded, list):
            self.view.set_folded(title for title in folded if isinstance(title, str))

    @property
    def is_filled(self) -> bool:
        return not self._answers.is_waiting

    # -- the page -------------------------------------------------------------------------------------

    def travel(self, step: int) -> None:
        """Go back (negative) or forward (positive) in the history of selections."""
        place = self._place + step
        if 0 <= place < len(self._history):
            self._place = place
            self.context.selection.set(self._history[place])
            self._update_buttons()

    def _go_home(self) -> None:
        self.context.selection.clear()

    def _refresh(self) -> None:
        if self.is_empty:
            return
        # Only pages of operators show these times, so they are read when an operator is selected.
        if self.context.selection.current.node is None:
            self._times_complete = False
        elif self._times is not None and not self.model.is_running:
            self._times_complete = self._times.advance()
            if not self._times_complete:
                self._times_timer.start()
        self._show_page()

    def _read_times(self) -> None:
        if self._times is None or self._times.advance():
            self._times_timer.stop()
            self._times_complete = True
            self._show_page()

    def _show_page(self) -> None:
        model = self.model
        source = InspectorSource(
            program=model.program,
            description=model.description,
            reader=model.reader,
            session=None if model.is_running else model.session,
            cycle=model.cycle
            if model.session is not None or model.reader is None
            else model.reader.end_cycle,
            times=self._times,
            times_complete=self._times_complete,
            consumers=self._consumers,
            answers=self._answers,
            under_way=model.under_way,
            made=self._made,
        )
        page = make_page(source, self.context.selection.current)
        if self._answers.ask():
            page = make_page(source, self.context.selection.current)
        self.view.show_page(page, self.marks_changes)
        self._update_buttons()

    def _update_buttons(self) -> None:
        self._back.setEnabled(self._place > 0)
        self._forward.setEnabled(self._place < len(self._history) - 1)
        self._machine.setEnabled(not self.context.selection.current.is_empty)


SPEC = PanelSpec("inspector", "Inspector", "mdi6.information-outline", "right", 0, (), InspectorPanel)
