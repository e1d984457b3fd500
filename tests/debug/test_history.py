"""Going anywhere and writing anything, in any order, equals a machine that was written to on its way."""

from hypothesis import given
from hypothesis import strategies as st

from npuviz.debug.session import Session
from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import NO_STOPS
from npuviz.trace.reader import TraceReader
from tests.sweeps import examples
from tests.toy.program import ToySpec
from tests.toy.session import CycleClock, make_recorder
from tests.toy.target import make_machine

SPEC = ToySpec(blocks=4)
GO, WRITE, POKE, BACK = range(4)

actions = st.lists(
    st.one_of(
        st.tuples(st.just(GO), st.integers(0, 500)),
        st.tuples(st.just(WRITE), st.integers(1, 20)),
        st.tuples(st.just(POKE), st.integers(0, 255)),
        st.tuples(st.just(BACK), st.integers(1, 30)),
    ),
    max_size=12,
)
Edits = list[tuple[int, int, int]]


def straight(edits: Edits, until: int) -> tuple[str, TraceReader]:
    """State at `until` and trace of a machine that only goes forward, written to on its way."""
    machine = make_machine(SPEC)
    recorder = make_recorder(machine)
    buffer = EventBuffer(1 << 14)
    for cycle, kind, value in edits:
        machine.advance(cycle, NO_STOPS, buffer)
        if kind == WRITE:
            machine.write("Core[0].LD.latency", value)
        else:
            machine.write_memory(0, value, bytes([value]))
    machine.advance(until, NO_STOPS, buffer)
    recorder.drain(buffer)
    recorder.mark(machine.cycle)
    return machine.digest(), TraceReader(recorder.store)


@examples(20, 60)
@given(actions)
def test_any_history(steps: list[tuple[int, int]]) -> None:
    machine = make_machine(SPEC)
    session = Session(machine, make_recorder(machine), 60_000, CycleClock(machine, 0.002))
    edits: Edits = []
    for kind, value in steps:
        if kind == GO:
            session.go_to(value)
        elif kind == BACK:
            session.step_back(value)
        else:
            edits = [edit for edit in edits if edit[0] <= session.cycle]
            edits.append((session.cycle, kind, value))
            if kind == WRITE:
                session.write("Core[0].LD.latency", value)
            else:
                session.write_memory(0, value, bytes([value]))
        passed = [edit for edit in edits if edit[0] <= session.cycle]
        assert session.machine.digest() == straight(passed, session.cycle)[0]
    session.run()
    digest, expected = straight(edits, 1 << 40)
    assert session.machine.digest() == digest
    assert session.trace is not None
    assert session.trace.end_cycle == expected.end_cycle == session.cycle
    for track in session.description.tracks:
        if track.kind == "interval":
            found, wanted = session.trace.interval_columns(track.id), expected.interval_columns(track.id)
            assert found.start.tolist() == wanted.start.tolist()
            assert found.end.tolist() == wanted.end.tolist()
        else:
            counted, right = session.trace.counter_columns(track.id), expected.counter_columns(track.id)
            assert counted.cycle.tolist() == right.cycle.tolist()
            assert counted.value.tolist() == right.value.tolist()
    assert len(session.trace.flows((0, 1 << 40))) == len(expected.flows((0, 1 << 40)))
    assert len(session.trace.lifetimes(1, (0, 1 << 40))) == len(expected.lifetimes(1, (0, 1 << 40)))
