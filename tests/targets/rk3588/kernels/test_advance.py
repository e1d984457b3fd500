"""What the kernels do on any tasks: nothing is lost, nothing happens twice at once, nothing is too fast."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.task.work import FP16, Pooling, Work
from npuviz.trace.schema import CAUSE, TYPE_SHIFT
from tests.sweeps import examples
from tests.targets.rk3588.machine_cases import (
    FOREVER,
    NO_EW,
    OUTPUT,
    convolution,
    machine_of,
    output_of,
    task_of,
)

CHUNK_ROUNDING = 1.02
"""Chunks take whole cycles."""


def recorded(machine: RknnMachine) -> np.ndarray:
    """(n, 6) int64: tag, track, kind, begin, end, instruction of every event of the whole run."""
    buffer = EventBuffer(max(1 << 14, 4 * machine.event_rows_per_cycle))
    parts: list[np.ndarray] = []
    while True:
        stop = machine.advance(FOREVER, NO_STOPS, buffer)
        parts.append(buffer.take())
        if stop.kind is not StopKind.EVENTS_FULL:
            break
    assert stop.kind is StopKind.FINISHED
    rows = np.concatenate(parts)
    rows = rows[rows[:, 0] >> TYPE_SHIFT != CAUSE]
    head = rows[:, 0]
    return np.stack(
        [head >> 56, head >> 32 & 0xFFFFFF, head & 0xFFFFFFFF, rows[:, 1], rows[:, 2], rows[:, 3]], axis=1
    )


def of(events: np.ndarray, task: int, track: int, kind: int, core: int = 0) -> np.ndarray:
    """(n, 2) begin and end of a task's intervals, in order."""
    hits = (
        (events[:, 1] == core * sk.TRACKS_PER_CORE + track) & (events[:, 2] == kind) & (events[:, 5] == task)
    )
    found = events[hits][:, 3:5]
    return found[np.argsort(found[:, 0], kind="stable")]


def apart(intervals: np.ndarray) -> bool:
    """Whether each interval is over when the next one begins."""
    ordered = intervals[np.argsort(intervals[:, 0], kind="stable")]
    return bool(np.all(ordered[:-1, 1] <= ordered[1:, 0]) and np.all(ordered[:, 0] < ordered[:, 1]))


