import threading

import numpy as np
import pytest

from npuviz.base.errors import SimulationError
from npuviz.base.progress import CallbackProgress
from npuviz.debug.session import Session
from npuviz.sim.events import EventBuffer
from npuviz.sim.machine import Machine
from npuviz.sim.stop import NO_STOPS, StopKind, StopReason
from npuviz.trace.reader import TraceReader
from tests.toy.machine import ToyMachine
from tests.toy.program import ALU, ToySpec, make_program
from tests.toy.session import make_recorder, make_session
from tests.toy.target import make_machine

END = 767  # of 8 blocks


def digest_at(cycle: int, blocks: int = 8) -> str:
    machine = make_machine(ToySpec(blocks=blocks))
    machine.advance(cycle, NO_STOPS, None)
    return machine.digest()


def hits_forward(session: Session) -> list[tuple[int, tuple[int, ...]]]:
    found: list[tuple[int, tuple[int, ...]]] = []
    while (stop := session.run()).kind is StopKind.BREAKPOINT:
        found.append((stop.cycle, stop.breakpoints))
    assert stop.kind is StopKind.FINISHED
    return found


def hits_backward(session: Session) -> list[tuple[int, tuple[int, ...]]]:
    found: list[tuple[int, tuple[int, ...]]] = []
    while (stop := session.run_back()).kind is StopKind.BREAKPOINT:
        assert session.cycle == stop.cycle
        found.append((stop.cycle, stop.breakpoints))
    assert stop.kind is StopKind.START
    return found[::-1]


def test_run_ends_and_knows_the_end() -> None:
    session = make_session()
    assert (session.stop.kind, session.end_cycle, session.is_finished) == (StopKind.START, None, False)
    stop = session.run()
    assert (stop.kind, stop.cycle, session.cycle) == (StopKind.FINISHED, END, END)
    assert (session.end_cycle, session.is_finished, session.stop) == (END, True, stop)
    assert session.run().kind is StopKind.FINISHED
    assert session.step().cycle == END


def test_run_until() -> None:
    session = make_session()
    assert session.run(100) == StopReason(StopKind.UNTIL, 100)
    assert session.run(50) == StopReason(StopKind.UNTIL, 100)
    assert session.run(END + 100).kind is StopKind.FINISHED


@pytest.mark.parametrize("cycle", [0, 1, 399, 400, 401, END - 1, END])
def test_go_to_equals_the_straight_run(cycle: int) -> None:
    session = make_session(cycle_seconds=0.0005)
    session.run()
    session.go_to(400)
    assert session.go_to(cycle).cycle == cycle
    assert session.machine.digest() == digest_at(cycle)


def test_go_to_beyond_the_end_stops_there() -> None:
    session = make_session()
    assert session.go_to(10 * END).kind is StopKind.FINISHED
    assert session.cycle == END
    with pytest.raises(ValueError, match="cycle -1"):
        session.go_to(-1)


def test_go_to_ignores_breakpoints() -> None:
    session = make_session()
    session.breakpoints.add("cycle == 30")
    assert session.go_to(60) == StopReason(StopKind.UNTIL, 60)


def test_step_and_step_back() -> None:
    session = make_session()
    assert session.step().cycle == 1
    assert session.step(9).cycle == 10
    assert session.step_back().cycle == 9
    assert session.machine.digest() == digest_at(9)
    assert session.step_back(100) == StopReason(StopKind.START, 0)
    with pytest.raises(ValueError, match="number of cycles"):
        session.step(0)
    with pytest.raises(ValueError, match="number of cycles"):
        session.step_back(0)


def test_step_stops_at_a_breakpoint() -> None:
    session = make_session()
    item = session.breakpoints.add("cycle == 5")
    assert session.step(10) == StopReason(StopKind.BREAKPOINT, 5, (item.id,))
    assert item.hits == 1


