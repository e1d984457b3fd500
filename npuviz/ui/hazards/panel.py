"""The hazards panel: errors of the program that the hardware does not check, by cycle."""

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QLabel, QMenu, QVBoxLayout, QWidget

from npuviz.base.units import format_count
from npuviz.sim.machine import Hazard
from npuviz.ui.hazards.detail import HazardDetail
from npuviz.ui.hazards.table import HazardTable
from npuviz.ui.kit.empty_state import EmptyState
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.table_view import add_copying, make_table
from npuviz.workbench.selection import selected

NONE_YET = "No hazard up to this cycle. Hazards are what the hardware does not check: wrong results, no stop."
NOT_ASKED = "Finding hazards computes the values of everything that has run so far."
LOOKING = "Looking for hazards\u2026"
NO_MACHINE = "The machine that is open does not look for hazards."
WIDTHS = (64, 110, 110, 110, 480)


class HazardsPanel(Panel):
    """Shows the findings of the hazard watch."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self.table = HazardTable(self.instruction_text, self)
        self.view = make_table(
            self.table, self.theme, "Hazards", self, object_name="hazards.table", widths=WIDTHS
        )
        add_copying(self.view, (self, "hazards"), self._add_actions)
        self.view.clicked.connect(self._choose)
        self.view.doubleClicked.connect(self._go_to)
        self.view.activated.connect(self._choose)
        look = EmptyState(NO_MACHINE, "Look for hazards", context.hazards.look, self)
        content = QWidget(self)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.view)
        self.detail = HazardDetail(self.instruction_text, content)
        self.detail.chosen.connect(self._select)
        self.view.selectionModel().currentChanged.connect(lambda index: self._explain(index))
        layout.addWidget(self.detail)
        self.note = QLabel("", content, wordWrap=True)
        self.note.setObjectName("hazards.note")
        self.note.setTextFormat(Qt.TextFormat.PlainText)
        self.note.setContentsMargins(8, 2, 8, 2)
        layout.addWidget(self.note)
        self.set_pages(look, content)
        self.setFocusProxy(self.view)
        context.hazards.changed.connect(self._show)
        self._show()

    def on_session_changed(self) -> None:
        self._show()

    def _show(self) -> None:
        watch = self.context.hazards
        found = watch.hazards or ()
        left = watch.findings.not_checked if watch.findings is not None else ()
        unchecked = f"Not checked: {'; '.join(left)}." if left else ""
        self.note.setText(unchecked)
        self.note.setVisible(bool(unchecked))
        self.table.show_rows(found, lambda hazard: hazard)
        self._explain(self.view.currentIndex())
        self.show_page(bool(found))
        if not watch.is_available:
            text = NO_MACHINE
        elif watch.is_looking:
            text = LOOKING
        elif watch.hazards is None and not watch.is_automatic:
            text = NOT_ASKED
        else:
            text = f"{NONE_YET}\n{unchecked}".rstrip()
        self.empty.set_text(text)
        self.empty.set_action_visible(text == NOT_ASKED)

    def _hazard(self, index: QModelIndex) -> Hazard | None:
        return self.table.rows[index.row()] if index.isValid() else None

    def _explain(self, index: QModelIndex) -> None:
        """Show the whole text of a row, of the first one for none."""
        rows, program = self.table.rows, self.model.program
        hazard = self._hazard(index) or (rows[0] if rows else None)
        self.detail.show_hazard(hazard, program.listing if program is not None else None)

    def _choose(self, index: QModelIndex) -> None:
        hazard, description = self._hazard(index), self.model.description
        if hazard is None or description is None:
            return
        unit = description.unit_named(hazard.unit)
        self._select(hazard.instruction, unit.id if unit is not None else -1)

    def _select(self, instruction: int, unit: int = -1) -> None:
        """Select an instruction, with the unit that executes it unless another one is given."""
        program = self.model.program
        if program is None:
            return
        is_known = 0 <= instruction < len(program.listing)
        found = program.listing.describe(instruction) if is_known else None
        node, own = (found.node, found.unit) if found is not None else (-1, -1)
        self.context.selection.set(
            selected(instruction=instruction if is_known else -1, unit=unit if unit >= 0 else own, node=node)
        )

    def _go_to(self, index: QModelIndex) -> None:
        hazard = self._hazard(index)
        if hazard is not None and not self.model.is_running:
            self.model.go_to(hazard.cycle)

    def _add_actions(self, menu: QMenu, index: QModelIndex) -> None:
        if self._hazard(index) is not None:
            cycle = self.table.rows[index.row()].cycle
            menu.addAction(f"Go to cycle {format_count(cycle)}", lambda: self.model.go_to(cycle))


SPEC = PanelSpec("hazards", "Hazards", "mdi6.alert-outline", "bottom", 3, ("hazards",), HazardsPanel)
