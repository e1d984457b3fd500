"""The wafer machine: active PE-cycles per second on a stencil, cost of idle PEs, compile time of a wafer."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.row import Row
from benchmarks.stencil import DEPTH, ROUNDS, SIDE, among_idle, write_stencil
from npuviz.base.progress import NoProgress
from npuviz.program.program import Program
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.load.program import make_program
from npuviz.targets.wavelet.machine.machine import WaveletMachine
from npuviz.targets.wavelet.machine.team import num_processors
from npuviz.targets.wavelet.target import TARGET
from npuviz.targets.wavelet.wafer import Wafer

FOREVER = 1 << 40
REPEATS = 5
SMALL_REPEATS = 20
COPIES = 4
SLICE = 100
"""Cycles of a slice: runs with small differences are compared slice by slice."""
SPEED = 10.0
SMALL_SIDE = 16
WIDE = (323, 323, 150, 150)
AMONG = [(16, 6281, 0, 0), (317, 317, 0, 0), (317, 317, 150, 150), (317, 17, 0, 0)]
"""Columns and rows of rectangles, and the place in them of the large or the small stencil."""
IDLE_FIGURE = "<= 1.02 x"
Clock = Callable[[], float]


def _load(side: int, rounds: int) -> Program:
    with TemporaryDirectory() as folder:
        path = write_stencil(Path(folder))
        params = f"side:{side},depth:{DEPTH},rounds:{rounds}"
        return TARGET.load(LoadRequest(path, settings={"arch": "wse3", "params": params}), NoProgress())[1]


def _machine(wafer: Wafer) -> WaveletMachine:
    machine = TARGET.build(*make_program(wafer, settings={"watch": "corner"}))
    assert isinstance(machine, WaveletMachine)
    return machine


def _seconds(machine: WaveletMachine, cycles: int, clock: Clock) -> list[float]:
    """Return the seconds of each slice of cycles of a machine, from now to its end."""
    found: list[float] = []
    while not machine.is_finished:
        begin = clock()
        machine.advance(machine.cycle + cycles, NO_STOPS, None)
        found.append(clock() - begin)
    return found


def _best(
    runs: Sequence[tuple[WaveletMachine, int]],
    repeats: int,
    cycles: int = FOREVER,
    clock: Clock = time.perf_counter,
) -> list[np.ndarray]:
    """Return the seconds of each slice of cycles of machines, from now to their ends, with a maximum of
    threads each.

    They are the best of several runs; the machines take turns, in alternating order.
    """
    starts = [machine.snapshot() for machine, _ in runs]
    found: list[list[list[float]]] = [[] for _ in runs]
    turns = list(zip(runs, starts, found, strict=True))
    for _ in range(repeats):
        turns.reverse()
        for (machine, threads), start, seconds in turns:
            machine.engine.most_threads = threads
            machine.restore(start)
            seconds.append(_seconds(machine, cycles, clock))
    return [np.min(seconds, axis=0) for seconds in found]


def _among_row(place: tuple[int, int, int, int], side: int, ratio: float, figure: str) -> Row:
    """Measure how much the idle PEs of a rectangle slow down a stencil."""
    columns, rows, x, y = place
    idle = columns * rows - side**2
    return Row(f"the same at ({x}, {y}) of {columns} x {rows}, {idle} PEs idle", ratio, "x", figure)


def _idle() -> list[Row]:
    """Measure how much idle PEs slow down a small program, in processor time of one thread.

    How fast a machine is depends a little on the pages of memory it gets: there are several of each kind.
    """
    small = _load(SMALL_SIDE, ROUNDS).payload.wafer
    wafers = [small, small, *(among_idle(small, *each) for each in AMONG)]
    found: list[list[np.ndarray]] = []
    cycles = 0
    for copy in range(COPIES):
        order = 1 if copy % 2 else -1
        runs = [(_machine(wafer), 1) for wafer in wafers[::order]]
        found.append(_best(runs, SMALL_REPEATS, SLICE, time.thread_time)[::order])
        cycles = runs[0][0].cycle
    alone, alike, *others = np.min(found, axis=0).sum(axis=1).tolist()
    work = cycles * SMALL_SIDE**2 / 1e6
    return [
        Row(f"stencil {SMALL_SIDE} x {SMALL_SIDE}: PE-cycles", work / alone, "M/s"),
        Row(f"stencil {SMALL_SIDE} x {SMALL_SIDE}", alone, "s"),
        Row("a machine alike", alike / alone, "x"),
        *(
            _among_row(place, SMALL_SIDE, seconds / alone, IDLE_FIGURE)
            for place, seconds in zip(AMONG, others, strict=True)
        ),
    ]


def run() -> list[Row]:
    """Measure everything; a minute or two."""
    TARGET.warm_up(NoProgress())
    begin = time.process_time()
    wafer = _load(SIDE, ROUNDS).payload.wafer
    loaded = time.process_time() - begin
    machine = _machine(wafer)
    threads = num_processors()
    others = [_machine(wafer), _machine(among_idle(wafer, *WIDE))]
    runs = [(machine, 1), *((each, threads) for each in (machine, *others))]
    single, seconds, alike, wide = np.sum(_best(runs, REPEATS, SLICE), axis=1).tolist()
    count = len(machine.engine.program.nodes.x)
    work = machine.cycle * count / 1e6
    counters = machine.summary().counters
    hops = counters["words moved over links"] / seconds / 1e6
    return [
        Row(
            f"stencil {SIDE} x {SIDE}: PE-cycles, every PE at work, {threads} processors",
            work / seconds,
            "M/s",
            f">= {SPEED:.0f} M/s",
        ),
        Row(f"stencil {SIDE} x {SIDE}: PE-cycles, one thread", work / single, "M/s"),
        Row(f"a machine alike, {threads} processors", alike / seconds, "x"),
        _among_row(WIDE, SIDE, wide / seconds, "as a machine alike"),
        Row(f"stencil {SIDE} x {SIDE}: words over links", hops, "M/s"),
        Row(f"stencil {SIDE} x {SIDE}: compiled", loaded, "s"),
        *_idle(),
    ]