def test_step_instruction_goes_through_the_unit_in_order() -> None:
    session = make_session()
    started: list[int] = []
    for _ in range(5):
        stop = session.step_instruction(ALU)
        assert (stop.kind, stop.unit) == (StopKind.UNTIL, "Core[0].ALU")
        (activity,) = [a for a in session.machine.activities() if a.track == ALU]
        assert activity.start == stop.cycle - 1
        started.append(activity.instruction)
    assert started == [2, 6, 10, 14, 18]
    last = session.cycle
    session.run(last + 3)
    assert session.step_instruction_back(ALU).cycle == last
    assert session.step_instruction_back(ALU).cycle < last
    with pytest.raises(ValueError, match="unit 9"):
        session.step_instruction(9)


def test_step_instruction_meets_breakpoints_and_the_end() -> None:
    session = make_session()
    item = session.breakpoints.add("cycle == 4")
    assert session.step_instruction(ALU).breakpoints == (item.id,)
    session.go_to(END - 3)
    assert session.step_instruction(ALU).kind is StopKind.FINISHED


@pytest.mark.parametrize(
    "text",
    [
        "queue Core[0].ALU >= 2",
        'op "final square" ends',
        "op shift",
        "write DRAM 0x600..0x680",
        "read Core[0].SPAD 0",
        "instr 0..128",
        "cycle == 333 or instr 4",
        "Core[0].SPAD.used >= 300",
        "Core[0].busy[1] > 100",
    ],
)
def test_run_back_finds_the_hits_of_the_forward_run(text: str) -> None:
    session = make_session(cycle_seconds=0.0005, budget_bytes=200_000)
    session.breakpoints.add(text)
    forward = hits_forward(session)
    assert forward
    assert len(session.timeline.cycles) > 3
    backward = hits_backward(session)
    assert backward == [hit for hit in forward if hit[0] < END]


def test_run_back_with_hits_exactly_on_checkpoints() -> None:
    session = make_session(cycle_seconds=0.0005)
    session.run()
    marks = session.timeline.cycles
    assert len(marks) > 4
    ids = {session.breakpoints.add(f"cycle == {mark}").id: mark for mark in marks[1:]}
    found = hits_backward(session)
    assert [(cycle, (i,)) for i, cycle in ids.items() if cycle < END] == found


def test_run_back_without_a_hit_goes_to_the_start() -> None:
    session = make_session()
    session.run()
    session.breakpoints.add("cycle == 9999")
    assert session.run_back() == StopReason(StopKind.START, 0)
    assert session.run_back() == StopReason(StopKind.START, 0)


def test_several_breakpoints_hit_in_one_cycle() -> None:
    session = make_session()
    ids = [session.breakpoints.add(text).id for text in ("cycle == 1", "op scale", "instr 0", "read DRAM 0")]
    assert session.run().breakpoints == tuple(ids)
    assert session.cycle == 1


def test_a_switched_off_breakpoint_does_not_stop() -> None:
    session = make_session()
    first = session.breakpoints.add("cycle == 10")
    second = session.breakpoints.add("cycle == 20")
    session.breakpoints.set_enabled(first.id, False)
    assert session.run().breakpoints == (second.id,)
    session.breakpoints.remove(second.id)
    assert session.run().kind is StopKind.FINISHED
    assert (first.hits, second.hits) == (0, 1)


def test_events_are_recorded_once() -> None:
    straight = make_session()
    straight.run()
    session = make_session(cycle_seconds=0.0005)
    session.run(300)
    session.step_back(250)
    session.run_back()
    session.run(310)
    session.go_to(5)
    session.go_to(700)
    session.restart()
    session.run()
    assert straight.recorder is not None
    assert session.recorder is not None
    assert session.recorder.num_events == straight.recorder.num_events > 500
    assert session.recorder.horizon == END
    assert straight.trace is not None
    assert session.trace is not None
    for track in session.description.tracks:
        if track.kind == "interval":
            found, expected = (s.interval_columns(track.id) for s in (session.trace, straight.trace))
            assert np.array_equal(found.start, expected.start)
            assert np.array_equal(found.instruction, expected.instruction)


def test_recording_survives_a_full_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    _use_buffer_of(monkeypatch, 40)
    session = make_session()
    session.run()
    assert session.recorder is not None
    assert session.recorder.num_events == 720
    assert session.recorder.horizon == END


def test_a_buffer_too_small_for_the_machine_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    _use_buffer_of(monkeypatch, 8)
    session = make_session()
    with pytest.raises(SimulationError, match="too small at cycle 0"):
        session.run()


