"""What the gaps of a unit are lost to, by what is said of the interval behind each."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from npuviz.trace.causes.waits import UNKNOWN, _of_gaps
from npuviz.trace.schema import Kind

KINDS = (
    Kind(0, "call", "host"),
    Kind(1, "work", "compute"),
    Kind(2, "queue full", "wait-queue"),
    Kind(3, "needs", "control"),
)


def lost(cause: tuple[int, int, int], gap: tuple[int, int] = (100, 140), track: int = 2) -> dict[str, int]:
    """Cycles by cause of one gap, for the kind, the done cycle and the source of the cause at its end."""
    kind, done, source = cause
    # Track 0 is a host's, track 1 works, and track 2 goes on behind the gap.
    graph: Any = SimpleNamespace(
        kind=np.array([0, 0, 1, 0]), offsets=np.array([0, 2, 4, 4]), cause_offsets=np.array([0, 0, 0, 2]),
        cause_cycle=np.array([50, 140]), cause_kind=np.array([3, kind]), done=np.array([-1, done]),
        source=np.array([-1, source]),
    )  # fmt: skip
    reader: Any = SimpleNamespace(schema=SimpleNamespace(kinds=KINDS))
    low, high = (np.array([each]) for each in gap)
    found: dict[str, int] = {}
    for name, cycles in _of_gaps(graph, reader, (low, high), track):
        found[name] = found.get(name, 0) + cycles
    return {name: cycles for name, cycles in found.items() if cycles}


def test_before_its_source_was_done_a_unit_had_nothing_to_do() -> None:
    assert lost((3, 110, -1)) == {"empty": 10, "dependency": 30}
    assert lost((2, 110, -1)) == {"empty": 10, "queue": 30}
    assert lost((2, -1, -1)) == {"queue": 40}
    assert lost((3, 500, -1)) == {"empty": 40}


def test_what_comes_from_a_host_alone_is_the_hosts() -> None:
    assert lost((0, 110, -1)) == {"empty": 10, "host": 30}
    assert lost((2, 110, -2)) == {"empty": 10, "host": 30}
    assert lost((2, 110, -3)) == {"empty": 10, "queue": 30}


def test_gaps_without_a_cause_and_at_the_end() -> None:
    assert lost((3, 110, -1), (60, 130)) == {UNKNOWN: 70}
    assert lost((3, 110, -1), track=-1) == {"empty": 40}
