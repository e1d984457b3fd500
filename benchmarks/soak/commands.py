"""Random commands of the text debugger on every target."""

import io
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks.soak.measures import Held, held
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.programs import HEAT, SAMPLES, SMALL
from npuviz.debug.console.commands import COMMANDS
from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.session import Session
from npuviz.workbench.opening import OpenOptions, open_file

PROGRAMS = {
    "systolic": (SAMPLES / "tiny_cnn.onnx", OpenOptions("systolic", config=SMALL)),
    "neuroncore": (SAMPLES / "tiny_cnn.onnx", OpenOptions("neuroncore")),
    "rk3588": (SAMPLES / "tiny_cnn_int8.onnx", OpenOptions("rk3588")),
    "wavelet": (HEAT, OpenOptions("wavelet")),
    "NKI kernel": (
        SAMPLES / "nki" / "softmax.py",
        OpenOptions("neuroncore", settings={"shape.x": "300x64"}),
    ),
}
COUNT = 250_000
"""Commands for each target, and for a kernel's lines and loops."""
CHECKPOINT_BYTES = 32 << 20
"""Memory for checkpoints, so small that it is full after the first tenth of the commands."""
PROBED = 16
"""Cycles at which digests are compared."""
PROBE_EVERY = 5_000
"""Commands between two comparisons, of one cycle each."""
SAMPLES_HELD = 100
"""How often memory, threads and files of the process are measured."""
_NEAR = 2_000
"""Most cycles of most motions, since long ones take long."""


@dataclass(frozen=True)
class Known:
    """What commands can be about in a session, and digests at some cycles of a straight run."""

    end: int
    units: tuple[str, ...]
    memories: tuple[str, ...]
    probes: tuple[str, ...]
    queues: tuple[str, ...]
    instructions: int
    digests: dict[int, str]


def run(share: float) -> Iterator[Outcome]:
    """Run random commands on the program of every target."""
    for target in PROGRAMS:
        yield play(target, max(1000, round(COUNT * share)))