def test_without_a_recorder_nothing_is_recorded() -> None:
    session = make_session(records=False)
    assert (session.trace, session.recorder) == (None, None)
    session.run(200)
    assert session.step_back(20).cycle == 180
    assert session.machine.digest() == digest_at(180)


def test_write_changes_the_future_and_drops_what_was_known_of_it() -> None:
    session = make_session(cycle_seconds=0.0005)
    session.run()
    session.go_to(200)
    session.write("Core[0].LD.latency", 30)
    assert session.read("Core[0].LD.latency") == 30
    assert session.end_cycle is None
    assert session.recorder is not None
    assert session.recorder.horizon == 200
    assert max(session.timeline.cycles) < 200
    stop = session.run()
    assert stop.kind is StopKind.FINISHED
    assert stop.cycle > END
    twin = make_machine()
    twin.advance(200, NO_STOPS, None)
    twin.write("Core[0].LD.latency", 30)
    twin.advance(400, NO_STOPS, None)
    for cycle in (100, 400, 200, 199, 400):
        session.go_to(cycle)
        if cycle == 400:
            assert session.machine.digest() == twin.digest()
        elif cycle < 200:
            assert session.machine.digest() == digest_at(cycle)
        else:
            assert session.read("Core[0].LD.latency") == 30


def test_trace_after_a_write_is_that_of_the_new_history() -> None:
    session = make_session()
    session.run(500)
    session.go_to(200)
    session.write("Core[0].LD.latency", 30)
    session.run()
    twin = make_machine()
    twin.advance(200, NO_STOPS, buffer := EventBuffer(1 << 16))
    twin.write("Core[0].LD.latency", 30)
    twin.advance(1 << 40, NO_STOPS, buffer)
    recorder = make_recorder(twin)
    recorder.drain(buffer)
    assert session.trace is not None
    expected = TraceReader(recorder.store)
    for track in (0, 1, 2):
        found, wanted = session.trace.interval_columns(track), expected.interval_columns(track)
        assert found.start.tolist() == wanted.start.tolist()
        assert found.end.tolist() == wanted.end.tolist()


def test_an_earlier_write_makes_later_ones_void() -> None:
    session = make_session()
    session.go_to(300)
    session.write("Core[0].LD.latency", 50)
    session.go_to(100)
    session.write("Core[0].LD.latency", 4)
    session.go_to(310)
    assert session.read("Core[0].LD.latency") == 4


def test_writes_at_the_first_cycle_are_kept() -> None:
    session = make_session(cycle_seconds=0.0005)
    session.write("Core[0].LD.latency", 9)
    session.run()
    session.go_to(0)
    assert session.read("Core[0].LD.latency") == 9
    assert session.run_back().kind is StopKind.START
    session.go_to(50)
    assert session.read("Core[0].LD.latency") == 9


def test_restart_forgets_what_was_written() -> None:
    session = make_session(cycle_seconds=0.0005)
    session.go_to(200)
    session.write("Core[0].LD.latency", 30)
    session.run()
    assert session.restart() == StopReason(StopKind.START, 0)
    assert session.run().cycle == END
    assert session.machine.digest() == digest_at(END)
    assert session.recorder is not None
    assert session.recorder.num_events == _num_events()


def test_write_memory() -> None:
    session = make_session()
    session.go_to(10)
    session.write_memory(0, 100, b"\x01\x02\x03\x04")
    session.go_to(50)
    session.go_to(30)
    assert session.machine.read_memory(0, 100, 4) == b"\x01\x02\x03\x04"
    session.go_to(9)
    assert session.machine.read_memory(0, 100, 4) != b"\x01\x02\x03\x04"


def test_a_refused_write_changes_nothing() -> None:
    session = make_session()
    session.run(300)
    session.go_to(100)
    before = session.machine.digest(), session.timeline.cycles
    with pytest.raises(ValueError, match="cannot be written"):
        session.write("Core[0].busy", 3)
    with pytest.raises(KeyError):
        session.write("nothing", 3)
    with pytest.raises(ValueError, match="outside the memory"):
        session.write_memory(0, 1 << 40, b"a")
    assert (session.machine.digest(), session.timeline.cycles) == before
    assert session.recorder is not None
    assert session.recorder.horizon == 300


