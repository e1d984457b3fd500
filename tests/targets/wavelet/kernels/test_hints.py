"""What the kernels remember so as not to look again changes nothing: they may forget it at any cycle."""

from pathlib import Path

import numpy as np

from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.lookahead import CACHED_ACTORS
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from tests.targets.wavelet.running import finish, run, variable
from tests.targets.wavelet.samples import stencil

COUNTERS = (
    sk.BAND.instructions, sk.BAND.beats, sk.BAND.elements, sk.BAND.hops, sk.BAND.taken, sk.BAND.dropped,
    sk.BAND.tasks, sk.BAND.flops,
)  # fmt: skip


def forget(machine: WaveletMachine) -> None:
    """Let every thread and every channel be looked at again."""
    s = machine.engine.state
    start = int(s[sk.WAFER.nodes])
    b = s[start : start + int(s[sk.WAFER.nodes_count])]
    b = b[b > 0]
    s[b + sk.BLOCK.stalled] = 0
    s[b + sk.BLOCK.tested] = s[b + sk.BLOCK.threads]
    s[b + sk.BLOCK.timed] |= s[b + sk.BLOCK.threads]
    s[b + sk.BLOCK.shut] = 0
    for place in range(pk.NUM_COLORS):
        s[b + sk.BLOCK.due + place] = 0


def test_a_machine_that_forgets_does_the_same(tmp_path: Path) -> None:
    straight, other = (stencil(tmp_path, 4, 24, 2) for _ in range(2))
    while not straight.is_finished:
        cycle = straight.cycle + 1
        run(straight, cycle)
        run(other, cycle)
        assert other.cycle == straight.cycle
        for counter in COUNTERS:
            assert other.engine.counter(counter) == straight.engine.counter(counter)
        forget(other)
    assert other.is_finished
    for node in range(16):
        found, wanted = (each.observer.memory_words(node) for each in (other, straight))
        np.testing.assert_array_equal(found, wanted)


def test_a_wafer_beyond_the_caches_computes_what_numpy_does(tmp_path: Path) -> None:
    side, rounds = 32, 2
    machine = finish(stencil(tmp_path, side, 4, rounds))
    assert machine.engine.state[sk.WAFER.events] > CACHED_ACTORS * machine.cycle
    wanted = np.ones((side, side))
    for _ in range(rounds):
        padded = np.pad(wanted, 1)
        around = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
        wanted = 0.2 * (wanted + around)
    for row in range(side):
        for column in range(side):
            np.testing.assert_allclose(variable(machine, "u", column, row), wanted[row, column], rtol=1e-5)
