"""Reports of operators: what bounds them, what padding costs, and how far measurements are off."""

from dataclasses import replace

import pytest

from npuviz.base.units import format_share
from npuviz.program.graph import Graph, Node
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.task.work import Work
from npuviz.targets.rk3588.view.reports import LayerReport, layer_reports, report_tables
from tests.targets.rk3588.hand_tasks import EMPTY_GRAPH
from tests.targets.rk3588.machine_cases import (
    OUTPUT,
    convolution,
    machine_of,
    output_of,
    run,
    task_of,
)

GRAPH = Graph("two", (Node(0, "first", "Conv", "", (), ()), Node(1, "second", "Add", "", (), ())), (), (), ())


def machine(spec: RknnSpec | None = None) -> RknnMachine:
    """A convolution of 20 real channels by two cores, then a copy by the DPU."""
    conv = convolution(20, (40, 40), 50, 3, (40, 40))
    conv = replace(conv, channels=32)
    work = Work(conv, output_of(conv), None)
    tasks = [
        replace(task_of(work, 0, core=0), node=0),
        replace(task_of(work, 1, core=1), node=0),
        replace(task_of(Work(None, replace(OUTPUT, is_flying=True), None), 2, job=1), node=1),
    ]
    return machine_of(tasks, spec or RknnSpec(cores=2), jobs=2)


def test_operators_appear_when_all_their_tasks_are_done() -> None:
    made = machine()
    assert layer_reports(made.engine, GRAPH) == ()
    assert report_tables(made.engine, GRAPH) == ()
    while not layer_reports(made.engine, GRAPH):
        made.advance(made.cycle + 1000, NO_STOPS, None)
    (first,) = layer_reports(made.engine, GRAPH)
    assert (first.name, first.op_type, first.num_tasks, first.num_cores) == ("first", "Conv", 2, 2)
    run(made)
    assert [report.name for report in layer_reports(made.engine, GRAPH)] == ["first", "second"]


def test_figures_of_an_operator() -> None:
    made = machine()
    run(made)
    first, second = layer_reports(made.engine, GRAPH)
    # The busier of two equal cores.
    assert first.mac_cycles == 40 * 40 * 9 * 2
    assert first.estimate == max(first.mac_cycles, 40 * 40 * 64 // 8)
    assert first.overhead_cycles == 1270
    assert first.padding == pytest.approx(1 - 20 * 50 / (32 * 64))
    assert first.num_bytes >= 2 * (40 * 40 * 32 + 9 * 32 * 50 + 40 * 40 * 64)
    assert first.cycles >= first.mac_cycles
    assert (second.estimate, second.mac_cycles, second.padding) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("figures", "name"),
    [
        ((9, 1, 1, 1), "MAC"),
        ((1, 9, 1, 1), "DPU output"),
        ((1, 1, 9, 1), "DDR"),
        ((1, 1, 1, 9), "task overhead"),
    ],
)
def test_the_resource_that_needs_longest(figures: tuple[int, int, int, int], name: str) -> None:
    assert LayerReport("a", "b", 1, 1, 10, *figures, 0, 0.0, 0).bottleneck == name


def test_tables_beside_measurements() -> None:
    made = machine(RknnSpec(cores=2, npu_hz=500_000_000))
    run(made)
    (plain,) = report_tables(made.engine, GRAPH)
    assert "measured us" not in plain.columns
    row = dict(zip(plain.columns, plain.rows[0], strict=True))
    first = layer_reports(made.engine, GRAPH)[0]
    assert row["operator"] == "first"
    assert float(row["us"]) == pytest.approx(first.cycles / 500, abs=0.06)
    assert row["padding"] == format_share(first.padding, 0)
    (table,) = report_tables(made.engine, GRAPH, {"first": first.cycles / 1000})
    assert table.columns[-2:] == ("measured us", "error")
    assert table.rows[0][-1] == "+100%"
    assert table.rows[1][-2:] == ("", "")


def test_tasks_without_a_graph_are_one_line() -> None:
    conv = convolution(32, (8, 8), 32, 1, (8, 8))
    made = machine_of([task_of(Work(conv, output_of(conv), None))])
    run(made)
    (report,) = layer_reports(made.engine, EMPTY_GRAPH)
    assert (report.name, report.op_type) == ("task 0", "")
