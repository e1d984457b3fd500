"""The suite can fail: each deliberately wrong machine is caught by the check made for it."""

from collections.abc import Callable

import pytest

from npuviz.base.progress import NoProgress
from npuviz.sim.machine import Machine
from tests.contract import checks, event_checks
from tests.contract.jumping import check_jumping
from tests.contract.runs import FOREVER, Make, run_to
from tests.toy.machine import ToyMachine
from tests.toy.target import TARGET
from tests.toy.wrong import (
    ChunkDependent,
    HiddenState,
    LateBreakpoint,
    Miscalculating,
    OverlappingIntervals,
    SharedState,
    SlowWhenRecorded,
    make_wrong,
)


@pytest.mark.parametrize(
    ("machine", "check"),
    [
        (HiddenState, checks.check_snapshots),
        (HiddenState, check_jumping),
        (SharedState, checks.check_interleaved),
        (ChunkDependent, checks.check_chunking),
        (SlowWhenRecorded, checks.check_recording),
        (LateBreakpoint, checks.check_stops),
        (OverlappingIntervals, event_checks.check_events),
    ],
)
def test_a_wrong_machine_is_caught(machine: type[ToyMachine], check: Callable[[Make], None]) -> None:
    def make() -> Machine:
        return make_wrong(machine)

    checks.check_same_run_twice(make)  # the mistake is not one that any test would find
    with pytest.raises(AssertionError):
        check(make)


def test_wrong_values_are_caught() -> None:
    machine = run_to(make_wrong(Miscalculating), FOREVER)
    result = TARGET.check(machine, NoProgress())
    assert result.num_failed > 0
    assert result.first_divergence == "z"
