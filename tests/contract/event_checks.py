"""The promises of a machine about its description and its events."""

from collections import defaultdict

import numpy as np

from npuviz.sim.description import MachineDescription
from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import NO_STOPS
from npuviz.trace.schema import CAUSE, COUNTER, FLOW, INTERVAL, LIFETIME, TRACK_SHIFT, TYPE_SHIFT
from tests.contract.runs import Make, run_recorded


def check_description(make: Make) -> None:
    description = make().description
    assert make().description == description
    for things in (description.units, description.memories, description.queues):
        assert [thing.id for thing in things] == list(range(len(things))), "ids are positions"
        assert len({thing.name for thing in things}) == len(things), "names are unique"
    assert len({track.id for track in description.tracks}) == len(description.tracks)
    assert len({kind.id for kind in description.kinds}) == len(description.kinds)
    units, memories = len(description.units), len(description.memories)
    assert all(-1 <= track.unit < units for track in description.tracks)
    assert all(0 <= queue.unit < units for queue in description.queues)
    assert all(0 <= link.source < units and 0 <= link.sink < units for link in description.links)
    assert all(m.size_bytes > 0 and m.size_bytes % m.num_banks == 0 for m in description.memories)
    assert all(clock.frequency_hz > 0 for clock in description.clocks)
    assert description.title
    assert memories > 0
    known = {probe.id for probe in make().probes}
    assert all(queue.probe in known for queue in description.queues)


def check_floorplan(make: Make) -> None:
    description = make().description
    units, memories = len(description.units), len(description.memories)
    shown_units = {box.unit for box in description.floorplan if box.unit >= 0}
    shown_memories = {box.memory for box in description.floorplan if box.memory >= 0}
    assert description.floorplan, "no floorplan"
    assert all(box.width > 0 and box.height > 0 and box.label for box in description.floorplan)
    assert shown_units <= set(range(units))
    assert shown_memories <= set(range(memories))
    # A unit may be drawn by the box of a part of it, but every unit must be seen somewhere.
    missing = [unit.name for unit in description.units if unit.id not in shown_units]
    assert not missing, f"units without a box: {missing}"


def check_listing(make: Make) -> None:
    machine = make()
    description, program = machine.description, machine.program
    listing = program.listing
    assert len(listing) > 0
    indices = np.arange(len(listing), dtype=np.int64)
    nodes, units = listing.nodes_of(indices), listing.units_of(indices)
    addresses, sizes, tensors = listing.destinations_of(indices)
    assert nodes.dtype == units.dtype == tensors.dtype == np.int32
    assert addresses.dtype == sizes.dtype == np.int64
    for index in np.linspace(0, len(listing) - 1, 200).astype(int).tolist():
        instruction = listing.describe(index)
        assert (instruction.index, instruction.node, instruction.unit) == (index, nodes[index], units[index])
        assert instruction.text.startswith(instruction.opcode)
        for operand in (*instruction.reads, *instruction.writes):
            memory = description.memories[operand.memory]
            assert 0 <= operand.address <= operand.address + operand.size_bytes <= memory.size_bytes, index
        if instruction.writes:
            first = instruction.writes[0]
            found = (addresses[index], sizes[index], tensors[index])
            assert found == (first.address, first.size_bytes, first.tensor), index
    for wrong in (-1, len(listing)):
        try:
            listing.describe(wrong)
        except IndexError:
            continue
        raise AssertionError(f"describe({wrong}) must raise IndexError")
    outside = np.array([-1, len(listing)], np.int64)
    assert listing.nodes_of(outside).tolist() == [-1, -1]
    for node in range(len(program.graph.nodes)):
        for low, high in listing.ranges_of_node(node):
            assert set(nodes[low:high].tolist()) == {node}


def check_events(make: Make) -> None:
    machine = make()
    rows = run_recorded(machine)
    description, end_cycle = machine.description, machine.cycle
    types = rows[:, 0] >> TYPE_SHIFT
    assert set(np.unique(types).tolist()) <= {INTERVAL, COUNTER, FLOW, LIFETIME, CAUSE}
    tracks = (rows[:, 0] >> TRACK_SHIFT) & 0xFFFFFF
    codes = rows[:, 0] & 0xFFFFFFFF
    _check_intervals(
        description, rows[types == INTERVAL], tracks[types == INTERVAL], codes[types == INTERVAL]
    )
    _check_counters(description, rows[types == COUNTER], tracks[types == COUNTER])
    _check_lifetimes(
        description, rows[types == LIFETIME], tracks[types == LIFETIME], codes[types == LIFETIME]
    )
    count = len(machine.program.listing)
    for name, of_type, column in (
        ("interval", INTERVAL, 3),
        ("flow producer", FLOW, 2),
        ("flow consumer", FLOW, 3),
        ("lifetime", LIFETIME, 3),
    ):
        found = rows[types == of_type][:, column]
        assert ((found >= -1) & (found < count)).all(), f"{name}: instruction outside the listing"
    assert (rows[:, 1] >= 0).all()
    assert (rows[:, 1] <= end_cycle).all()


