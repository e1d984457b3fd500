"""Time travel: jumping to cycles, stepping both ways, and the overhead of a session over a bare run."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from benchmarks.row import Row
from npuviz.base.progress import NoProgress
from npuviz.debug.session import Session
from npuviz.sim.state import Snapshot
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.workbench.opening import OpenOptions, open_file

MODEL = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
TARGETS = ("neuroncore", "rk3588", "systolic")
JUMPS = 300
STEPS = 100
REPEATS = 5
FOREVER = 1 << 40
SEED = 1
FIRST_INSTRUCTIONS = 8
ARMED = 20
AFTER = 10**12
"""A cycle that no run here reaches."""
LOOKS = 200


def open_session(model: Path = MODEL, config: Path | None = None, target: str = "") -> Session:
    """Open a session at cycle 0 that records in memory."""
    session = open_file(model, OpenOptions(config=config, target=target), NoProgress()).session
    if session is None:
        raise ValueError(f"{model}: a trace has no machine to travel with")
    return session


def bare_seconds(session: Session, first: Snapshot) -> float:
    """Measure processor seconds of the machine alone to the end, without recording or checkpoints."""
    session.machine.restore(first)
    begin = time.process_time()
    while session.machine.advance(FOREVER, NO_STOPS, None).kind is not StopKind.FINISHED:
        pass
    return time.process_time() - begin


def session_seconds(session: Session) -> float:
    """Measure processor seconds of a new session to the end, with recording and checkpoints."""
    begin = time.process_time()
    session.run()
    return time.process_time() - begin


def timed(actions: list[Callable[[], object]]) -> np.ndarray:
    """Return the milliseconds of each action."""
    taken: list[float] = []
    for action in actions:
        begin = time.perf_counter()
        action()
        taken.append((time.perf_counter() - begin) * 1e3)
    return np.array(taken)


def run() -> list[Row]:
    """Measure a network on each machine; two minutes."""
    return [row for target in TARGETS for row in measure(MODEL, target=target)]


def arm(session: Session) -> None:
    """Make breakpoints that never hit: writes to the end of the largest memory, instructions after the
    run."""
    memory = max(session.description.memories, key=lambda each: each.size_bytes)
    count = len(session.machine.program.listing)
    for number in range(ARMED // 2):
        session.breakpoints.add(f"write {memory.name} {memory.size_bytes - 4 * (number + 1):#x}")
        session.breakpoints.add(f"instr {number * count * 2 // ARMED} and cycle > {AFTER}")


def seconds_of_a_look(model: Path, target: str, without: float) -> float:
    """Measure processor seconds of one test of a condition that does not hold."""
    best, looks = float("inf"), LOOKS
    for _ in range(REPEATS):
        session = open_session(model, target=target)
        # Arithmetic on the cycle is not known ahead, so every one of these instructions has to be looked at.
        looks = min(LOOKS, len(session.machine.program.listing) - 1)
        session.breakpoints.add(f"instr 0..{looks} and cycle + 0 > {AFTER}")
        best = min(best, session_seconds(session))
    return (best - without) / looks


def measure(model: Path, config: Path | None = None, target: str = "") -> list[Row]:
    """Measure one model on one machine; half a minute."""
    first = open_session(model, config, target)
    start = first.machine.snapshot()
    bare, recorded, armed, session = float("inf"), float("inf"), float("inf"), first
    for _ in range(REPEATS):
        bare = min(bare, bare_seconds(first, start))
        with_conditions = open_session(model, config, target)
        arm(with_conditions)
        armed = min(armed, session_seconds(with_conditions))
        session = open_session(model, config, target)
        recorded = min(recorded, session_seconds(session))
    look = seconds_of_a_look(model, target, recorded)
    end = session.cycle
    drawn = random.Random(SEED)
    targets = [drawn.randrange(end) for _ in range(JUMPS)]
    jumps = timed([lambda c=cycle: session.go_to(c) for cycle in targets])
    session.go_to(end // 2)
    back = timed([session.step_back] * STEPS)
    ahead = timed([session.step] * STEPS)
    session.go_to(end)
    session.breakpoints.add(f"instr 0..{FIRST_INSTRUCTIONS}")
    run_back = timed([session.run_back])
    rows = [
        Row("run without session", bare * 1e3, "ms"),
        Row("recording and checkpoints add", (recorded / bare - 1) * 100, "%", "under 10"),
        Row(f"{ARMED} armed conditions add", (armed / recorded - 1) * 100, "%", "under 10"),
        Row("a look at a condition that does not hold", look * 1e6, "us"),
        *(
            Row(f"go to a random cycle: p{share}", float(np.percentile(jumps, share)), "ms", figure)
            for share, figure in ((50, ""), (95, "under 100"), (100, ""))
        ),
        Row("step back: p95", float(np.percentile(back, 95)), "ms", "under 33"),
        Row("step: p95", float(np.percentile(ahead, 95)), "ms", "under 33"),
        Row(f"run back over {end} cycles", float(run_back[0]), "ms", "under 1000"),
        Row("memory of the checkpoints", session.timeline.size_bytes / 2**20, "MiB", "at most 256"),
    ]
    name = f"{model.stem} on {session.description.target}"
    return [Row(f"{name}: {row.name}", row.value, row.unit, row.figure) for row in rows]
