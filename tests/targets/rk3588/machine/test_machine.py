"""The machine on tasks made by hand: published layers, bandwidth shared by cores, hangs, time travel."""

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from npuviz.sim.events import EventBuffer
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.task.work import FP16, FP32, Convolution, Work
from npuviz.targets.rk3588.view.reports import estimated_cycles, layer_reports
from tests.targets.rk3588.hand_tasks import EMPTY_GRAPH
from tests.targets.rk3588.machine_cases import (
    CONVOLUTION,
    FOREVER,
    NOT_THERE,
    OUTPUT,
    SHARED,
    Layer,
    convolution,
    layer_spec,
    layers,
    machine_of,
    output_of,
    run,
    task_of,
)

published = pytest.mark.skipif(not SHARED.is_file(), reason=NOT_THERE)
HEADS_OF_32 = ("Sigmoid", "Clip")
"""Operators whose channels the vendor fills up to 32 in its estimate. Ref: PROF."""


def finished(machine: RknnMachine) -> RknnMachine:
    stop = run(machine)
    assert stop.kind is StopKind.FINISHED, stop
    return machine


def work_of(conv: Convolution) -> Work:
    return Work(conv, output_of(conv), None)


@cache
def simulated() -> tuple[tuple[Layer, RknnMachine], ...]:
    """Every published layer, run."""
    spec = layer_spec()
    return tuple((layer, finished(machine_of([task_of(layer.work)], spec))) for layer in layers())


# --- published layers ------------------------------------------------------------------------------


@published
def test_the_npu_column_is_exact() -> None:
    assert len(simulated()) == 31
    for layer, machine in simulated():
        (report,) = layer_reports(machine.engine, EMPTY_GRAPH)
        assert report.estimate == layer.npu_cycles, layer.name
        (cost,) = machine.engine.costs
        # CORE really worked for the first of the two closed forms.
        assert int(machine.engine.record(0).mac) == cost.mac_cycles <= layer.npu_cycles


@published
def test_the_ddr_column() -> None:
    off: list[float] = []
    for layer, machine in simulated():
        (cost,) = machine.engine.costs
        commands = 8 * 112
        moved = int(machine.engine.record(0).bytes)
        assert moved == pytest.approx(cost.bus_bytes + commands, abs=commands)
        # The vendor counts 8 bytes of parameters a channel.
        conv = layer.work.convolution
        assert conv is not None
        total = cost.bus_bytes - cost.operand_bytes + 8 * conv.kernels
        error = total / layer_spec().bytes_per_cycle / layer.ddr_cycles - 1
        if not any(name in layer.op for name in HEADS_OF_32):
            assert abs(error) < 0.005, layer.name
            off.append(error)
    assert len(off) >= 27


@published
def test_the_measured_column() -> None:
    errors = np.array([abs(m.cycle / 1000 / layer.time_us - 1) for layer, m in simulated()])
    assert errors.mean() <= 0.08
    assert errors.max() <= 0.25


@published
def test_bottlenecks_are_different_things() -> None:
    found = {
        report.bottleneck
        for _, machine in simulated()
        for report in layer_reports(machine.engine, EMPTY_GRAPH)
    }
    assert {"MAC", "DPU output"} <= found


def test_a_layer_slows_down_with_ddr() -> None:
    conv = convolution(512, (20, 20), 256, 1, (20, 20))
    times = {
        hertz: finished(machine_of([task_of(work_of(conv))], RknnSpec(ddr_hz=hertz))).cycle
        for hertz in (1_560_000_000, 528_000_000, 132_000_000)
    }
    assert times[1_560_000_000] < times[528_000_000] < times[132_000_000]
    spec = RknnSpec(ddr_hz=132_000_000)
    cost = cost_of(task_of(work_of(conv)), spec)
    assert times[132_000_000] > cost.bus_bytes / spec.bytes_per_cycle
    (report,) = layer_reports(finished(machine_of([task_of(work_of(conv))], spec)).engine, EMPTY_GRAPH)
    assert report.bottleneck == "DDR"


# --- a product in two tasks ------------------------------------------------------------------------


def product() -> RknnMachine:
    """fp16 512 x 512 x 512 in two tasks of 256 rows."""
    conv = convolution(512, (256, 1), 512, 1, (256, 1), item=2)
    assert (conv.data_banks, conv.weight_banks) == (8, 4)
    rows = 256 * 16
    tasks = [
        task_of(Work(
            replace(conv, feature_address=0x1000_0000 + number * rows),
            output_of(conv, precision_in=FP16, precision_out=FP32, address=0x3000_0000 + number * rows),
            None,
        ), number)
        for number in range(2)
    ]  # fmt: skip
    return finished(machine_of(tasks))


def test_fp16_512_in_two_tasks() -> None:
    machine = product()
    milliseconds = machine.cycle / 1e6
    assert 0.26 <= milliseconds <= 1.2
    records = [machine.engine.record(number) for number in range(2)]
    assert sum(int(record.mac) for record in records) == 262_144
    reports = layer_reports(machine.engine, EMPTY_GRAPH)
    assert [report.num_tasks for report in reports] == [1, 1]
    assert sum(report.estimate for report in reports) == 262_144
    for report in reports:
        assert min(report.mac_cycles, report.out_cycles, report.bus_cycles) > 0
        assert report.overhead_cycles == 1270
    # Starts of the driver, of both tasks, and CORE's own time are all there is, but for waits.
    waits = sum(
        int(r[word]) for r in records for word in (sk.RESULT.data, sk.RESULT.weights, sk.RESULT.output)
    )
    assert machine.cycle >= 9730 + 2540 + 262_144
    assert machine.cycle <= 9730 + 2540 + 262_144 + waits + 20_000


