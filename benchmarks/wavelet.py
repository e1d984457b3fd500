"""The wafer machine: active PE-cycles a second on a stencil, idle PEs, compile time of a wafer."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.row import Row
from benchmarks.stencil import DEPTH, ROUNDS, SIDE, write_stencil
from npuviz.base.progress import NoProgress
from npuviz.program.program import Program
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.wavelet.machine import WaveletMachine
from npuviz.targets.wavelet.tables import Wafer
from npuviz.targets.wavelet.target import TARGET, make_program
from npuviz.targets.wavelet.team import num_processors

FOREVER = 1 << 40
REPEATS = 5
SMALL_REPEATS = 40
SLICE = 100
"""Cycles: runs that hardly differ are compared slice by slice."""
SPEED = 10.0
SMALL_SIDE = 16
IDLE_SIDE = 317
"""A square of over 100,000 PEs."""
IDLE_ROWS = 6281
"""Rows of SMALL_SIDE PEs: as many."""
FEW_ROWS = 17
"""Rows as wide as the square with few idle PEs: what it costs that active PEs lie apart."""


def _load(side: int, rounds: int) -> Program:
    with TemporaryDirectory() as folder:
        path = write_stencil(Path(folder))
        params = f"side:{side},depth:{DEPTH},rounds:{rounds}"
        return TARGET.load(LoadRequest(path, settings={"arch": "wse3", "params": params}), NoProgress())[1]


def _machine(wafer: Wafer) -> WaveletMachine:
    machine = TARGET.build(*make_program(wafer, settings={"watch": "corner"}))
    assert isinstance(machine, WaveletMachine)
    return machine


def _seconds(machine: WaveletMachine, cycles: int) -> list[float]:
    """Seconds by the clock of each so many cycles of a machine, from now to its end."""
    found: list[float] = []
    while not machine.is_finished:
        begin = time.perf_counter()
        machine.advance(machine.cycle + cycles, NO_STOPS, None)
        found.append(time.perf_counter() - begin)
    return found


def _best(runs: Sequence[tuple[WaveletMachine, int]], repeats: int, cycles: int = FOREVER) -> list[float]:
    """Seconds of machines from now to their ends, each on at most so many threads.

    The sum of the best that each so many cycles took in several runs, all in turn.
    """
    starts = [machine.snapshot() for machine, _ in runs]
    found: list[list[list[float]]] = [[] for _ in runs]
    for _ in range(repeats):
        for (machine, threads), start, seconds in zip(runs, starts, found, strict=True):
            machine.engine.most_threads = threads
            machine.restore(start)
            seconds.append(_seconds(machine, cycles))
    return [float(np.min(seconds, axis=0).sum()) for seconds in found]


def _inside(wafer: Wafer, columns: int, rows: int) -> Wafer:
    """The same program in the corner of a rectangle of idle PEs of that size."""
    programs = np.full((rows, columns), len(wafer.programs), np.int32)
    programs[: wafer.rows, : wafer.columns] = wafer.program_of
    own = (*wafer.programs, replace(wafer.programs[0], activated=()))
    size = (columns + 7, rows + 2)
    return replace(wafer, programs=own, program_of=programs, columns=columns, rows=rows, fabric=size)


def _idle() -> list[Row]:
    """What idle PEs cost a small program."""
    small = _load(SMALL_SIDE, ROUNDS).payload.wafer
    sizes = [(SMALL_SIDE, IDLE_ROWS), (IDLE_SIDE, FEW_ROWS), (IDLE_SIDE, IDLE_SIDE)]
    machines = [_machine(small), _machine(small), *(_machine(_inside(small, *size)) for size in sizes)]
    alone, *others = _best([(machine, 1) for machine in machines], SMALL_REPEATS, SLICE)
    names = [f"the same among {c * r - SMALL_SIDE**2} idle PEs, {c} x {r} in all" for c, r in sizes]
    figures = ["", "no more than a machine alike", "", "no more than with few idle PEs"]
    work = machines[0].cycle * SMALL_SIDE**2 / 1e6
    return [
        Row(f"stencil {SMALL_SIDE} x {SMALL_SIDE}: PE-cycles", work / alone, "M/s"),
        Row(f"stencil {SMALL_SIDE} x {SMALL_SIDE}", alone, "s"),
        *(
            Row(name, seconds / alone, "x", figure)
            for name, seconds, figure in zip(["a machine alike", *names], others, figures, strict=True)
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
    seconds, single = _best([(machine, threads), (machine, 1)], REPEATS)
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
        Row(f"stencil {SIDE} x {SIDE}: words over links", hops, "M/s"),
        Row(f"stencil {SIDE} x {SIDE}: compiled", loaded, "s"),
        *_idle(),
    ]
