"""The accuracy panel: a comparison by a click, the charts beside it, and tensors in narrower types."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QPoint, Qt
from PySide6.QtWidgets import QLabel, QPushButton

import npuviz
from npuviz.api.session import DebugSession
from npuviz.base.progress import NoProgress
from npuviz.onnx.check.rounding import TYPES
from npuviz.ui.accuracy.panel import NO_MODEL, NOT_COMPARED, AccuracyPanel
from npuviz.ui.accuracy.table import OPERATOR, OWN, TENSOR, WHOLE
from npuviz.ui.bridge.features import features_of
from tests.ui.panel_bench import Bench, bench, pixels

__all__ = ["bench"]


@pytest.fixture(params=["systolic", "rk3588"])
def session(request: pytest.FixtureRequest) -> Iterator[DebugSession]:
    with npuviz.open("tiny_cnn.onnx", target=request.param, settings={"batch": 1}) as found:
        yield found


def _open(bench: Bench, session: DebugSession, width: int = 1000) -> AccuracyPanel:
    panel = bench.make(AccuracyPanel, width=width, height=330)
    bench.model.show_opened(session.opened)
    bench.settle()
    return panel


def _compare(bench: Bench, panel: AccuracyPanel) -> None:
    shown = [each for each in panel.findChildren(QPushButton, "empty_state.action") if each.isVisible()]
    bench.do(lambda: bench.qtbot.mouseClick(shown[0], Qt.MouseButton.LeftButton))
    bench.settle()


def test_it_is_offered_and_comes_back_to_where_one_was(bench: Bench, session: DebugSession) -> None:
    panel = bench.make(AccuracyPanel)
    assert panel.is_empty
    assert panel.empty.findChild(QLabel, "empty_state.text").text() == NO_MODEL  # pyright: ignore[reportOptionalMemberAccess]
    assert "reference" in features_of(session.session.machine)
    bench.model.show_opened(session.opened)
    bench.settle()
    assert not panel.is_empty
    assert panel.offer.isVisible()
    assert panel.offer.findChild(QLabel, "empty_state.text").text() == NOT_COMPARED  # pyright: ignore[reportOptionalMemberAccess]
    bench.do(lambda: bench.model.go_to(700))
    session.session.breakpoints.add("cycle == 900")
    _compare(bench, panel)
    assert session.session.cycle == 700
    check = session.opened.target.check  # pyright: ignore[reportOptionalMemberAccess]
    session.session.go_to(1 << 62)
    expected = check(session.session.machine, NoProgress())
    assert len(panel.table.rows) == expected.num_tensors
    assert panel.summary.text().startswith(f"passed: {expected.num_tensors} tensors")
    left = sum(map(len, expected.not_compared.values()))
    assert ("not compared" in panel.summary.text()) == bool(left)
    assert not panel.first.isVisible()


def test_a_chosen_tensor_is_marked_in_table_chart_and_histogram(bench: Bench, session: DebugSession) -> None:
    panel = _open(bench, session)
    _compare(bench, panel)
    last = len(panel.table.rows) - 1
    assert panel.view.currentIndex().row() == last
    assert panel.along.chosen == last
    assert "classifier" in panel.histogram.text()
    bench.qtbot.mouseClick(panel.along, Qt.MouseButton.LeftButton, pos=QPoint(48, 60))
    assert panel.view.currentIndex().row() == 0
    chosen = bench.context.selection.current
    row = panel.table.rows[0]
    assert (chosen.node, chosen.tensor) == (row.errors.node, row.errors.tensor)
    bench.qtbot.keyClick(panel.along, Qt.Key.Key_Right)
    assert panel.view.currentIndex().row() == 1
    bench.qtbot.keyClick(panel.view, Qt.Key.Key_Down)
    assert panel.along.chosen == 2
    texts = [panel.table.index(0, column).data() for column in (OPERATOR, TENSOR, WHOLE, OWN)]
    assert all(texts)
    if "NPUVIZ_PICTURES" in os.environ:
        panel.grab().save(f"{os.environ['NPUVIZ_PICTURES']}/{session.description.target}.png")
    assert len(np.unique(pixels(panel.histogram).reshape(-1, 4), axis=0)) > 3
    panel.resize(500, 300)
    assert not panel.charts.isVisible()


def test_spoilt_bytes_are_found_and_the_first_wrong_instruction_is_selected(
    bench: Bench, session: DebugSession
) -> None:
    panel = _open(bench, session)
    _compare(bench, panel)
    graph = session.program.graph
    home = next(
        each
        for each in session.program.memory_map.allocations
        if graph.tensors[each.tensor].name in ("pool1", "relu1") and each.size_bytes
    )
    bench.do(lambda: bench.model.go_to(1 << 40))

    def spoil() -> None:
        before = session.session.machine.read_memory(home.memory, home.address, 64)
        data = bytes(np.frombuffer(before, np.uint8) ^ 1)
        bench.model.perform("Writing", lambda found, _: found.write_memory(home.memory, home.address, data))

    bench.do(spoil)
    assert panel.again.isVisible()
    assert panel.summary.text().endswith("before values were written")
    bench.do(lambda: bench.qtbot.mouseClick(panel.again, Qt.MouseButton.LeftButton))
    bench.settle()
    assert not panel.again.isVisible()
    assert panel.summary.text().startswith("FAILED")
    row = panel.table.rows[panel.view.currentIndex().row()]
    assert row.errors.own_class == "wrong"
    bench.qtbot.mouseClick(panel.first, Qt.MouseButton.LeftButton)
    assert bench.context.selection.current.instruction is not None


def test_tensors_in_a_narrower_type(bench: Bench, session: DebugSession) -> None:
    panel = _open(bench, session)
    panel.what.setCurrentIndex(1 + TYPES.index("int8"))
    bench.qtbot.waitUntil(lambda: panel.is_settled and bool(panel.types.rows))
    assert not panel.offer.isVisible()
    errors = [row.outputs for row in panel.types.rows]
    assert errors == sorted(errors, reverse=True)
    assert "all of them: about 0.0" in panel.summary.text()
    panel.types_view.selectRow(0)
    panel.types_view.clicked.emit(panel.types.index(0, 0, QModelIndex()))
    assert bench.context.selection.current.tensor == panel.types.rows[0].tensor
    if "NPUVIZ_PICTURES" in os.environ:
        panel.grab().save(f"{os.environ['NPUVIZ_PICTURES']}/types.png")
    panel.what.setCurrentIndex(0)
    assert panel.offer.isVisible()


@pytest.mark.parametrize("width", [560, 1000])
def test_the_table_scrolls_in_one_direction_only(bench: Bench, session: DebugSession, width: int) -> None:
    panel = _open(bench, session, width)
    _compare(bench, panel)
    bench.qtbot.waitUntil(lambda: panel.view.horizontalScrollBar().maximum() == 0)
    shown = [column for column in range(len(panel.table.titles)) if not panel.view.isColumnHidden(column)]
    assert {OPERATOR, WHOLE, OWN} <= set(shown)
