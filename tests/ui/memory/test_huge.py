"""Memories with more lines than Qt counts pixels for."""

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from npuviz.ui.memory import table as module
from npuviz.ui.memory.body import _contents_view
from npuviz.ui.memory.panel import SPEC, MemoryPanel
from npuviz.ui.memory.table import HEX, MAX_ROWS, Contents, MemoryTable
from npuviz.ui.theme.theme import Theme
from tests.ui.panel_stage import Stage

GIB = 1 << 30


class CountedTable(MemoryTable):
    """Counts how often a view asks for the title of a line."""

    titles = 0

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> object:
        self.titles += 1
        assert self.titles < 10_000, "the header asks for the titles of all lines"
        return super().headerData(section, orientation, role)


@pytest.mark.parametrize("size", [2 * GIB, 4 * GIB, 12 * GIB, 16 * GIB, 96 * GIB, 1 << 44])
def test_a_view_paints_only_the_lines_that_it_shows(qtbot: QtBot, size: int) -> None:
    table = CountedTable(lambda _address, size: bytes(size))
    view = _contents_view(Theme("dark"), table)
    qtbot.addWidget(view)
    table.set_contents(Contents(0, size, HEX).shown)
    view.show()
    view.grab()
    assert table.titles > 0
    rows = table.rowCount()
    assert rows == min(MAX_ROWS, size // 16)
    assert view.verticalHeader().length() == rows * view.verticalHeader().defaultSectionSize()
    view.scrollToBottom()
    assert view.rowAt(view.viewport().height() // 2) > rows - 100


def test_what_is_not_shown_of_a_huge_memory_is_said(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(SPEC)
    panel = stage.panel
    assert isinstance(panel, MemoryPanel)
    try:
        stage.open_toy()
        panel.chooser.setCurrentIndex(1)
        whole = panel.table.contents
        assert "   of " not in panel.numbers.text()
        monkeypatch.setattr(module, "MAX_ROWS", 8)
        panel.chooser.setCurrentIndex(0)
        panel.chooser.setCurrentIndex(1)
        assert panel.table.rowCount() == 8 < whole.num_rows
        assert f"   of {whole.size_bytes} B" in panel.numbers.text()
    finally:
        stage.close()


def test_banks_share_the_lines_of_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 64)
    whole = Contents(0, 1 << 20, "float32", banks=4, bank_bytes=1 << 20)
    assert whole.shown.num_rows == 64
    assert whole.shown.address_of(63, 0) == 3 * whole.bank_bytes + 15 * 512 * 4
