"""Jumping to cycles in any order, stepping, running back: always where the straight run was."""

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from npuviz.debug.session import Session
from npuviz.sim.stop import NO_STOPS, StopKind
from tests.contract.runs import Make, StraightRun, run_straight
from tests.toy.session import CycleClock, make_recorder

BUDGET_SNAPSHOTS = 12
CYCLE_SHARE = 0.6
"""Seconds the whole run takes by the session's clock: enough for checkpoints to be laid and thinned."""


class StraightDigests:
    """Digest at any cycle by machines that only go forward, remembered."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._known: dict[int, str] = {}

    def at(self, cycle: int) -> str:
        if cycle not in self._known:
            machine = self._make()
            machine.advance(cycle, NO_STOPS, None)
            self._known[cycle] = machine.digest()
        return self._known[cycle]


def check_jumping(make: Make, examples: int = 12) -> None:
    straight = run_straight(make)
    machine_class = _state_machine(make, straight, StraightDigests(make))
    run_state_machine_as_test(
        machine_class,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            phases=[Phase.generate],
            report_multiple_bugs=False,
        ),
    )


def _state_machine(make: Make, straight: StraightRun, digests: StraightDigests) -> Any:
    end = straight.end_cycle
    cycles = st.integers(0, end + 3)

    class Jumps(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            machine = make()
            self.recorder = make_recorder(machine)
            budget = BUDGET_SNAPSHOTS * (machine.snapshot().size_bytes + 1024)
            clock = CycleClock(machine, CYCLE_SHARE / end)
            self.session = Session(machine, self.recorder, budget, clock)

        @rule(cycle=cycles)
        def go_to(self, cycle: int) -> None:
            stop = self.session.go_to(cycle)
            assert stop.cycle == self.session.cycle == min(cycle, end)

        @rule(count=st.integers(1, 40))
        def step(self, count: int) -> None:
            wanted = min(end, self.session.cycle + count)
            assert self.session.step(count).cycle == wanted

        @rule(count=st.integers(1, 40))
        def step_back(self, count: int) -> None:
            wanted = max(0, self.session.cycle - count)
            assert self.session.step_back(count).cycle == wanted

        @rule(cycle=st.integers(1, end))
        def run_to(self, cycle: int) -> None:
            wanted = max(cycle, self.session.cycle)
            assert self.session.run(cycle).cycle == wanted

        @rule()
        def run_back_and_again(self) -> None:
            bound = self.session.cycle
            item = self.session.breakpoints.add(f"instr 0..{len(self.session.program.listing)}")
            stop = self.session.run_back()
            assert stop.cycle < bound or stop.cycle == bound == 0
            if stop.kind is StopKind.BREAKPOINT:
                here = self.session.cycle
                again = self.session.run(bound)
                assert again.cycle >= min(bound, here + 1)
                if again.cycle < bound:
                    raise AssertionError(f"run_back from {bound} stopped at {here}, missed {again.cycle}")
            self.session.breakpoints.remove(item.id)

        @rule()
        def restart(self) -> None:
            assert self.session.restart().kind is StopKind.START

        @invariant()
        def is_where_the_straight_run_was(self) -> None:
            cycle = self.session.cycle
            assert self.session.machine.digest() == digests.at(cycle), f"other state at cycle {cycle}"
            assert self.recorder.horizon >= cycle
            assert self.session.timeline.size_bytes <= 2 * BUDGET_SNAPSHOTS * (1024 + _largest(self.session))

        def teardown(self) -> None:
            self.session.go_to(end)
            assert self.session.machine.digest() == straight.digest
            assert self.session.trace is not None
            assert self.session.trace.end_cycle == end

    return Jumps


def _largest(session: Session) -> int:
    return session.machine.snapshot().size_bytes