@st.composite
def works(draw: st.DrawFn) -> Work:
    """A convolution, a task of the DPU alone, or pooling."""
    side = draw(st.integers(1, 24))
    channels, kernels = draw(st.integers(1, 100)), draw(st.integers(1, 100))
    kind = draw(st.sampled_from(["dense", "depthwise", "elementwise", "pooling"]))
    if kind == "pooling":
        out = max(1, side // 2)
        return Work(None, None, pooling(channels, side, out))
    if kind == "elementwise":
        ew = replace(NO_EW, is_bypassed=draw(st.booleans()), is_constant=False)
        output = replace(OUTPUT, is_flying=True, width=side, height=side, channels=channels, ew=ew)
        return Work(None, output, None)
    kernel = draw(st.sampled_from([1, 3]))
    item = draw(st.sampled_from([1, 2]))
    conv = convolution(channels, (side, side), kernels, kernel, (side, side), item=item)
    conv = replace(conv, keeps_weights=draw(st.booleans()), keeps_data=draw(st.booleans()))
    if kind == "depthwise":
        weights = conv.kernel_bytes
        conv = replace(conv, is_depthwise=True, kernels=1, out_kernels=conv.channels, weight_bytes=weights)
    if draw(st.booleans()):
        conv = replace(conv, weight_banks=max(1, -(-conv.kernel_bytes * 32 // 32768)))
    return Work(conv, output_of(conv, precision_out=FP16 if item == 2 else 0), None)


def pooling(channels: int, side: int, out: int) -> Pooling:
    """A maximum over 2 x 2."""
    return Pooling(
        method=1, is_flying=True, in_width=side, in_height=side, in_channels=channels, out_width=out,
        out_height=out, out_channels=channels, kernel_width=2, kernel_height=2, stride_x=2, stride_y=2,
        pad_left=0, pad_top=0, pad_right=0, pad_bottom=0, reciprocal_width=0, reciprocal_height=0,
        address=0x3000_0000, surface_stride=out * out, source_address=0x1000_0000, source_line_stride=side,
        source_surface_stride=side * side, precision=0, pad_value=0,
    )  # fmt: skip


@st.composite
def programs(draw: st.DrawFn) -> tuple[RknnSpec, list[Task]]:
    """Up to five tasks on up to three cores, and how fast things are."""
    found = draw(st.lists(st.tuples(works(), st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=5))
    first = min(job for _, _, job in found)
    found = sorted(found, key=lambda each: each[2:0:-1])
    tasks = [task_of(work, n, core=core, job=job - first) for n, (work, core, job) in enumerate(found)]
    spec = RknnSpec(
        cores=3,
        ddr_hz=draw(st.sampled_from([132_000_000, 528_000_000, 1_560_000_000])),
        chunk_bytes=draw(st.sampled_from([64, 512, 4096])),
        backlog_bytes=draw(st.sampled_from([0, 4096])),
        stripe_atomics=draw(st.sampled_from([16, 32])),
    )
    return spec, tasks


@settings(max_examples=60, deadline=None)
@given(program=programs())
def test_nothing_is_lost_doubled_or_too_fast(program: tuple[RknnSpec, list[Task]]) -> None:
    spec, tasks = program
    machine = machine_of(tasks, spec, jobs=1 + tasks[-1].job)
    events = recorded(machine)
    moved = 0
    for task in tasks:
        cost, record = machine.engine.costs[task.index], machine.engine.record(task.index)
        span = int(record[sk.RESULT.end]) - int(record[sk.RESULT.start])
        assert int(record[sk.RESULT.mac]) == cost.mac_cycles
        assert int(record[sk.RESULT.bytes]) == cost.bus_bytes + 8 * len(task.words)
        moved += int(record[sk.RESULT.bytes])
        out = cost.groups * cost.atoms * cost.out_elements / cost.out_rate
        for least in (
            cost.mac_cycles,
            out * 0.999,
            int(record[sk.RESULT.bytes]) / spec.bytes_per_cycle * 0.999,
        ):
            assert span >= least
        stripes = of(events, task.index, sk.TRACK_STRIPES, sk.KIND_STRIPE, task.core)
        groups = of(events, task.index, sk.TRACK_CORE, sk.KIND_GROUP, task.core)
        per_group = -(-cost.atoms // spec.stripe_atomics)
        if cost.factor:
            assert len(stripes) == cost.groups * per_group
            assert len(groups) == cost.groups
            lengths = stripes[:, 1] - stripes[:, 0]
            assert lengths.sum() == cost.mac_cycles
            assert lengths.max() <= spec.stripe_atomics * cost.factor
            assert apart(stripes)
            assert apart(groups)
        pool = cost.is_pooling
        drained = of(
            events, task.index, sk.TRACK_PPU if pool else sk.TRACK_DPU,
            sk.KIND_PPU if pool else sk.KIND_DPU, task.core,
        )  # fmt: skip
        assert len(drained) == cost.groups * per_group
        assert (drained[:, 1] - drained[:, 0]).sum() == int(record[sk.RESULT.out])
        assert apart(drained)
    bus = events[events[:, 2] == sk.KIND_BUS][:, 3:5]
    assert apart(bus)
    busy = int((bus[:, 1] - bus[:, 0]).sum())
    assert busy == next(each for name, each, _ in machine.summary().units if name == "DDR")
    assert busy >= moved / spec.bytes_per_cycle * 0.999
    if spec.chunk_bytes == 4096 and moved > 1 << 20:
        assert busy <= moved / spec.bytes_per_cycle * CHUNK_ROUNDING
    assert sorted(machine.log()[:, 0].tolist()) == list(range(len(tasks)))
    assert np.all(np.diff(machine.log()[:, 1]) >= 0)


@examples(8, 25)
@given(program=programs(), step=st.integers(1, 5000))
def test_recording_and_stopping_change_nothing(program: tuple[RknnSpec, list[Task]], step: int) -> None:
    spec, tasks = program
    plain, recording = (
        machine_of(tasks, spec, jobs=1 + tasks[-1].job),
        machine_of(tasks, spec, jobs=1 + tasks[-1].job),
    )
    events = recorded(recording)
    until = 0
    while plain.advance(until, NO_STOPS, None).kind is not StopKind.FINISHED:
        until = plain.cycle + step
    assert plain.digest() == recording.digest()
    again = machine_of(tasks, spec, jobs=1 + tasks[-1].job)
    np.testing.assert_array_equal(recorded(again), events)


@pytest.mark.parametrize("banks", [1, 2, 4, 8])
def test_more_weight_banks_never_slow_a_task(banks: int) -> None:
    conv = convolution(256, (8, 8), 256, 3, (8, 8))
    few = replace(conv, data_banks=1, weight_banks=3)
    more = replace(conv, data_banks=1, weight_banks=3 + banks)
    times = []
    for each in (few, more):
        machine = machine_of([task_of(Work(each, output_of(each), None))])
        assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
        times.append(machine.cycle)
    assert times[1] <= times[0]


def test_core_waits_for_what_is_missing() -> None:
    slow = RknnSpec(ddr_hz=10_000_000)
    conv = convolution(64, (16, 16), 64, 3, (16, 16))
    machine = machine_of([task_of(Work(conv, output_of(conv), None))], slow)
    assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
    record = machine.engine.record(0)
    assert int(record[sk.RESULT.data]) > 0
    rate = RknnSpec(output_rate=0.05)
    machine = machine_of([task_of(Work(conv, output_of(conv), None))], rate)
    assert machine.advance(FOREVER, NO_STOPS, None).kind is StopKind.FINISHED
    record = machine.engine.record(0)
    assert int(record[sk.RESULT.output]) > int(record[sk.RESULT.mac])
