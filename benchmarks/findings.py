"""Seeded bugs that are found, and findings in models that are right: the samples, or a folder."""

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row
from npuviz.base.errors import NpuvizError
from npuviz.sim.machine import ChecksMemory
from npuviz.sim.stop import NO_STOPS
from npuviz.workbench.opening import OpenOptions, open_file
from tests.seeded import found_in, seeds
from tests.seeded.seed import SAMPLES

TARGETS = ("neuroncore", "rk3588", "systolic")
LIMIT = 20_000_000


def run(corpus: Path | None = None) -> list[Row]:
    """Found of all seeds by machine and kind; findings in right programs and what looking costs."""
    return [*_seeded(), *_right(corpus or SAMPLES)]


def _seeded() -> Iterator[Row]:
    counts: dict[tuple[str, str], list[bool]] = {}
    for seed in seeds():
        found = bool(found_in(seed.make()).kinds & seed.expected)
        counts.setdefault((seed.machine, seed.kind), []).append(found)
    for (machine, kind), found in counts.items():
        yield Row(f"{machine}: {kind}", sum(found), f"of {len(found)}", "all", not all(found))


def _right(folder: Path) -> Iterator[Row]:
    """Models of a folder on each target that takes them."""
    for target in TARGETS:
        programs = wrong = 0
        running = looking = 0.0
        names: list[str] = []
        for path in sorted(folder.rglob("*.onnx")):
            try:
                session = open_file(path, OpenOptions(target=target)).session
            except NpuvizError:
                continue
            if session is None or not isinstance(session.machine, ChecksMemory):
                continue
            begin = time.perf_counter()
            session.machine.advance(LIMIT, NO_STOPS, None)
            middle = time.perf_counter()
            found = session.machine.memory_hazards().hazards
            running, looking = running + middle - begin, looking + time.perf_counter() - middle
            programs += 1
            wrong += bool(found)
            names += [f"{path.name} {found[0].kind}"] if found else []
        figure = f"0; {', '.join(names[:4])}" if names else "0"
        yield Row(f"{target}: right programs with findings", wrong, f"of {programs}", figure, wrong > 0)
        yield Row(f"{target}: checks", 100 * looking / max(running, 1e-9), "% of simulating", "15")
