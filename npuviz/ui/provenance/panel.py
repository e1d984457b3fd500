"""The provenance panel: a tree of what the selected bytes were made from, and of their users."""

import time
from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeView

from npuviz.base.errors import NpuvizError
from npuviz.base.names import echo
from npuviz.base.progress import Progress
from npuviz.base.units import format_count
from npuviz.debug.provenance import Provenance, Readers, is_followed, provenance_of
from npuviz.debug.session import Session
from npuviz.ui.kit.columns import abbreviate_names
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import add_keys, button, column, line, summary_line
from npuviz.ui.provenance.tree import THROUGH, TITLES, ProvenanceTree
from npuviz.workbench.selection import Selection, selected

NO_MACHINE = "What bytes were made from and who uses them is shown here."
NOTHING = "Select bytes, a tensor or an instruction: its origins and its users are shown here."
NOT_FOLLOWED = "The run has gone on since it was followed."
FOLLOWING = "following who made what\u2026"
WIDTHS = (190, 64, 104, 104)
THROUGH_ROOM = 620
"""Smallest width in pixels of a panel with the column "Through" (the memory of each use)."""
QUICK_SECONDS = 0.15
"""If following took no longer than this, it is repeated at each stop without being asked."""


class ProvenancePanel(Panel):
    """A tree, and above it a line that names its subject. Following a run is a verb of the session."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._seconds = 0.0
        self._is_asked = False
        self._shown: tuple[object, ...] = ()
        self._about: tuple[str, int, int] | None = None
        self._chosen: Selection | None = None
        self.tree = ProvenanceTree(self)
        self.view = QTreeView(self, uniformRowHeights=True, allColumnsShowFocus=True)
        self.view.setObjectName("provenance.tree")
        self.view.setAccessibleName("Provenance")
        self.view.setModel(self.tree)
        self.view.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.view.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        abbreviate_names(self.view, TITLES.index("Operator"))
        header = self.view.header()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        for place, width in enumerate(WIDTHS):
            header.resizeSection(place, width)
        self.view.clicked.connect(self._choose)
        self.view.doubleClicked.connect(self._go_to)
        add_keys(self.view, [(Qt.Key.Key_Return, self._choose_current)], with_children=False)
        self.summary = summary_line("provenance.summary")
        self.follow = button(
            self, "Follow", "Follow who made what, up to where the run is known", self._follow,
            name="provenance.follow",
        )  # fmt: skip
        bar = line((self.summary, 1), self.follow)
        self.set_pages(self.invitation(NO_MACHINE), column(bar, (self.view, 1), parent=self))
        self.setFocusProxy(self.view)
        self.on_session_changed()

    # -- hooks ----------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self._seconds, self._is_asked, self._shown = 0.0, False, ()
        self._about = self._chosen = None
        self.tree.show(None, None, ())
        self._show()

    def on_cycle_changed(self) -> None:
        if not self.model.is_running:
            self._show()

    def on_selection_changed(self, selection: Selection) -> None:
        # A selection made in the tree is shown by other panels, while the tree stays.
        place = self._place(selection)
        if selection != self._chosen and place is not None:
            self._about = place
            if not self.model.is_running:
                self._show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.view.setColumnHidden(THROUGH, self.width() < THROUGH_ROOM)

    @property
    def is_filled(self) -> bool:
        return not self._is_asked

    def save_state(self) -> dict[str, Any]:
        return {"widths": [self.view.header().sectionSize(place) for place in range(len(WIDTHS))]}

    def restore_state(self, state: dict[str, Any]) -> None:
        widths = state.get("widths")
        if isinstance(widths, list) and len(widths) == len(WIDTHS):
            for place, width in enumerate(widths):
                if isinstance(width, int) and 20 <= width <= 4000:
                    self.view.header().resizeSection(place, width)

    # -- inside ---------------------------------------------------------------------------------------

    def _show(self) -> None:
        session = self.model.session
        if self._about is None:
            self._about = self._place(self.context.selection.current)
        place = self._about
        self.show_page(session is not None and place is not None)
        self.empty.set_text(NO_MACHINE if session is None else NOTHING)
        self.empty.set_action_visible(session is None)
        if session is None or place is None:
            return
        if is_followed(session):
            self.follow.hide()
            self._fill(session, place)
        elif self._seconds <= QUICK_SECONDS and not self._is_asked:
            self._follow()
        else:
            self.follow.show()
            self.summary.setText(FOLLOWING if self._is_asked else NOT_FOLLOWED)

    def _follow(self) -> None:
        """Follow the run as a verb, because the machine may have to go to the end of the known run, and
        back.
        """
        self._is_asked = True

        def work(session: Session, _progress: Progress) -> None:
            begin = time.perf_counter()
            try:
                provenance_of(session)
            finally:
                self._seconds, self._is_asked = time.perf_counter() - begin, False

        self.model.perform("Following who made what", work)

    def _place(self, selection: Selection) -> tuple[str, int, int] | None:
        """Return the subject of a selection: ("memory", id, address) or ("instruction", index, 0), else
        None.
        """
        program = self.model.program
        if selection.memory is not None:
            return "memory", selection.memory.memory, selection.memory.address
        if selection.tensor is not None and program is not None:
            home = program.memory_map.of_tensor(selection.tensor)
            if home is not None:
                return "memory", home.memory, home.address
        if selection.instruction is not None and selection.instruction >= 0:
            return "instruction", selection.instruction, 0
        return None

    def _fill(self, session: Session, place: tuple[str, int, int]) -> None:
        shown = (place, session.version, session.cycle)
        if shown == self._shown:
            return
        self._shown = shown
        try:
            found = provenance_of(session)
            readers = self._readers(found, place)
        except (NpuvizError, ValueError, IndexError) as error:
            self.tree.show(None, None, ())
            self.summary.setText(echo(str(error)))
            return
        self.tree.show(found, readers.writer, readers.steps)
        for row in range(self.tree.rowCount()):
            top = self.tree.index(row, 0)
            self.view.setFirstColumnSpanned(row, QModelIndex(), True)
            self.view.expand(top)
        if readers.writer is not None:
            self.view.expand(self.tree.index(0, 0, self.tree.index(0, 0)))
        self.summary.setText(self._text(found, place, readers))
        self.summary.setToolTip(self.summary.text())

    def _readers(self, found: Provenance, place: tuple[str, int, int]) -> Readers:
        kind, number, address = place
        if kind == "memory" and self.model.description is not None:
            memory = next(each for each in self.model.description.memories if each.id == number)
            return found.readers(memory, address)
        step = found.last_of(number)
        return found.readers_of(step) if step is not None else Readers(None, (), None, None)

    def _text(self, found: Provenance, place: tuple[str, int, int], readers: Readers) -> str:
        kind, number, address = place
        name = self.instruction_text(number)
        if kind == "memory" and self.model.description is not None:
            memory = next(each for each in self.model.description.memories if each.id == number)
            name = f"{memory.name} {address:#x}"
        parts = [name]
        if readers.overwritten is not None:
            parts.append(f"overwritten at {format_count(readers.overwritten.cycle)}")
        if readers.outputs is None:
            parts.append(
                f"known to cycle {format_count(found.until)}: run on to see which outputs it reaches"
            )
        elif readers.outputs:
            parts.append(f"reaches {', '.join(echo(each) for each in readers.outputs)}")
        elif readers.doubtful:
            parts.append(f"may reach {', '.join(echo(each) for each in readers.doubtful)}")
        else:
            parts.append("no output depends on it")
        return "  \u00b7  ".join([*parts, *found.left_out])

    def _choose_current(self) -> None:
        self._choose(self.view.currentIndex())

    def _choose(self, index: QModelIndex) -> None:
        step = self.tree.item(index).step if index.isValid() else None
        if step is None or self.model.description is None:
            return
        unit = self.model.description.unit_named(step.unit)
        before = self.context.selection.current
        wanted = selected(
            instruction=step.instruction.index,
            node=step.instruction.node,
            unit=unit.id if unit is not None else -1,
        )
        self._chosen = wanted.with_fields(memory=before.memory, tensor=before.tensor)
        self.context.selection.set(self._chosen)

    def _go_to(self, index: QModelIndex) -> None:
        step = self.tree.item(index).step if index.isValid() else None
        if step is not None and not self.model.is_running:
            self.model.go_to(step.cycle)


SPEC = PanelSpec(
    "provenance", "Provenance", "mdi6.source-branch", "bottom", 6, ("access order",), ProvenancePanel
)
