"""Who wakes when does not depend on who sleeps: a program among many idle PEs runs as it does alone."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.stencil import among_idle
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.bands import TEAM
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from tests.targets.wavelet.running import build, finish
from tests.targets.wavelet.samples import stencil

SIDE = 6


def memory_of(machine: WaveletMachine, x: int, y: int) -> list[bytes]:
    """The memory of the program's PEs."""
    grid = machine.engine.program.nodes.grid
    places = [(x + column, y + row) for row in range(SIDE) for column in range(SIDE)]
    return [machine.observer.memory_words(int(grid[row, column])).tobytes() for column, row in places]


@pytest.mark.parametrize(
    ("columns", "rows", "x", "y"),
    [
        (SIDE, 9000, 0, 8000),
        (317, 160, 0, 0),
        (317, 160, 160, 150),
        (317, 160, 311, 154),
        (1100, 40, 517, 30),
    ],
)
def test_idle_pes_change_nothing(tmp_path: Path, columns: int, rows: int, x: int, y: int) -> None:
    wafer = stencil(tmp_path, SIDE, 5, 2).wafer
    alone, inside = finish(build(wafer)), finish(build(among_idle(wafer, columns, rows, x, y)))
    assert inside.cycle == alone.cycle
    assert inside.engine.state[sk.WAFER.events] == alone.engine.state[sk.WAFER.events]
    assert memory_of(inside, x, y) == memory_of(alone, 0, 0)
    blocks = inside.engine.state[inside.engine.state[sk.WAFER.nodes] :][: columns * rows]
    assert np.count_nonzero(blocks) == SIDE * SIDE == inside.engine.state[sk.WAFER.seats_count]
    assert TEAM(inside.engine.team).size == 0