def check_event_times(make: Make) -> None:
    """Running from a to b emits nothing that happens at b or later: a trace cut at b is complete."""
    machine = make()
    buffer = EventBuffer(max(1 << 12, machine.event_rows_per_cycle))
    seen = 0
    while not machine.is_finished:
        machine.advance(machine.cycle + 1 + seen % 7, NO_STOPS, buffer)
        for word, first, second, _ in buffer.take().tolist():
            kind = word >> TYPE_SHIFT
            last = second if kind in (INTERVAL, LIFETIME) else first + 1
            where = f"type {kind} track {(word >> TRACK_SHIFT) & 0xFFFFFF}: {first}..{second}"
            assert last <= machine.cycle, f"{where} emitted before cycle {machine.cycle}"
            seen += 1
    assert seen > 0


def check_activities_become_intervals(make: Make) -> None:
    """What is under way at a cycle is what the trace says about that cycle later."""
    machine = make()
    rows = run_recorded(machine)
    end_cycle = machine.cycle
    intervals = rows[rows[:, 0] >> TYPE_SHIFT == INTERVAL]
    tracks = (intervals[:, 0] >> TRACK_SHIFT) & 0xFFFFFF
    machine = make()
    seen = 0
    for cycle in np.linspace(1, end_cycle - 1, 60).astype(int).tolist():
        machine.advance(cycle, NO_STOPS, None)
        for activity in machine.activities():
            inside = (tracks == activity.track) & (intervals[:, 1] == activity.start)
            found = intervals[inside]
            where = f"cycle {cycle}: {activity}"
            assert len(found) == 1, f"{where} is not in the trace"
            assert activity.planned_end >= 0 or found[0, 2] >= cycle, where
            assert activity.planned_end in (-1, found[0, 2]), where
            assert activity.instruction in (-1, found[0, 3]), where
            seen += 1
    assert seen > 0, "no activity at any cycle looked at"


def _check_intervals(
    description: MachineDescription, rows: np.ndarray, tracks: np.ndarray, codes: np.ndarray
) -> None:
    declared = {track.id for track in description.tracks if track.kind == "interval"}
    kinds = {kind.id for kind in description.kinds}
    assert len(rows) > 0, "no interval"
    assert set(tracks.tolist()) <= declared
    assert set(codes.tolist()) <= kinds
    assert (rows[:, 2] > rows[:, 1]).all(), "an interval without a cycle"
    for track in sorted(set(tracks.tolist())):
        mine = rows[tracks == track]
        late = np.flatnonzero(mine[1:, 1] < mine[:-1, 2])
        assert late.size == 0, f"track {track}: {mine[late[0] : late[0] + 2, 1:].tolist()} overlap"


def _check_counters(description: MachineDescription, rows: np.ndarray, tracks: np.ndarray) -> None:
    declared = {track.id: track for track in description.tracks if track.kind == "counter"}
    assert set(tracks.tolist()) <= set(declared)
    by_track: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, track in zip(rows.tolist(), tracks.tolist(), strict=True):
        by_track[track].append((row[1], row[2]))
    for track, points in by_track.items():
        cycles = [cycle for cycle, _ in points]
        assert cycles == sorted(cycles), f"counter {declared[track].name} goes back in time"
        values = [value for _, value in points]
        limit = declared[track].maximum
        assert min(values) >= 0, declared[track].name
        assert not limit or max(values) <= limit, f"{declared[track].name}: {max(values)} of {limit}"


def _check_lifetimes(
    description: MachineDescription, rows: np.ndarray, memories: np.ndarray, banks: np.ndarray
) -> None:
    assert (rows[:, 2] >= rows[:, 1]).all(), "a lifetime that ends before it begins"
    for memory, bank in set(zip(memories.tolist(), banks.tolist(), strict=True)):
        assert bank < description.memories[memory].num_banks, f"memory {memory} has no bank {bank}"