def test_a_written_array_is_not_shared_with_the_caller() -> None:
    session = make_session()
    session.go_to(100)
    values = np.arange(48, dtype=np.float32)
    session.write("Core[0].SPAD[3]", values)
    values[:] = 0
    session.go_to(99)
    session.go_to(100)
    assert session.read("Core[0].SPAD[3]").tolist() == list(range(48))


def test_a_fault_of_the_chip_is_a_stop() -> None:
    session = make_session(fault_at=10)
    stop = session.run()
    assert stop.kind is StopKind.FAULT
    assert "10" in stop.detail
    assert session.end_cycle == stop.cycle
    assert not session.is_finished
    assert session.step().kind is StopKind.FAULT
    assert session.step_back().cycle == stop.cycle - 1
    assert session.go_to(10 * END).kind is StopKind.FAULT


class _Interrupting(ToyMachine):
    """Calls a function in the third `advance`."""

    def __init__(self, action: "list[threading.Thread]") -> None:
        spec = ToySpec(blocks=64)
        super().__init__(spec, make_program(spec, {}, "toy"))
        self.action = action
        self.calls = 0

    def advance(self, until: int, stops: np.ndarray, events: EventBuffer | None) -> StopReason:
        self.calls += 1
        if self.calls == 3:
            self.action[0].start()
            self.action[0].join()
        return super().advance(until, stops, events)


def test_interrupt_from_another_thread() -> None:
    threads: list[threading.Thread] = []
    machine: Machine = _Interrupting(threads)
    session = Session(machine, make_recorder(machine))
    threads.append(threading.Thread(target=session.interrupt))
    stop = session.run()
    assert stop.kind is StopKind.INTERRUPTED
    assert 0 < stop.cycle == session.cycle
    assert session.recorder is not None
    assert session.recorder.horizon == session.cycle
    assert session.run().kind is StopKind.FINISHED


def test_progress_is_reported_rarely_and_can_cancel() -> None:
    seen: list[tuple[float, str]] = []
    session = make_session(blocks=64, cycle_seconds=0.0005)
    progress = CallbackProgress(lambda fraction, text: seen.append((fraction, text)))
    session.run(3000, progress)
    assert seen
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] <= fractions[-1] <= 1
    assert seen[0][1].startswith("cycle ")
    progress.cancel()
    assert session.run(progress=progress).kind is StopKind.INTERRUPTED
    assert 3000 < session.cycle < 6000


def test_interrupted_run_back_returns_to_where_it_was() -> None:
    session = make_session(blocks=64, cycle_seconds=0.0005)
    session.run(4000)
    item = session.breakpoints.add("Core[0].busy[0] < 0")
    calls = 0

    def interrupting(test: object) -> int:
        nonlocal calls
        calls += 1
        if calls == 50:
            session.interrupt()
        return 0

    read = session.machine.read
    session.machine.read = lambda probe: np.array([interrupting(probe)] * 3)
    stop = session.run_back()
    session.machine.read = read
    assert stop.kind is StopKind.INTERRUPTED
    assert session.cycle == 4000
    assert item.hits == 0
    assert session.machine.digest() == digest_at(4000, 64)


def test_listeners_hear_of_every_verb() -> None:
    session = make_session()
    heard: list[StopReason] = []
    session.changed.subscribe(heard.append)
    session.run(10)
    session.step()
    session.write("Core[0].LD.latency", 7)
    session.go_to(3)
    assert [(stop.kind, stop.cycle) for stop in heard] == [
        (StopKind.UNTIL, 10),
        (StopKind.UNTIL, 11),
        (StopKind.UNTIL, 11),
        (StopKind.UNTIL, 3),
    ]


def _num_events() -> int:
    session = make_session()
    session.run()
    assert session.recorder is not None
    return session.recorder.num_events


def _use_buffer_of(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    def make(wanted: int) -> EventBuffer:
        return EventBuffer(min(rows, wanted))

    monkeypatch.setattr("npuviz.debug.runner.EventBuffer", make)
