"""The promises of a machine about its state, each a function that asserts it."""

from collections.abc import Callable

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.sim.stop import (
    NO_STOPS,
    STOP_INSTRUCTION,
    STOP_MEMORY_READ,
    STOP_MEMORY_WRITE,
    STOP_NODE_END,
    STOP_NODE_START,
    STOP_QUEUE,
    StopKind,
    stop_table,
)
from tests.contract.runs import FOREVER, Make, run_recorded, run_straight, run_to, run_with_stops

CHUNKS = (1, 1, 2, 3, 5, 8, 13, 21, 34, 1, 55, 89, 144, 233, 377, 610)
STEPPED_CYCLES = 600


def check_same_run_twice(make: Make) -> None:
    assert run_straight(make) == run_straight(make)


def check_cycles_count(make: Make) -> None:
    straight = run_straight(make)
    machine = make()
    assert machine.cycle == 0
    assert not machine.is_finished
    for until in straight.sample(20):
        stop = machine.advance(until, NO_STOPS, None)
        assert machine.cycle == stop.cycle == until
        assert machine.is_finished == (until == straight.end_cycle)
        assert stop.kind in ((StopKind.FINISHED,) if machine.is_finished else (StopKind.UNTIL,))
        before = machine.digest()
        machine.advance(max(0, until - 5), NO_STOPS, None)
        assert machine.digest() == before, "advance to an earlier cycle changed something"
    assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
    assert machine.cycle == straight.end_cycle


def check_snapshots(make: Make) -> None:
    straight = run_straight(make)
    machine = make()
    for cycle in straight.sample(12):
        run_to(machine, cycle)
        snapshot, digest = machine.snapshot(), machine.digest()
        assert snapshot.cycle == cycle
        assert snapshot.size_bytes > 0
        for distance in (1, 7, straight.end_cycle):
            run_to(machine, cycle + distance)
            after = machine.digest()
            assert (after != digest) == (cycle < straight.end_cycle), "the digest must cover the cycle"
            machine.restore(snapshot)
            assert machine.cycle == cycle
            assert machine.digest() == digest
            run_to(machine, cycle + distance)
            assert machine.digest() == after, f"restore at {cycle}, then {distance} cycles"
            machine.restore(snapshot)
        assert run_to(machine, straight.end_cycle).digest() == straight.digest
        machine.restore(snapshot)


def check_chunking(make: Make) -> None:
    straight = run_straight(make)
    machine = make()
    for cycle in range(min(STEPPED_CYCLES, straight.end_cycle)):
        run_to(machine, cycle + 1)
    assert run_to(make(), machine.cycle).digest() == machine.digest(), "cycle by cycle"
    for chunks in (CHUNKS, (1000,), (64, 63, 65)):
        chunked = make()
        rows = run_recorded(chunked, chunks)
        assert (chunked.cycle, chunked.digest()) == (straight.end_cycle, straight.digest), f"chunks {chunks}"
        assert np.array_equal(rows, run_recorded(make())), f"events differ with chunks {chunks}"


def check_recording(make: Make) -> None:
    straight = run_straight(make)
    machine = make()
    rows = run_recorded(machine)
    assert len(rows) > 0
    assert (machine.cycle, machine.digest()) == (straight.end_cycle, straight.digest)
    small = make()
    assert np.array_equal(run_recorded(small, rows=small.event_rows_per_cycle), rows), (
        "with the smallest buffer"
    )
    assert small.digest() == straight.digest


