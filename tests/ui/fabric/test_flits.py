"""The fabric panel on a network of flits, which has neither colors nor ways of words."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from pytestqt.qtbot import QtBot

from npuviz.debug.session import Session
from npuviz.program.instruction import DetailTable
from npuviz.sim.fabric import Area, FabricShape, Glance, HasElements, HasFabric, HasRoutes, HasWords
from npuviz.sim.network.fabric import FlitFabric
from npuviz.sim.stop import NO_STOPS
from npuviz.ui.fabric.panel import SPEC, FabricPanel
from npuviz.ui.fabric.raster import warm_up
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page_choice import make_page
from npuviz.workbench.opening import Opened, OpenOptions
from npuviz.workbench.selection import Selection
from tests.sim.network.test_flit_network import MESH, SMALL, Run, make
from tests.toy.machine import ToyMachine
from tests.toy.program import ToySpec, make_program
from tests.toy.target import ToyTarget
from tests.ui.panel_stage import Stage

CYCLES = 300


class FlitToy(ToyMachine):
    """The toy pipeline, with a network beside it as it is after 300 cycles of a stream."""

    def __init__(self) -> None:
        spec = ToySpec(blocks=16)
        super().__init__(spec, make_program(spec, {}, ToyTarget.id))
        network = make(MESH + SMALL + "k = 4\n")
        packets = np.array([(index, index % 16, (index * 7) % 16, 0) for index in range(800)], np.int64)
        self._run = Run(network, packets).advance(CYCLES)
        self._flits = FlitFabric(network, [f"Core[{n}]" for n in range(16)], 1.0)

    @property
    def fabric(self) -> FabricShape:
        return self._flits.shape

    def element_states(self, area: Area) -> np.ndarray:
        return self._flits.element_states(self._run.state, self._run.at, area)

    def link_loads(self, area: Area) -> np.ndarray:
        return self._flits.link_loads(self._run.state, self._run.at, CYCLES - 1, area)

    def queue_fill(self, area: Area) -> np.ndarray:
        return self._flits.queue_fill(self._run.state, self._run.at, area)

    def words(self, area: Area) -> np.ndarray:
        return self._flits.words(self._run.state, self._run.at, CYCLES - 1, area)

    def glances(self, area: Area) -> dict[tuple[int, int], Glance]:
        return self._flits.glances(self._run.state, self._run.at, area)

    def element_details(self, column: int, row: int) -> Sequence[DetailTable]:
        return self._flits.element_details(self._run.state, self._run.at, column, row)

    def units_of_element(self, column: int, row: int) -> tuple[int, ...]:
        return ()

    def element_of_unit(self, unit: int) -> tuple[int, int] | None:
        return None


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    warm_up()


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def test_a_network_of_flits_is_shown(stage: Stage, qtbot: QtBot) -> None:
    machine = FlitToy()
    assert isinstance(machine, HasFabric)
    assert isinstance(machine, HasElements)
    assert isinstance(machine, HasWords)
    assert not isinstance(machine, HasRoutes)
    machine.advance(CYCLES, NO_STOPS, None)
    session = Session(machine)
    stage.context.model.show_opened(Opened(Path("f.toy"), "f", OpenOptions(), None, session))
    panel = stage.panel
    assert isinstance(panel, FabricPanel)
    panel.on_session_changed()
    qtbot.waitUntil(panel.view.isVisible)
    for shade in ("state", "load", "queue"):
        panel.bar.shade.setCurrentIndex(panel.bar.shade.findData(shade))
        panel.view.grab()
    assert panel.bar.route.isHidden()
    assert panel.bar.words.text() == "Flits"
    frame = panel.view.frame
    assert frame is not None
    assert frame.words is not None
    assert len(frame.words) == len(machine.words(machine.fabric.whole)) > 0
    assert any("flit" in text for text in panel.legend.texts)
    word = int(frame.words["id"][0])
    panel.view.word_chosen.emit(word, 0, 0)
    source = InspectorSource(program=machine.program, description=machine.description, session=session)
    page = make_page(source, Selection(word=word))
    assert page.kind in ("Flit", "Control flit")
    assert make_page(source, Selection(element=(1, 2))).title == "router(1,2)"
    panel.on_cycle_changed()
    panel.view.grab()
