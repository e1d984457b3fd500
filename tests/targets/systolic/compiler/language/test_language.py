"""Language mode: who shares an iteration, when it starts, and what is refused."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from npuviz.base.errors import DoesNotFit, TargetError
from npuviz.formats.onnxim.workloads import TraceRow
from npuviz.targets.systolic.compiler.language.admission import Admission
from npuviz.targets.systolic.machine.machine import SystolicMachine
from npuviz.targets.systolic.machine.payload import Payload
from npuviz.targets.systolic.view.reports import Reports
from tests.sweeps import quick
from tests.targets.systolic.compiler.language.cases import GPT, LLAMA, OPT, run_list, write_home

TRACES = (
    [(0, 8, 3, 0), (10, 4, 5, 0), (3000, 6, 2, 4), (1, 3, 4, 0), (40_000, 5, 2, 0)],
    [(500, 3, 6, 0), (0, 3, 1, 0), (0, 5, 4, 0), (9000, 2, 3, 0), (0, 2, 3, 0), (0, 4, 2, 0)],
)


def iterations_of(machine: SystolicMachine) -> list[tuple[tuple[int, ...], int, int]]:
    """(requests, start, end) of every launch."""
    payload = machine.program.payload
    assert isinstance(payload, Payload)
    reports = Reports(machine._engine, machine.program.graph, payload.requests)
    served: dict[int, list[int]] = {}
    for number, request in enumerate(payload.requests):
        for launch in request.launches:
            served.setdefault(launch, []).append(number)
    return [(tuple(served[launch]), *reports.launch_span(launch)) for launch in sorted(served)]


def tick_by_tick(
    trace: list[tuple[int, int, int, int]], scheduler: str, limit: int, ends: list[int], is_exact: bool
) -> list[tuple[tuple[int, ...], int]]:
    """The request scheduler as the reference states it (section 14), asked in every tick that may matter."""
    arrivals = np.cumsum([row[0] for row in trace]).tolist()
    waiting, active = list(range(len(trace))), dict[int, int]()
    goal = [prompt + target + cached for _, prompt, target, cached in trace]
    found: list[tuple[tuple[int, ...], int]] = []
    running: tuple[int, ...] = ()
    is_new = set(waiting)
    moments = {*arrivals, *ends}
    ticks = sorted({max(0, moment + shift) for moment in moments for shift in range(-1, 4)})
    for tick in ticks:
        count = tick + 1
        room = len(active) < limit if is_exact else len(active) <= limit
        if (scheduler == "simple" and not active) or (scheduler == "iter" and (room or not limit)):
            while waiting and arrivals[waiting[0]] <= count:
                number = waiting.pop(0)
                active[number] = trace[number][3]
                if limit and len(active) >= limit:
                    break
        if not running and active:
            running = tuple(sorted(active))[: limit or None]
            found.append((running, tick))
        if running and tick == ends[len(found) - 1]:
            for number in running:
                prompt = trace[number][1] + (0 if is_exact else 1)
                active[number] += prompt if number in is_new else 1
                is_new.discard(number)
                if active[number] + (1 if is_exact else 0) >= goal[number]:
                    del active[number]
            running = ()
    assert not waiting
    assert not active
    return found


@quick(every=5)
@pytest.mark.parametrize("mode", ["parity", "true"])
@pytest.mark.parametrize("scheduler", ["simple", "iter"])
@pytest.mark.parametrize("limit", [0, 2])
@pytest.mark.parametrize("number", range(len(TRACES)))
def test_iterations_are_formed_by_the_rules(
    tmp_path: Path, mode: str, scheduler: str, limit: int, number: int
) -> None:
    limits = {"max_batch_size": limit} if limit else {}
    path = write_home(tmp_path, TRACES[number], scheduler=scheduler, scheduler_config=limits)
    machine = run_list(path, mode=mode)
    assert machine.is_finished
    found = iterations_of(machine)
    ends = [end for _, _, end in found]
    expected = tick_by_tick(TRACES[number], scheduler, limit, ends, mode == "true")
    assert [(requests, start) for requests, start, _ in found] == expected


@pytest.mark.parametrize(("mode", "extra"), [("parity", 1), ("true", 0)])
def test_of_a_crowd_as_many_are_let_in_as_there_is_room_for(tmp_path: Path, mode: str, extra: int) -> None:
    """Who was let in and left out of the full iteration runs with the next, the others later."""
    trace, limit = [(0, 3, 1 + number % 2, 0) for number in range(5)], 2
    rows = [TraceRow(*row) for row in trace]
    admission = Admission(rows, "iter", limit, is_exact=mode == "true")
    assert [request.number for request in admission.admit(100)] == list(range(limit + extra))
    path = write_home(tmp_path, trace, scheduler="iter", scheduler_config={"max_batch_size": limit})
    found = iterations_of(run_list(path, mode=mode))
    ends = [end for _, _, end in found]
    expected = tick_by_tick(trace, "iter", limit, ends, mode == "true")
    assert [(requests, start) for requests, start, _ in found] == expected


def test_iteration_level_batching_is_faster(tmp_path: Path) -> None:
    trace = [(0, 8, 6, 0), (100, 8, 6, 0), (100, 8, 6, 0)]
    cycles: dict[str, int] = {}
    for scheduler in ("simple", "iter"):
        path = write_home(tmp_path / scheduler, trace, scheduler=scheduler)
        cycles[scheduler] = run_list(path, mode="parity").cycle
    assert cycles["iter"] < cycles["simple"]


def test_tensor_parallelism_divides_the_work(tmp_path: Path) -> None:
    reads: list[int] = []
    for share in (1, 2):
        path = write_home(tmp_path / str(share), [(0, 8, 4, 0)], OPT | {"tensor_parallel_size": share})
        reads.append(run_list(path, mode="parity").summary().counters["reads"])
    assert reads[1] < 0.75 * reads[0]


@pytest.mark.parametrize("model", [OPT, GPT, LLAMA], ids=["opt", "gpt", "llama"])
@pytest.mark.parametrize("scheduler", ["simple", "time_multiplex", "partition_cpu", "spatial_split"])
def test_shapes_run_in_true_mode_under_every_scheduler(
    tmp_path: Path, model: Mapping[str, object], scheduler: str
) -> None:
    path = write_home(tmp_path, [(0, 8, 3, 0)], model)
    machine = run_list(path, mode="true", scheduler=scheduler)
    assert machine.is_finished
    report = machine.reports()[0]
    assert report.columns[-2:] == ("Tokens", "Cycles a token")
    assert report.rows[0][-2] == "8+3"


def test_grouped_heads_read_less(tmp_path: Path) -> None:
    reads: list[int] = []
    for kv_heads in (4, 1):
        path = write_home(tmp_path / str(kv_heads), [(0, 8, 9, 40)], OPT | {"num_kv_heads": kv_heads})
        reads.append(run_list(path, mode="true").summary().counters["reads"])
    assert reads[1] < reads[0]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="request scheduler 'orca'; there are simple, iter"):
        run_list(write_home(tmp_path / "a", [(0, 8, 4, 0)], scheduler="orca"), mode="parity")
    with pytest.raises(TargetError, match="tensor_parallel_size 3 does not divide num_attention_heads 4"):
        run_list(write_home(tmp_path / "b", [(0, 8, 4, 0)], OPT | {"tensor_parallel_size": 3}), mode="parity")
    with pytest.raises(DoesNotFit, match=r"request 0 of 75 tokens .* exceeds max_seq_length 64"):
        run_list(write_home(tmp_path / "c", [(0, 60, 15, 0)]), mode="parity")
    path = write_home(tmp_path / "d", [(0, 8, 4, 0)])
    with pytest.raises(TargetError, match="language mode never ends"):
        run_list(path, mode="parity", scheduler="time_multiplex")
    big = LLAMA | {"hidden_size": 8192, "intermediate_size": 65536, "num_hidden_layers": 20}
    with pytest.raises(DoesNotFit, match=r"tiny needs .* of DRAM, there are 1 GiB"):
        run_list(write_home(tmp_path / "e", [(0, 8, 4, 0)], big), mode="parity", dram_size="1")
