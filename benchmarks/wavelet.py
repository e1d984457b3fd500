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
SMALL_REPEATS = 15
SPEED = 10.0
IDLE_SIDE = 317
"""A square of over 100,000 PEs."""


def _load(side: int, rounds: int) -> Program:
    with TemporaryDirectory() as folder:
        path = write_stencil(Path(folder))
        params = f"side:{side},depth:{DEPTH},rounds:{rounds}"
        return TARGET.load(LoadRequest(path, settings={"arch": "wse3", "params": params}), NoProgress())[1]


def _machine(wafer: Wafer) -> WaveletMachine:
    machine = TARGET.build(*make_program(wafer, settings={"watch": "corner"}))
    assert isinstance(machine, WaveletMachine)
    return machine


def _best(runs: Sequence[tuple[WaveletMachine, int]], repeats: int) -> list[float]:
    """Seconds by the clock of machines from now to their ends, each on at most so many threads.

    The best of several, in turn: what disturbs a run disturbs all.
    """
    starts = [machine.snapshot() for machine, _ in runs]
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for index, (machine, threads) in enumerate(runs):
            machine.engine.most_threads = threads
            machine.restore(starts[index])
            begin = time.perf_counter()
            machine.advance(FOREVER, NO_STOPS, None)
            best[index] = min(best[index], time.perf_counter() - begin)
    return best


def _inside(wafer: Wafer, side: int) -> Wafer:
    """The same program in the corner of a square of idle PEs of that side."""
    programs = np.full((side, side), -1, np.int32)
    programs[: wafer.rows, : wafer.columns] = wafer.program_of
    own = (*wafer.programs, replace(wafer.programs[0], activated=()))
    programs[wafer.rows :, :] = programs[:, wafer.columns :] = len(own) - 1
    size = (side + 7, side + 2)
    return replace(wafer, programs=own, program_of=programs, columns=side, rows=side, fabric=size)


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
    small = _load(16, ROUNDS).payload.wafer
    near = _machine(small)
    wide = _machine(_inside(small, IDLE_SIDE))
    alone, among = _best([(near, 1), (wide, 1)], SMALL_REPEATS)
    cached = near.cycle * len(near.engine.program.nodes.x) / alone / 1e6
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
        Row("stencil 16 x 16: PE-cycles", cached, "M/s"),
        Row("stencil 16 x 16", alone, "s"),
        Row(f"the same among {IDLE_SIDE**2} idle PEs", among, "s", "no more than alone"),
    ]
