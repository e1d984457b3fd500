"""The tree of what bytes were made from and who uses them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtWidgets import QLabel

import npuviz
from npuviz.api.session import DebugSession
from npuviz.ui.provenance.panel import NO_MACHINE, NOT_FOLLOWED, NOTHING, ProvenancePanel
from npuviz.workbench.selection import MemoryRange
from tests.ui.panel_bench import Bench, bench

pytestmark = pytest.mark.usefixtures("kept_scripts")

__all__ = ["bench"]

SAMPLES = Path(__file__).parents[3] / "sample_models"


@pytest.fixture
def session() -> Iterator[DebugSession]:
    with npuviz.open("tiny_cnn.onnx", target="systolic", settings={"batch": 1}) as found:
        yield found


def _lines(panel: ProvenancePanel, parent: QModelIndex | None = None) -> list[Any]:
    """Texts of the first column, those of unfolded lines with a list of what is below."""
    found: list[Any] = []
    above = parent or QModelIndex()
    for row in range(panel.tree.rowCount(above)):
        index = panel.tree.index(row, 0, above)
        found.append(index.data())
        if panel.view.isExpanded(index):
            found.append(_lines(panel, index))
    return found


def _said(panel: ProvenancePanel) -> str:
    return panel.empty.findChild(QLabel, "empty_state.text").text()  # pyright: ignore[reportOptionalMemberAccess]


def _open(bench: Bench, session: DebugSession) -> ProvenancePanel:
    panel = bench.make(ProvenancePanel, width=700)
    bench.model.show_opened(session.opened)
    return panel


def test_it_says_what_would_be_there(bench: Bench, session: DebugSession) -> None:
    panel = bench.make(ProvenancePanel)
    assert panel.is_empty
    assert _said(panel) == NO_MACHINE
    bench.model.show_opened(session.opened)
    bench.settle()
    assert panel.is_empty
    assert _said(panel) == NOTHING


def test_a_tensor_leads_back_to_weights_and_on_to_outputs(bench: Bench, session: DebugSession) -> None:
    panel = _open(bench, session)
    bench.do(bench.model.run)
    graph = session.program.graph
    bench.select(tensor=graph.outputs[0])
    bench.do(lambda: None)
    assert "reaches classifier" in panel.summary.text()
    assert _lines(panel) == ["Made by", ["#382 MOVOUT", ["#381 ADD"]], "Used by", ["nobody"]]
    index = panel.tree.index(0, 0, panel.tree.index(0, 0))
    texts: list[str] = []
    while index.isValid():
        if panel.tree.canFetchMore(index):
            panel.tree.fetchMore(index)
        panel.view.expand(index)
        texts.append(index.data())
        index = panel.tree.index(0, 0, index)
    assert texts[:2] == ["#382 MOVOUT", "#381 ADD"]
    assert texts[-1].startswith(("weight ", "input "))


def test_arrows_and_return_walk_it_and_the_tree_stays(bench: Bench, session: DebugSession) -> None:
    panel = _open(bench, session)
    bench.do(bench.model.run)
    bench.select(tensor=session.program.graph.outputs[0])
    bench.do(lambda: None)
    before = _lines(panel)
    panel.view.setFocus()
    panel.view.setCurrentIndex(panel.tree.index(0, 0))
    for _ in range(2):
        bench.qtbot.keyClick(panel.view, Qt.Key.Key_Down)
    bench.qtbot.keyClick(panel.view, Qt.Key.Key_Return)
    bench.settle()
    chosen = bench.context.selection.current
    assert chosen.instruction == 381
    assert _lines(panel) == before
    bench.select(instruction=0)  # somebody else picks something: now it is about that
    assert _lines(panel)[:2] == ["Made by", ["#0 MOVIN", ["input input"]]]


def test_in_the_middle_of_a_run_it_says_how_far_it_is_known(bench: Bench, session: DebugSession) -> None:
    panel = _open(bench, session)
    bench.do(lambda: bench.model.run(400))
    home = session.program.memory_map.of_tensor(session.program.graph.inputs[0])
    assert home is not None
    bench.select(memory=MemoryRange(home.memory, home.address))
    bench.do(lambda: None)
    assert "known to cycle 400" in panel.summary.text().replace("\u2009", "")
    assert "nothing has written it up to now" in _lines(panel)[1]
    panel._seconds = 60.0  # a program that takes long to follow is not followed at each step
    bench.do(bench.model.step)
    assert panel.summary.text() == NOT_FOLLOWED
    assert panel.follow.isVisible()
    bench.qtbot.mouseClick(panel.follow, Qt.MouseButton.LeftButton)
    bench.do(lambda: None)
    assert panel.summary.text() != NOT_FOLLOWED
    assert not panel.follow.isVisible()


def test_on_a_wafer_the_tree_goes_from_pe_to_pe(bench: Bench) -> None:
    with npuviz.open(SAMPLES / "csl" / "row_sum") as session:
        panel = _open(bench, session)
        bench.do(bench.model.run)
        memory = session.description.memory_named("PE(0,0).memory")
        regions = session.session.machine.regions(memory.id) if memory is not None else ()
        place = next(region.address for region in regions if region.label == "result")
        assert memory is not None
        bench.select(memory=MemoryRange(memory.id, place, 4))
        bench.do(lambda: None)
        assert "reaches result (host command 2)" in panel.summary.text()
        index = panel.tree.index(0, 0, panel.tree.index(0, 0))
        units = list[str]()
        while index.isValid():
            if panel.tree.canFetchMore(index):
                panel.tree.fetchMore(index)
            step = panel.tree.item(index).step
            units += [step.unit] if step is not None else []
            index = panel.tree.index(panel.tree.rowCount(index) - 1, 0, index)
        passed = [each for each, before in zip(units, ["", *units], strict=False) if each != before]
        assert passed == ["PE(0,0)", *(f"PE({x},0)" for x in range(5, -1, -1)), "host"]
