"""Contents that may take long to compute are never computed in the thread that draws."""

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PySide6.QtCore import QModelIndex

from npuviz.debug.session import Session
from npuviz.sim.machine import Hazard, Region
from npuviz.ui.inspector.page import COMPUTING, page_as_text
from npuviz.ui.inspector.panel import InspectorPanel
from npuviz.ui.memory.panel import MemoryPanel
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.selection import MemoryRange
from tests.toy.machine import ToyMachine
from tests.toy.program import TENSORS, ToySpec, make_program
from tests.ui.panel_bench import Bench, bench

__all__ = ["bench"]
SPAD = 1


class Elsewhere(ToyMachine):
    """A still that nobody may ask in the main thread; `gate` holds its answers back."""

    gate: threading.Event

    def _pass(self) -> None:
        assert threading.current_thread() is not threading.main_thread()
        assert self.gate.wait(20)

    def regions(self, memory: int) -> Sequence[Region]:
        self._pass()
        return super().regions(memory)

    def read_memory(self, memory: int, address: int, size_bytes: int) -> bytes:
        self._pass()
        return super().read_memory(memory, address, size_bytes)

    def tensor(self, tensor: int) -> np.ndarray | None:
        self._pass()
        return super().tensor(tensor)

    def hazards(self) -> Sequence[Hazard]:
        self._pass()
        return super().hazards()


class Costly(ToyMachine):
    """A machine whose contents are asked of a still only."""

    def __init__(self, spec: ToySpec) -> None:
        super().__init__(spec, make_program(spec, {}, "toy"))
        self.gate = threading.Event()
        self.gate.set()

    def still_memories(self) -> Elsewhere:
        still = Elsewhere(self._spec, self._program)
        still.gate = self.gate
        still.restore(self.snapshot())
        return still


def open_costly(bench: Bench) -> Costly:
    machine = Costly(ToySpec(hazard_above=300))
    opened = Opened(Path("toy.toy"), "toy", OpenOptions(), session=Session(machine))
    bench.model.show_opened(opened)
    return machine


def cells(panel: MemoryPanel) -> list[str]:
    return [str(panel.table.index(0, column).data()) for column in range(4)]


def test_an_empty_memory_is_read_elsewhere(bench: Bench) -> None:
    panel = bench.make(MemoryPanel)
    open_costly(bench)
    bench.qtbot.waitUntil(lambda: panel.is_settled)
    panel.chooser.setCurrentIndex(1)  # else DRAM is shown, which holds something
    assert panel.table.rowCount(QModelIndex()) > 0, "nothing is in use: all of it is on offer"
    panel.grab()
    bench.qtbot.waitUntil(lambda: cells(panel) == ["0"] * 4)
    bench.qtbot.waitUntil(lambda: panel.is_settled)


def test_scrolling_beyond_what_was_fetched_fetches_more(bench: Bench) -> None:
    panel = bench.make(MemoryPanel)
    machine = open_costly(bench)
    bench.do(bench.model.run)
    bench.select(memory=MemoryRange(0, 0, 64))
    panel.on_selection_changed(bench.context.selection.current)
    panel.chooser.setCurrentIndex(0)
    bench.qtbot.waitUntil(lambda: panel.is_settled)
    panel.map.range_chosen.emit(0, 64, 1)
    bench.qtbot.waitUntil(lambda: panel.is_settled)
    x = machine.program.payload[0]
    bench.qtbot.waitUntil(lambda: cells(panel) == [f"{value:.5g}" for value in x[:4]])


def test_while_it_is_computed_the_window_goes_on(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    machine = open_costly(bench)
    bench.do(bench.model.run)
    machine.gate.clear()
    bench.select(tensor=6)
    assert COMPUTING in page_as_text(panel.view.page)
    assert not panel.is_settled
    machine.gate.set()
    bench.qtbot.waitUntil(lambda: "Minimum" in page_as_text(panel.view.page))
    expected = ToyMachine.tensor(machine, 6)
    assert expected is not None
    assert f"{expected.max():.6g}" in page_as_text(panel.view.page)


def test_what_is_computed_for_an_earlier_cycle_is_not_shown(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    machine = open_costly(bench)
    bench.do(lambda: bench.model.go_to(700))
    machine.gate.clear()
    bench.select(tensor=6)
    bench.do(lambda: bench.model.go_to(10))
    machine.gate.set()
    bench.qtbot.waitUntil(lambda: panel.is_settled)
    bench.qtbot.waitUntil(lambda: "Maximum: 0" in page_as_text(panel.view.page))
    assert TENSORS[6][0] == "out"


def test_a_range_of_a_memory_is_explained_elsewhere(bench: Bench) -> None:
    panel = bench.make(InspectorPanel)
    machine = open_costly(bench)
    bench.do(lambda: bench.model.go_to(400))
    bench.select(memory=MemoryRange(SPAD, machine.regions(SPAD)[0].address, 64))
    bench.qtbot.waitUntil(lambda: "Bytes" in page_as_text(panel.view.page))
    assert "Holds" in page_as_text(panel.view.page)