def check_interleaved(make: Make) -> None:
    straight = run_straight(make)
    first, second = make(), make()
    step = max(1, straight.end_cycle // 37)
    for turn in range(200):
        run_to(first, first.cycle + step)
        run_to(second, second.cycle + 1 + (turn * 31) % (2 * step))
    for machine in (first, second):
        assert run_to(machine, straight.end_cycle).digest() == straight.digest


def check_probes(make: Make) -> None:
    machine = make()
    straight = run_straight(make)
    assert len({probe.id for probe in machine.probes}) == len(machine.probes) > 0
    for cycle in straight.sample(5):
        digest = run_to(machine, cycle).digest()
        for probe in machine.probes:
            value = machine.read(probe.id)
            if probe.shape == ():
                assert isinstance(value, int | float | bool), f"{probe.id} is {type(value)}"
            else:
                assert (value.shape, value.dtype) == (probe.shape, numpy_dtype(probe.dtype)), probe.id
        assert machine.digest() == digest, "reading changed the state"
    for probe in machine.probes:
        before = machine.digest()
        if probe.writable:
            machine.write(probe.id, machine.read(probe.id))
            assert machine.digest() == before, f"writing back {probe.id} changed the state"
            _assert_raises(ValueError, lambda p=probe: machine.write(p.id, np.zeros((*p.shape, 3))))
        else:
            _assert_raises(ValueError, lambda p=probe: machine.write(p.id, machine.read(p.id)))
        assert machine.digest() == before
    _assert_raises(KeyError, lambda: machine.read("no such probe"))
    _assert_raises(KeyError, lambda: machine.write("no such probe", 0))


def check_memories(make: Make) -> None:
    machine = make()
    seen = 0
    for cycle in run_straight(make).sample(12):
        run_to(machine, cycle)
        for memory in machine.description.memories:
            end = 0
            for region in machine.regions(memory.id):
                where = f"{memory.name} {region.address:#x} {region.label} at cycle {cycle}"
                assert end <= region.address, f"{where}: overlaps, or not sorted"
                end = region.address + region.size_bytes
                assert end <= memory.size_bytes, where
                needed = int(np.prod(region.shape)) * numpy_dtype(region.dtype).itemsize
                assert needed <= region.size_bytes * region.banks, f"{where}: {region.shape} {region.dtype}"
                assert 0 <= region.since <= cycle, where
                assert -1 <= region.tensor < len(machine.program.graph.tensors), where
                assert -1 <= region.instruction < len(machine.program.listing), where
                data = machine.read_memory(memory.id, region.address, region.size_bytes)
                assert len(data) == region.size_bytes
                seen += 1
    assert seen > 0, "no region in any memory at any time"


def check_writing_memory(make: Make) -> None:
    machine = make()
    run_to(machine, run_straight(make).end_cycle // 2)
    for memory in machine.description.memories:
        size = min(16, memory.size_bytes)
        data = bytes(range(1, size + 1))
        for address in (0, memory.size_bytes - size):
            snapshot, digest = machine.snapshot(), machine.digest()
            machine.write_memory(memory.id, address, data)
            assert machine.read_memory(memory.id, address, size) == data, f"{memory.name} {address:#x}"
            assert machine.digest() != digest, f"digest does not cover {memory.name} {address:#x}"
            machine.restore(snapshot)
            assert machine.digest() == digest, f"snapshot does not cover {memory.name} {address:#x}"
        beyond = memory.size_bytes
        _assert_raises(ValueError, lambda m=memory.id, a=beyond: machine.read_memory(m, a, 1))
        _assert_raises(ValueError, lambda m=memory.id: machine.read_memory(m, -1, 1))
        _assert_raises(ValueError, lambda m=memory.id, a=beyond: machine.write_memory(m, a - 1, b"ab"))


def check_observation(make: Make) -> None:
    """What the window asks for at each stop: right ids, and nothing changed by looking."""
    machine = make()
    description, listing = machine.description, machine.program.listing
    units = [unit.id for unit in description.units]
    tracks = {track.id for track in description.tracks if track.kind == "interval"}
    kinds = {kind.id for kind in description.kinds}
    roles = {kind.role for kind in description.kinds} | {"", "wait-empty", "idle"}
    for cycle in run_straight(make).sample(40):
        digest = run_to(machine, cycle).digest()
        states = machine.unit_states()
        assert [state.unit for state in states] == units
        assert list(machine.unit_states(2)) == list(states[:2])
        for state in states:
            assert state.status
            assert state.role in roles
            assert -1 <= state.instruction < len(listing)
            assert state.since <= cycle
        for unit, index in machine.next_instructions().items():
            assert unit in units
            assert 0 <= index < len(listing)
        for activity in machine.activities():
            assert activity.track in tracks
            assert activity.kind in kinds
            assert activity.start <= cycle
            assert activity.planned_end == -1 or activity.planned_end > activity.start
        for queue in description.queues:
            entries = machine.queue_entries(queue.id)
            assert len(entries) == machine.read(queue.probe), f"{queue.name} at cycle {cycle}"
            assert queue.capacity == 0 or len(entries) <= queue.capacity
        assert machine.digest() == digest, f"looking changed the state at cycle {cycle}"


def check_summary(make: Make) -> None:
    machine = make()
    end = run_straight(make).end_cycle
    for cycle in (0, end // 3, end):
        summary = run_to(machine, cycle).summary()
        names = {unit.name for unit in machine.description.units}
        assert {name for name, _, _ in summary.units} <= names
        for name, busy, waiting in summary.units:
            assert min(busy, waiting) >= 0, name
            assert busy + waiting <= cycle, name
        assert all(peak >= 0 and (not room or peak <= room) for _, peak, room in summary.queues)
        assert all(0 <= peak <= size for _, peak, size in summary.memories), summary.memories
    assert any(busy > 0 for _, busy, _ in machine.summary().units)


def check_stops(make: Make) -> None:
    """Stops do not depend on chunks, come one cycle after their cause, and every node starts and ends."""
    machine = make()
    description, program = machine.description, machine.program
    rows = [(STOP_INSTRUCTION, 0, 0, len(program.listing), 0, 1)]
    rows += [(STOP_QUEUE, queue.id, 1, 0, 0, 10 + queue.id) for queue in description.queues]
    for memory in description.memories:
        rows.append((STOP_MEMORY_READ, memory.id, 0, memory.size_bytes, 0, 2))
        rows.append((STOP_MEMORY_WRITE, memory.id, 0, memory.size_bytes, 0, 3))
    base = 1000
    for node in program.graph.nodes:
        rows.append((STOP_NODE_START, node.id, 0, 0, 0, base + 2 * node.id))
        rows.append((STOP_NODE_END, node.id, 0, 0, 0, base + 2 * node.id + 1))
    stops = stop_table(rows)
    hits = run_with_stops(machine, stops, (FOREVER,))
    assert machine.digest() == run_straight(make).digest, "stopping changed the run"
    for chunks in (CHUNKS, (97,)):
        chunked = run_with_stops(make(), stops, chunks)
        assert [(h.cycle, h.breakpoints) for h in chunked] == [(h.cycle, h.breakpoints) for h in hits]
    found = {breakpoint_id for hit in hits for breakpoint_id in hit.breakpoints}
    assert {1, 2, 3} <= found
    for node in program.graph.nodes:
        if not program.listing.ranges_of_node(node.id):
            continue
        starts = [hit.cycle for hit in hits if base + 2 * node.id in hit.breakpoints]
        ends = [hit.cycle for hit in hits if base + 2 * node.id + 1 in hit.breakpoints]
        assert len(starts) == len(ends) == 1, f"node {node.name}: starts {starts}, ends {ends}"
        assert starts[0] < ends[0], node.name
    for queue in description.queues:
        at = [hit.cycle for hit in hits if 10 + queue.id in hit.breakpoints][:20]
        # An entry may be gone by the end of the cycle in which it came, but not every time.
        levels = [run_to(make(), cycle).read(queue.probe) for cycle in at]
        assert not levels or max(levels) >= 1, f"{queue.name} at cycles {at}"


def _assert_raises(error: type[Exception], action: Callable[[], object]) -> None:
    try:
        action()
    except error:
        return
    raise AssertionError(f"expected {error.__name__}")
