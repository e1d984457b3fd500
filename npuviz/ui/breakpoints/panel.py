"""The breakpoints panel: set, enable, delete breakpoints, go to their last hits; bookmarks and branches."""

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QPoint
from PySide6.QtGui import QGuiApplication, QKeySequence, Qt
from PySide6.QtWidgets import (
    QHeaderView,
    QMenu,
    QPushButton,
    QScrollArea,
    QTableView,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from npuviz.base.units import format_count
from npuviz.debug.condition.language import parse
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.branches import comparison
from npuviz.debug.session import Session
from npuviz.ui.breakpoints.bookmarks import BookmarkPage
from npuviz.ui.breakpoints.branches import BranchPage
from npuviz.ui.breakpoints.condition_line import ConditionLine
from npuviz.ui.breakpoints.condition_words import ConditionWords, examples, words_of
from npuviz.ui.breakpoints.table import CONDITION, BreakpointTable, rows_of
from npuviz.ui.kit.panel import Panel, PanelContext, PanelSpec
from npuviz.ui.kit.parts import button, column, line, muted_label, paint_icons, pop_up
from npuviz.ui.kit.table_view import make_table, on_key
from npuviz.ui.theme.theme import GRID
from npuviz.workbench.finding.places import selection_of
from npuviz.workbench.sessions.bookmarks import Bookmark

NO_SESSION = "Open a model to set breakpoints on cycles, operators, instructions, queues and memory."
BUNDLE_ONLY = "A recorded trace cannot be run: open the model it came from to set breakpoints."
NO_BREAKPOINTS = "Nothing stops the run yet. Click the gutter of the program, press F9, or try:"


class BreakpointsPanel(Panel):
    """A table, a line to add breakpoints, and examples while there are none; further pages for the others."""

    def __init__(self, context: PanelContext) -> None:
        super().__init__(context)
        self._last_hits: dict[int, int] = {}
        self.table = BreakpointTable(self)
        self.table.toggled.connect(self._set_enabled)
        self.line = ConditionLine(context.theme, self._check, self)
        self.line.accepted.connect(self.add)
        self.view = self._make_view()
        self._examples = _Lines(self)
        self._examples_layout = QVBoxLayout(self._examples)
        self._examples_layout.setContentsMargins(12, 8, 12, 8)
        self._examples_layout.setSpacing(4)
        # In a low panel the examples scroll instead of being squeezed.
        self._examples_area = QScrollArea(self, widgetResizable=True)
        self._examples_area.setFrameShape(QScrollArea.Shape.NoFrame)
        self._examples_area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._examples_area.setWidget(self._examples)
        self._all = button(
            self, "", "Enable all, or disable all if all are enabled", self.toggle_all,
            icon_name="mdi6.check-all", is_flat=False,
        )  # fmt: skip
        self._delete = button(
            self, "", "Delete the selected breakpoints (Del)", self.delete_selected,
            icon_name="mdi6.delete-outline", is_flat=False,
        )  # fmt: skip
        self.bookmarks = BookmarkPage(context.theme, context.bookmarks, self._go_to_bookmark, self)
        self.branches = BranchPage(context.theme, self.switch_branch, self.compare_branch, self)
        self._num_branches = 0
        self._lay_out()
        context.model.breakpoints_changed.connect(self.refresh)
        self.on_theme_changed()
        self.on_session_changed()

    def _make_view(self) -> QTableView:
        view = make_table(self.table, self.theme, "Breakpoints", self, show_menu=self._show_menu)
        header = view.horizontalHeader()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(CONDITION, QHeaderView.ResizeMode.Stretch)
        view.doubleClicked.connect(self._go_to_hit)
        on_key(view, Qt.Key.Key_Delete, self.delete_selected)
        on_key(view, Qt.Key.Key_Return, lambda: self._go_to_hit(view.currentIndex()))
        on_key(view, QKeySequence.StandardKey.Copy, self._copy)
        return view

    def _lay_out(self) -> None:
        tools = line((self.line, 1), self._all, self._delete, margins=(0, 0, 4, 0), spacing=0)
        for tool in (self._all, self._delete):
            tools.setAlignment(tool, Qt.AlignmentFlag.AlignTop)
        self._tabs = QTabWidget(self, documentMode=True)
        self._tabs.setObjectName("breakpoints.tabs")
        self._tabs.setAccessibleName("Breakpoints, bookmarks and branches")
        self._tabs.addTab(column(tools, (self.view, 1), (self._examples_area, 1), parent=self), "Conditions")
        self._tabs.addTab(self.bookmarks, "Bookmarks")
        self._tabs.addTab(self.branches, "Branches")
        self._tabs.setTabPosition(QTabWidget.TabPosition.South)
        self.set_pages(self.invitation(NO_SESSION), self._tabs)

    # -- hooks --------------------------------------------------------------------------------------

    def on_session_changed(self) -> None:
        self._last_hits, self._num_branches = {}, 0
        session = self.model.session
        self._show_branches(session)
        has_trace = self.model.reader is not None
        if not self._tabs.isTabEnabled(0):
            self._tabs.setTabEnabled(0, True)
            self._tabs.setCurrentIndex(0)
        # A recorded trace takes bookmarks, but no breakpoints.
        is_recorded = session is None and has_trace
        self._tabs.setTabToolTip(0, BUNDLE_ONLY if is_recorded else "")
        if session is None:
            self._tabs.setTabEnabled(0, not is_recorded)
            self.table.update_rows([])
            self.show_page(has_trace)
            return
        words = words_of(session.program, session.description, session.machine.probes, session.fabric)
        self.line.set_words(words)
        self._show_examples(words)
        self.show_page(1)
        self.refresh()

    def on_running_changed(self, running: bool) -> None:
        self.table.is_locked = running
        for widget in (self.line, self._examples):
            widget.setEnabled(not running)
        if running:
            # `refresh` enables them again if there are breakpoints.
            self._all.setEnabled(False)
            self._delete.setEnabled(False)
        else:
            stop = self.model.stop
            for breakpoint_id in stop.breakpoints if stop else ():
                self._last_hits[breakpoint_id] = stop.cycle if stop else -1
            self.refresh()
            self._show_branches(self.model.session)

    def on_theme_changed(self) -> None:
        paint_icons((self._all, self._delete), self.theme)
        self.line.validate()

    # -- breakpoints ----------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Show the present breakpoints; do nothing while the machine runs."""
        session = self.model.session
        if self.model.is_running:
            return
        self.table.update_rows(rows_of(session.breakpoints if session else None, self._last_hits))
        has_rows = self.table.rowCount() > 0
        self.view.setVisible(has_rows)
        self._examples_area.setVisible(not has_rows)
        self._all.setEnabled(has_rows)
        self._delete.setEnabled(has_rows)

    def add(self, text: str) -> None:
        """Set a breakpoint; do nothing while the machine runs. Raises ConditionError if the text is no
        condition.
        """
        if self.model.session is None or self.model.is_running:
            return
        made = self.model.add_breakpoint(text)
        self.refresh()
        if made is not None:
            self.view.selectRow(self.table.rowCount() - 1)

    def delete_selected(self) -> None:
        """Delete the selected breakpoints."""
        session = self.model.session
        if session is None or self.model.is_running:
            return
        for breakpoint_id in [
            self.table.rows[index.row()].id for index in self.view.selectionModel().selectedRows()
        ]:
            session.breakpoints.remove(breakpoint_id)
        self.refresh()

    def edit_bookmark(self, bookmark: Bookmark) -> None:
        """Let the user edit the note of a bookmark; the window's command calls this."""
        self._tabs.setCurrentWidget(self.bookmarks)
        self.bookmarks.edit(bookmark)

    def _go_to_bookmark(self, bookmark: Bookmark) -> None:
        if bookmark.is_range:
            self.context.selection.set(selection_of(bookmark, self.model.reader))
        if self.model.session is not None:
            self.model.go_to(bookmark.first)

    def dispose(self) -> None:
        super().dispose()
        self.bookmarks.forget()

    # -- branches -------------------------------------------------------------------------------------

    def switch_branch(self, branch: int) -> None:
        """Go to a branch, at the cycle where it was left."""
        self.model.perform(f"Going to branch {branch}", lambda session, p: session.switch(branch, p))

    def compare_branch(self, branch: int) -> None:
        """Simulate a branch besides the present, and show how they differ."""
        found: list[Answer] = []

        def tell() -> None:
            for answer in found:
                self._tell_comparison(branch, answer)

        self.model.perform(
            f"Comparing with branch {branch}", lambda session, _p: found.append(comparison(session, branch))
        )
        self.model.when_free(tell)

    def _tell_comparison(self, branch: int, answer: Answer) -> None:
        outputs = ", ".join(answer["outputs"])
        here, there = (format_count(answer[key]) for key in ("cycles_present", "cycles_branch"))
        text = f"The present takes {here} cycles, branch {branch} {there}; {outputs or 'no outputs'}."
        cycle = answer["first_difference"]
        title = "" if cycle is None else "Go There"
        show = None if cycle is None else lambda: self.model.go_to(cycle)
        self.context.requests.told.emit(text, answer.as_text(), title, show)

    def _show_branches(self, session: Session | None) -> None:
        """Show the branches, and a message about one that a write has just made."""
        self.branches.show_branches(session)
        branches = session.branches if session is not None else ()
        if branches and len(branches) > self._num_branches and self.model.is_step:
            number = branches[-1].id
            self.context.requests.told.emit(
                f"The future before that write is kept as branch {number}.", "", "Show",
                lambda: self._show_page(self.branches),
            )  # fmt: skip
        self._num_branches = len(branches)

    def _show_page(self, page: QWidget) -> None:
        self.context.commands.run("view.panel.breakpoints")
        self._tabs.setCurrentWidget(page)

    def toggle_all(self) -> None:
        """Enable all breakpoints; disable all if all are enabled."""
        enable = not all(row.is_enabled for row in self.table.rows)
        for row in list(self.table.rows):
            self._set_enabled(row.id, enable)

    def _set_enabled(self, breakpoint_id: int, enabled: bool) -> None:
        session = self.model.session
        if session is not None and not self.model.is_running:
            session.breakpoints.set_enabled(breakpoint_id, enabled)
            self.refresh()

    def _check(self, text: str) -> object:
        session = self.model.session
        if session is None or self.model.is_running:
            return None
        return parse(text, session.description, session.program, session.machine.probes, session.fabric)

    def _go_to_hit(self, index: QModelIndex) -> None:
        if index.isValid() and (cycle := self.table.rows[index.row()].last_hit) >= 0:
            self.model.go_to(cycle)

    def _copy(self) -> None:
        rows = [self.table.rows[index.row()].text for index in self.view.selectionModel().selectedRows()]
        QGuiApplication.clipboard().setText("\n".join(rows))

    def _show_menu(self, position: QPoint) -> None:
        index = self.view.indexAt(position)
        if not index.isValid():
            return
        if not self.view.selectionModel().isRowSelected(index.row()):
            flags = QItemSelectionModel.SelectionFlag
            self.view.selectionModel().select(index, flags.ClearAndSelect | flags.Rows)
        row = self.table.rows[index.row()]
        menu = QMenu(self)
        menu.addAction("Go to the last hit", lambda: self._go_to_hit(index)).setEnabled(row.last_hit >= 0)
        verb = "Disable" if row.is_enabled else "Enable"
        menu.addAction(verb, lambda: self._set_enabled(row.id, not row.is_enabled))
        menu.addAction("Edit a copy", lambda: self.line.set_text(row.text))
        menu.addAction("Copy", self._copy)
        menu.addSeparator()
        menu.addAction("Delete", self.delete_selected)
        pop_up(menu, position, self.view.viewport())

    def _show_examples(self, words: ConditionWords) -> None:
        while (item := self._examples_layout.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.deleteLater()
        label = muted_label(self._examples, text=NO_BREAKPOINTS)
        label.setWordWrap(True)
        self._examples_layout.addWidget(label)
        for text in examples(words):
            example = QPushButton(text, self._examples, flat=True)
            example.setFont(self.theme.font_mono())
            example.setFixedHeight(example.fontMetrics().height() + 2 * GRID)
            example.setToolTip("Put this condition into the line above")
            example.clicked.connect(lambda _checked=False, text=text: self.line.set_text(text))
            self._examples_layout.addWidget(example, 0, Qt.AlignmentFlag.AlignLeft)
        self._examples_layout.addStretch(1)


class _Lines(QWidget):
    """Wrapped lines that set their height for their width themselves, because a scroll area does not."""

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        layout = self.layout()
        is_due = event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest)
        if is_due and layout is not None and layout.hasHeightForWidth():
            self.setMinimumHeight(layout.totalHeightForWidth(self.width()))
        return done


SPEC = PanelSpec("breakpoints", "Breakpoints", "mdi6.circle-slice-8", "bottom", 1, (), BreakpointsPanel)
