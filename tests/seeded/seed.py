"""What a seeded bug is, and what a run of it tells."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from npuviz.sim.checks.findings import findings_of
from npuviz.sim.machine import Machine
from npuviz.sim.stop import BROKEN, NO_STOPS
from npuviz.workbench.opening import OpenOptions, open_file

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"
LIMIT = 5_000_000
"""Cycles after which a run that has not ended counts as one that never does."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A broken program.

    kind      what is broken, in a few words; several seeds may share one
    expected  kinds of hazards, or of stops ("deadlock", "fault"), of which one must be found
    make      builds a fresh machine at cycle 0
    """

    name: str
    machine: str
    kind: str
    expected: frozenset[str]
    make: Callable[[], Machine]


@dataclass(frozen=True, slots=True)
class Found:
    """What a run told: kinds of its hazards, and of its stop where the chip broke."""

    kinds: frozenset[str]
    texts: tuple[str, ...]


def found_in(machine: Machine) -> Found:
    """Run a machine to its end and ask what is wrong."""
    stop = machine.advance(LIMIT, NO_STOPS, None)
    kinds = {str(stop.kind)} if stop.kind in BROKEN else set[str]()
    texts = [stop.detail] if kinds else []
    for hazard in findings_of(machine).hazards:
        kinds.add(hazard.kind)
        texts.append(f"{hazard.kind}: {hazard.text}")
    return Found(frozenset(kinds), tuple(texts))


@cache
def sample(target: str, name: str = "tiny_cnn") -> Machine:
    """The machine of a sample model, compiled once; it is never run."""
    session = open_file(SAMPLES / f"{name}.onnx", OpenOptions(target=target)).session
    assert session is not None
    return session.machine