def play(target: str, count: int) -> Outcome:
    """Give random valid and invalid commands; at intervals compare the state with that of a straight run."""
    outcome = Outcome("commands", f"{target}: random debugger commands")
    path, options = PROGRAMS[target]
    opened = open_file(path, replace(options, checkpoint_budget_bytes=CHECKPOINT_BYTES))
    session = opened.session
    assert session is not None
    choose, known = random.Random(target), _known(session)
    lines = _lines(session, known, choose)
    # States kept for going back come and go: what was held at most, early and late, is compared.
    early, late = Held(0, 0, 0), Held(0, 0, 0)
    begin = time.monotonic()
    for number in range(count):
        line = lines()
        out = io.StringIO()
        try:
            TextDebugger(session, out, json=choose.random() < 0.2).execute(line)
        except Exception as error:
            outcome.count(f"{line}: {type(error).__name__}: {error}")
            continue
        outcome.count("" if out.getvalue() or not line.strip() else f"{line}: no answer")
        if number % PROBE_EVERY == PROBE_EVERY - 1:
            fault = _different(session, known, choose)
            if fault:
                outcome.good -= 1
                outcome.faults.append(fault)
        if number % (count // SAMPLES_HELD) == 0:
            if count * 0.1 <= number < count * 0.5:
                early = early.most(held())
            elif number >= count * 0.7:
                late = late.most(held())
    outcome.figures = early.until(late)
    if grown := early.growth(late):
        outcome.good -= 1
        outcome.faults.append(grown)
    opened.close()
    outcome.figures += (
        f", {count // PROBE_EVERY} digests compared, {(time.monotonic() - begin) / 60:.1f} minutes"
    )
    return outcome


def _known(session: Session) -> Known:
    session.run()
    end, digests = session.cycle, dict[int, str]()
    for cycle in {round(end * part / PROBED) for part in range(PROBED + 1)}:
        session.go_to(cycle)
        digests[cycle] = session.machine.digest()
    description = session.description
    return Known(
        end,
        tuple(unit.name for unit in description.units),
        tuple(memory.name for memory in description.memories),
        tuple(probe.id for probe in session.machine.probes),
        tuple(queue.name for queue in description.queues),
        max(1, len(session.program.listing)),
        digests,
    )


def _different(session: Session, known: Known, choose: random.Random) -> str:
    """Reset edited values, and describe what is wrong about the state at one of the known cycles."""
    session.restart()
    cycle = choose.choice(sorted(known.digests))
    session.go_to(cycle)
    found = session.machine.digest()
    return "" if found == known.digests[cycle] else f"cycle {cycle}: another digest than in a straight run"


def _lines(session: Session, known: Known, choose: random.Random) -> Callable[[], str]:
    """Makes random commands: motions, questions, breakpoints, values, and nonsense."""

    def near() -> int:
        return choose.randrange(1, min(_NEAR, known.end) + 1)

    def name(names: tuple[str, ...]) -> str:
        return choose.choice(names) if names else "nothing"

    def breakpoint_id() -> int:
        return choose.choice([each.id for each in session.breakpoints.all] or [1])

    def branch_id() -> int:
        return choose.choice([each.id for each in session.branches] or [1])

    def place() -> str:
        return f"{choose.randrange(6)},{choose.randrange(6)}"

    def span() -> str:
        return " ".join(str(cycle) for cycle in sorted(choose.choices(range(known.end + 1), k=2)))

    def condition() -> str:
        if choose.random() < 0.3:
            joint = choose.choice(("and", "or", f"within {choose.randrange(1, 40)} cycles after", "and not"))
            return f"({condition()}) {joint} ({condition()})"
        if choose.random() < 0.2:
            event = f"instr {choose.randrange(known.instructions)}"
            return choose.choice(
                (f"count({event}) >= 1", f"changed queue {name(known.queues)}", f"log {event}")
            )
        return choose.choice(
            (
                f"cycle == {choose.randrange(known.end + 1)}",
                f"instr {choose.randrange(known.instructions)}",
                f"queue {name(known.queues)} >= {choose.randrange(4)}",
                f"read {name(known.memories)} 0x{choose.randrange(1 << 16):x}..0x{1 << 16:x}",
            )
        )

    tensors = tuple(tensor.name for tensor in session.program.graph.tensors) or ("nothing",)
    words = tuple(command.name for command in COMMANDS)
    elements = tuple(command.name for command in COMMANDS if " C,R" in command.usage)
    areas = tuple(command.name for command in COMMANDS if "[..C,R]" in command.usage)
    ways: tuple[tuple[int, Callable[[], str]], ...] = (
        (20, lambda: f"step {choose.randrange(1, 50)}"),
        (6, lambda: f"back {choose.randrange(1, 50)}"),
        (4, lambda: f"goto {choose.randrange(known.end + 1)}"),
        (2, lambda: f"run {near()}"),
        (1, lambda: choose.choice(("run", "restart", "runback"))),
        (5, lambda: f"{choose.choice(('next', 'previous'))} {name(known.units)}"),
        (3, lambda: f"break {condition()}"),
        (2, lambda: f"{choose.choice(('runto', 'backto', 'eval', 'log'))} {condition()}"),
        (6, lambda: f"delete {breakpoint_id()}"),
        (12, lambda: f"print {name(known.probes)}"),
        (6, lambda: f"mem {name(known.memories)} {choose.randrange(1 << 16)} {choose.randrange(65)}"),
        (3, lambda: f"who {name(known.memories)} {choose.randrange(1 << 16)}"),
        (2, lambda: f"who {choose.choice((name(known.queues), place()))}"),
        (
            2,
            lambda: (
                f"{choose.choice(('origin', 'readers'))} {name(known.memories)} {choose.randrange(1 << 16)}"
            ),
        ),
        (
            1,
            lambda: (
                f"{choose.choice(('origin', 'readers'))} {choose.choice(tensors)} {choose.choice(('', '5'))}"
            ),
        ),
        (2, lambda: choose.choice(("branches", f"branch {branch_id()}", f"compare {branch_id()}"))),
        (5, lambda: f"why {name(known.units)}"),
        (2, lambda: f"why {name(known.units)} {choose.randrange(known.end + 1)}"),
        (2, lambda: f"why {name(known.units)} {span()}"),
        (1, lambda: f"turn {choose.choice(('block', 'i', 'element'))} {choose.randrange(4)}"),
        (1, lambda: f"frames {name(known.units)}"),
        (2, lambda: f"{choose.choice(areas)} {place()}..{place()}"),
        (2, lambda: f"set {name(known.probes)} {choose.randrange(100)}"),
        (12, lambda: choose.choice(("queues", "units", "semaphores", "info", "breakpoints", "help"))),
        (2, lambda: f"deps {choose.randrange(known.instructions)}"),
        (1, lambda: choose.choice(("hazards", "digest"))),
        (3, lambda: f"{choose.choice(elements)} {place()}"),
        (
            3,
            lambda: (
                f"{choose.choice(words)} {choose.choice(('', '-1', 'x y z', '1e9', '0x', '%', '9' * 30))}"
            ),
        ),
    )
    weights = [weight for weight, _ in ways]
    made = [way for _, way in ways]
    return lambda: choose.choices(made, weights)[0]()
