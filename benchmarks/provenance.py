"""Measures provenance: following a run once, then finding producers and consumers of random bytes."""

import random
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.row import Row
from benchmarks.stencil import stencil
from benchmarks.time_travel import MODEL, TARGETS, open_session, timed
from npuviz.debug.provenance import provenance_of
from npuviz.debug.session import Session

QUESTIONS = 40
SEED = 1
FIRST_CYCLES = 20_000
FIRST_CYCLES_OF_WAFER = 50
SIDES = (16, 64)
"""Sides of the stencils on a wafer; for the larger one only cycles around the end are followed."""
_SLOWEST = 95


def run() -> list[Row]:
    """Measure light_resnet50 on every machine with records of accesses, and stencils on a wafer."""
    rows: list[Row] = []
    for target in TARGETS:
        session = open_session(MODEL, target=target)
        places = [
            (each.memory, each.address, each.size_bytes)
            for each in session.program.memory_map.allocations
            if each.size_bytes
        ]
        rows += _of(f"light_resnet50 on {target}", session, places, FIRST_CYCLES)
    for side in SIDES:
        with tempfile.TemporaryDirectory() as folder:
            session = Session(stencil(Path(folder), side))
        memories = session.description.memories
        places = [(m.id, r.address, r.size_bytes) for m in memories for r in session.machine.regions(m.id)]
        rows += _of(f"stencil {side} x {side} on a wafer", session, places, FIRST_CYCLES_OF_WAFER)
    return rows


def _of(name: str, session: Session, places: list[tuple[int, int, int]], first: int) -> list[Row]:
    session.run(first)
    provenance_of(session)  # compiles the kernels before measuring
    session.run()
    begin = time.perf_counter()
    found = provenance_of(session)
    seconds = time.perf_counter() - begin
    choose = random.Random(SEED)
    memories = {memory.id: memory for memory in session.description.memories}

    def one() -> None:
        memory, begin, size = choose.choice(places)
        address = begin + choose.randrange(size)
        writer = found.writer(memories[memory], address)
        if writer is not None:
            found.origins(writer.place)
        found.readers(memories[memory], address)

    slowest = float(np.percentile(timed([one] * QUESTIONS), _SLOWEST))
    return [
        Row(f"{name}: following who made what, once", seconds, "s"),
        Row(f"{name}: who made and who uses a byte, p{_SLOWEST}", slowest, "ms", "under 50"),
    ]
