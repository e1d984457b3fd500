import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from npuviz.program.graph import Graph
from npuviz.program.instruction import Instruction
from npuviz.sim.description import Unit
from npuviz.ui.program.facts import instruction_of_breakpoint, marked_instructions, short_names
from npuviz.ui.program.panel import ProgramPanel
from npuviz.ui.program.row_painter import GUTTER_WIDTH, RowLook
from npuviz.ui.program.rows import Decoder, ListingRows, ListingSearch
from tests.ui.panel_bench import Bench, bench, pixels

__all__ = ["bench"]
LD, ALU, ST = 0, 1, 2


class HugeListing:
    """A listing nobody could store: one node per million instructions."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.described = 0

    def __len__(self) -> int:
        return self._length

    def describe(self, index: int) -> Instruction:
        if not 0 <= index < self._length:
            raise IndexError(index)
        self.described += 1
        return Instruction(index, 0, "OP", f"OP {index}", index // 1_000_000)

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        return (indices // 1_000_000).astype(np.int32)

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        return np.zeros(indices.shape, np.int32)

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        zeros = np.zeros(indices.shape, np.int64)
        return zeros, zeros, zeros.astype(np.int32)

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        return [(node * 1_000_000, (node + 1) * 1_000_000)]

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        return [(0, self._length)]


def test_rows_map_to_instructions_and_back() -> None:
    rows = ListingRows([(10, 12), (2, 3), (20, 25), (7, 7)])
    assert len(rows) == 8
    assert [rows.instruction_at(row) for row in range(8)] == [2, 10, 11, 20, 21, 22, 23, 24]
    assert [rows.row_of(i) for i in (2, 11, 24, 3, 25, -1)] == [0, 2, 7, None, None, None]
    assert [rows.row_at_or_after(i) for i in (0, 3, 12, 22, 99)] == [0, 1, 3, 5, 7]
    assert rows.instructions(6, 10).tolist() == [23, 24]
    with pytest.raises(IndexError):
        rows.instruction_at(8)


def test_no_rows_at_all() -> None:
    rows = ListingRows([])
    assert len(rows) == 0
    assert rows.row_of(0) is None
    assert rows.instructions(0, 5).tolist() == []


def test_breakpoint_texts_name_instructions() -> None:
    assert instruction_of_breakpoint("instr 7") == (7, 8)
    assert instruction_of_breakpoint(" instr 7..9 ") == (7, 9)
    assert instruction_of_breakpoint("cycle == 7") is None
    assert instruction_of_breakpoint("instr 7 or instr 8") is None
    assert marked_instructions([("instr 3", False), ("instr 2..4", True)]) == {2: True, 3: True}


def test_search_goes_around_and_backward(bench: Bench) -> None:
    session = bench.open_toy(blocks=2)
    listing, graph = session.program.listing, session.program.graph
    rows = ListingRows([(0, len(listing))])

    def hit(text: str, after: int, backward: bool = False) -> int | None:
        search = ListingSearch(rows, listing, graph, text, after, backward, ["MUL", "STORE"])
        while not search.advance(1.0):
            pass
        return search.row

    assert hit("store", -1) == 3
    assert hit("store", 3) == 7
    assert hit("store", 3, backward=True) == 31
    assert hit("shift", -1) == 8, "an operator's name leads to its first instruction"
    assert hit("17", 3) == 17
    assert hit("no such thing", 0) is None
    assert hit("", 0) is None


def test_search_of_an_operator_reads_no_instruction(bench: Bench) -> None:
    graph = bench.open_toy().program.graph
    listing = HugeListing(100_000_000)
    search = ListingSearch(ListingRows([(0, 100_000_000)]), listing, graph, "final square", 0)
    assert search.advance(1.0)
    assert search.row == 3_000_000
    assert listing.described == 0


def test_search_works_in_slices() -> None:
    listing = HugeListing(1_000_000)
    search = ListingSearch(ListingRows([(0, 1_000_000)]), listing, Graph("g", (), (), (), ()), "absent", 0)
    assert not search.advance(0.0), "the window must get the thread back"
    assert 0 < search.num_searched < 1_000_000


def test_draws_a_hundred_million_rows_by_decoding_only_those_in_view(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    bench.open_toy()
    listing = HugeListing(100_000_000)
    graph = bench.model.program
    assert graph is not None
    panel.listing.show_rows(ListingRows([(0, 100_000_000)]), Decoder(listing), RowLook(graph.graph.nodes))
    panel.listing.reveal(87_654_321)
    panel.grab()
    assert panel.listing.first_row <= 87_654_321 < panel.listing.first_row + panel.listing.num_visible
    assert listing.described < 200


def test_only_programs_with_operators_have_a_heading(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    bench.open_toy()
    listing = HugeListing(1000)
    graph = bench.model.program
    assert graph is not None
    panel.listing.show_rows(ListingRows([(0, 1000)]), Decoder(listing), RowLook(graph.graph.nodes))
    with_heading = panel.listing.grab().toImage()
    panel.listing.show_rows(ListingRows([(0, 1000)]), Decoder(listing), RowLook())
    without = panel.listing.grab().toImage()
    height = bench.context.theme.row_height
    raised = bench.context.theme.color("raised").rgb()
    right = without.width() // 2
    assert with_heading.pixel(right, 2) == raised
    assert without.pixel(right, 2) != raised
    clicked: list[int] = []
    panel.listing.chosen.connect(clicked.append)
    QTest.mouseClick(
        panel.listing.viewport(),
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
        QPoint(right, height // 2),
    )
    assert clicked == [0], "the first row lies where the heading was"


def test_without_program_it_offers_to_open_one(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    assert not panel.listing.isVisible()
    pixels(panel)
    bench.open_toy()
    assert panel.listing.isVisible()
    bench.model.close()
    assert not panel.listing.isVisible()
    assert len(panel.listing.rows) == 0


def test_a_bundle_has_no_listing(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    session = bench.open_toy()
    bench.open_bundle_of(session)
    assert not panel.listing.isVisible()


def test_lists_all_units_or_one(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    bench.open_toy()
    assert len(panel.listing.rows) == 128
    panel.restore_state({"unit": "Core[0].ST", "follow": False})
    assert len(panel.listing.rows) == 32
    assert panel.listing.rows.instruction_at(1) == 7
    assert panel.save_state() == {"unit": "Core[0].ST", "follow": False}
    panel.restore_state({"unit": 7, "follow": "maybe"})
    assert len(panel.listing.rows) == 32, "damaged state changes nothing"


def test_click_selects_instruction_node_and_unit(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    bench.open_toy()
    row_height = bench.context.theme.row_height
    spot = QPoint(200, row_height * 3 + row_height // 2)
    bench.qtbot.mouseClick(panel.listing.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    chosen = bench.context.selection.current
    assert (chosen.instruction, chosen.node, chosen.unit, chosen.tile) == (2, 0, ALU, 0)
    panel.listing.setFocus()
    bench.qtbot.keyClick(panel.listing, Qt.Key.Key_Down)
    assert bench.context.selection.current.instruction == 3
    bench.qtbot.keyClick(panel.listing, Qt.Key.Key_End)
    assert bench.context.selection.current.instruction == 127


def test_gutter_toggles_a_breakpoint(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    session = bench.open_toy()
    before = pixels(panel)
    spot = QPoint(GUTTER_WIDTH // 2, bench.context.theme.row_height + 4)
    bench.qtbot.mouseClick(panel.listing.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    assert [b.text for b in session.breakpoints.all] == ["instr 0"]
    bench.settle()
    assert (pixels(panel) != before).any()
    bench.qtbot.mouseClick(panel.listing.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    assert not session.breakpoints.all


def test_selection_elsewhere_comes_into_view(bench: Bench) -> None:
    panel = bench.make(ProgramPanel, height=300)
    bench.open_toy()
    bench.select(instruction=100, node=3)
    assert panel.listing.selected == 100
    assert panel.listing.first_row <= 100 < panel.listing.first_row + panel.listing.num_visible
    bench.select(node=0)
    assert panel.listing.selected == -1
    assert panel.listing.first_row == 0


def test_follows_the_program_counter(bench: Bench) -> None:
    panel = bench.make(ProgramPanel, height=300)
    session = bench.open_toy()
    bench.do(lambda: bench.model.go_to(600))
    held = min(session.machine.next_instructions().values())
    assert panel.listing.first_row <= held < panel.listing.first_row + panel.listing.num_visible
    assert panel.listing.first_row > 0
    panel.restore_state({"follow": False})
    place = panel.listing.first_row
    bench.do(lambda: bench.model.go_to(10))
    assert panel.listing.first_row == place


def test_follows_what_units_have_in_hand_where_nothing_comes_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel = bench.make(ProgramPanel, height=300)
    session = bench.open_toy()
    monkeypatch.setattr(session.machine, "next_instructions", dict)
    bench.do(lambda: bench.model.go_to(600))
    held = [state.instruction for state in session.machine.unit_states() if state.instruction >= 0]
    assert panel.listing.first_row > 0
    assert panel.listing.first_row <= min(held) < panel.listing.first_row + panel.listing.num_visible


def test_search_line_selects_the_hit(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    bench.open_toy()
    panel.find_bar.open_bar()
    assert panel.find_bar.isVisible()
    bench.qtbot.keyClicks(panel.find_bar.line, "add")
    bench.qtbot.keyClick(panel.find_bar.line, Qt.Key.Key_Return)
    assert bench.context.selection.current.instruction == 34
    bench.qtbot.keyClick(panel.find_bar.line, Qt.Key.Key_Return)
    assert bench.context.selection.current.instruction == 38
    bench.qtbot.keyClick(panel.find_bar.line, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert bench.context.selection.current.instruction == 34
    bench.qtbot.keyClick(panel.find_bar.line, Qt.Key.Key_Escape)
    assert not panel.find_bar.isVisible()


def test_copies_the_line(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    session = bench.open_toy()
    bench.select(instruction=2)
    panel.copy_selected()
    assert QGuiApplication.clipboard().text() == session.program.listing.describe(2).text


def test_both_themes_draw_differently(bench: Bench) -> None:
    panel = bench.make(ProgramPanel)
    bench.open_toy()
    dark = pixels(panel.listing)
    bench.context.theme.set_mode("light")
    bench.settle()
    light = pixels(panel.listing)
    assert dark.mean() < 110 < light.mean()


def test_units_are_named_as_shortly_as_they_can_be_told_apart() -> None:
    def names(*units: tuple[str, str]) -> list[str]:
        return list(short_names(Unit(i, name, group) for i, (name, group) in enumerate(units)).values())

    assert names(("Core[0].PE", "Core[0]"), ("Core[0].SP", "Core[0]"), ("Host", "")) == ["PE", "SP", "Host"]
    assert names(("Core[0].PE", "Core[0]"), ("Core[1].PE", "Core[1]"), ("Host", "")) == [
        "0.PE",
        "1.PE",
        "Host",
    ]
    assert names(("A[0].PE", "A[0]"), ("B[0].PE", "B[0]")) == ["A[0].PE", "B[0].PE"]
    assert names() == []
