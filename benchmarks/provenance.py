"""Provenance: following a run once, and then who made and who uses bytes at random cycles."""

import random
import time

import numpy as np

from benchmarks.row import Row
from benchmarks.time_travel import MODEL, TARGETS, open_session, timed
from npuviz.debug.provenance import provenance_of
from npuviz.debug.session import Session

QUESTIONS = 40
SEED = 1
FIRST_CYCLES = 20_000
_SLOWEST = 95


def run() -> list[Row]:
    """light_resnet50 on every machine that tells what its work touches."""
    rows: list[Row] = []
    for target in TARGETS:
        rows += _of(f"light_resnet50 on {target}", open_session(MODEL, target=target))
    return rows


def _of(name: str, session: Session) -> list[Row]:
    session.run(FIRST_CYCLES)
    provenance_of(session)  # compiled by now
    session.run()
    begin = time.perf_counter()
    found = provenance_of(session)
    seconds = time.perf_counter() - begin
    choose = random.Random(SEED)
    places = [each for each in session.program.memory_map.allocations if each.size_bytes]
    memories = {memory.id: memory for memory in session.description.memories}

    def one() -> None:
        place = choose.choice(places)
        address = place.address + choose.randrange(place.size_bytes)
        writer = found.writer(memories[place.memory], address)
        if writer is not None:
            found.origins(writer.place)
        found.readers(memories[place.memory], address)

    slowest = float(np.percentile(timed([one] * QUESTIONS), _SLOWEST))
    return [
        Row(f"{name}: following who made what, once", seconds, "s"),
        Row(f"{name}: who made and who uses a byte, p{_SLOWEST}", slowest, "ms", "under 50"),
    ]