# --- cores -----------------------------------------------------------------------------------------


def together(conv: Convolution, cores: int, spec: RknnSpec) -> int:
    """Cycles of so many cores that each do the same."""
    tasks = [task_of(work_of(conv), core, core=core) for core in range(cores)]
    return finished(machine_of(tasks, replace(spec, cores=cores))).cycle


def test_cores_share_ddr_and_nothing_else() -> None:
    spec = RknnSpec(ddr_hz=132_000_000)
    bound = convolution(512, (20, 20), 256, 1, (20, 20))
    alone, two, three = (together(bound, cores, spec) for cores in (1, 2, 3))
    fixed = 9730 + 1270
    assert (two - fixed) / (alone - fixed) == pytest.approx(2, rel=0.1)
    assert (three - fixed) / (alone - fixed) == pytest.approx(3, rel=0.1)
    free = convolution(64, (40, 40), 64, 3, (40, 40))
    assert together(free, 3, RknnSpec()) < 1.1 * together(free, 1, RknnSpec())


def test_jobs_wait_for_each_other_and_tasks_of_a_core_too() -> None:
    conv = convolution(64, (40, 40), 64, 3, (40, 40))
    in_chain = finished(machine_of([task_of(work_of(conv), n) for n in range(3)]))
    apart = finished(machine_of([task_of(work_of(conv), n, job=n) for n in range(3)], jobs=3))
    assert apart.cycle - in_chain.cycle == pytest.approx(2 * 9730, abs=50)
    for machine in (in_chain, apart):
        records = [machine.engine.record(number) for number in range(3)]
        assert all(int(after.start) >= int(before.end) for before, after in pairwise(records))
    assert in_chain.log()[:, 0].tolist() == [0, 1, 2]


# --- hangs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"data_banks": 9, "weight_banks": 4}, "gives 9 + 4 banks: there are 12"),
        ({"data_banks": 0}, "features need 1 CBUF banks: CBUF_CON0 gives 0"),
        ({"height": 2000, "data_banks": 2}, "features need 16 CBUF banks: CBUF_CON0 gives 2"),
        ({"weight_banks": 0}, "weight banks: CBUF_CON0 gives 0"),
        ({"stride_y": 0}, "stride of 0"),
        ({"stride_x": 0}, "stride of 0"),
        ({"kernels": 0}, "0 kernels"),
    ],
)
def test_what_hangs_the_chip(changes: dict[str, int], part: str) -> None:
    good = task_of(Work(CONVOLUTION, OUTPUT, None))
    bad = task_of(Work(replace(CONVOLUTION, **changes), OUTPUT, None), 1)
    machine = machine_of([good, bad])
    stop = run(machine)
    assert stop.kind is StopKind.HANG
    assert part in stop.detail
    assert "task 1" in stop.detail
    assert stop.unit == "Core[0]"
    assert not machine.is_finished
    assert machine.log()[:, 0].tolist() == [0]
    assert run(machine).kind is StopKind.HANG


# --- state -----------------------------------------------------------------------------------------


def several() -> RknnMachine:
    conv = convolution(96, (30, 30), 80, 3, (30, 30))
    depthwise = replace(
        conv, is_depthwise=True, kernels=1, kernel_bytes=9 * 96, weight_bytes=9 * 128, out_kernels=96
    )
    flying = Work(None, replace(OUTPUT, is_flying=True), None)
    tasks = [
        task_of(work_of(conv), 0),
        task_of(flying, 1),
        task_of(work_of(depthwise), 2, core=1),
        task_of(work_of(conv), 3, core=1, job=1),
    ]
    return machine_of(tasks, jobs=2)


def test_small_steps_and_snapshots_lead_to_the_same_state() -> None:
    whole = finished(several())
    stepped = several()
    kept, rows = None, 0
    buffer = EventBuffer(max(4096, 4 * stepped.event_rows_per_cycle))
    for until in range(997, FOREVER, 997):
        if until > 15_000 and kept is None:
            kept = stepped.snapshot()
        stop = stepped.advance(until, NO_STOPS, buffer)
        while stop.kind is StopKind.EVENTS_FULL:
            rows += len(buffer.take())
            stop = stepped.advance(until, NO_STOPS, buffer)
        if stop.kind is StopKind.FINISHED:
            break
    assert stepped.cycle == whole.cycle
    assert stepped.digest() == whole.digest()
    assert kept is not None
    stepped.restore(kept)
    assert stepped.cycle < whole.cycle
    finished(stepped)
    assert stepped.digest() == whole.digest()


# Quicker: tests/contract/test_first_start.py.
@pytest.mark.sweep
def test_without_compiled_kernels_the_state_is_the_same() -> None:
    program = (
        "from tests.targets.rk3588.machine.test_machine import finished, several\n"
        "machine = finished(several())\n"
        "print(machine.cycle, machine.digest())\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[4],
    )  # fmt: skip
    machine = finished(several())
    assert shown.stdout.split() == [str(machine.cycle), machine.digest()]


def test_an_empty_program_is_finished_at_once() -> None:
    machine = machine_of([], RknnSpec(), jobs=0)
    stop = run(machine)
    assert stop.kind is StopKind.FINISHED
    assert machine.reports() == ()


def test_padding_is_no_estimate_of_other_units() -> None:
    flying = task_of(Work(None, replace(OUTPUT, is_flying=True), None))
    assert estimated_cycles(flying, cost_of(flying, RknnSpec())) == 0
