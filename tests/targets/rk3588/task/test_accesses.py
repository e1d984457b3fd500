"""What tasks are said to touch, beside the memory that running them asks for."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from npuviz.sim.machine import Machine
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.rk3588.machine.machine import RknnMachine
from npuviz.targets.rk3588.task.accesses import access_rows
from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.values.memory import Memory
from npuviz.targets.rk3588.values.task import Tasks
from npuviz.workbench.onnx_backend.execution import ExecutionOptions, compiled_machine
from npuviz.workbench.opening import OpenOptions, open_file
from tests.node_cases import node_case
from tests.seeded.seed import SAMPLES
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model
from tests.targets.rk3588.compiler.models import run as run_model

SAMPLE, COLUMNS = "tiny_cnn_int8", "columns of a cube"
NAMES = (SAMPLE, COLUMNS, "basic_conv_with_padding", "causal_conv_with_state_decode_step_expanded",
         "concat_1d_axis_0", "flexattention_expanded_ver26", "globalaveragepool", "matmul_3d",
         "maxpool_2d_pads", "resize_upsample_scales_nearest", "transpose_all_permutations_4",
         "where_example")  # fmt: skip


def machine_of(name: str, folder: Path) -> Machine:
    if name == COLUMNS:
        model = Model(1, 16, 9, 40)
        limits = [model.constant(np.array([number])) for number in (3, 24, 3)]
        part = model.add("Slice", model.add("Relu", "x"), *limits)
        model.add("Relu", part)
        return run_model(model.save(folder), SLOW_HOST).machine
    if name == SAMPLE:
        session = open_file(SAMPLES / f"{name}.onnx", OpenOptions(target="rk3588")).session
        assert session is not None
        return session.machine
    case = node_case(name)
    return compiled_machine(case.model, case.data_sets[0][0], ExecutionOptions(target="rk3588"))[0]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_task_asks_memory_for_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running: list[int] = []
    asked: list[tuple[int, int, int, int, str]] = []
    run_task, view, target = Tasks.run, Memory.view, Memory.target

    def run(self: Tasks, memory: Memory, number: int) -> None:
        running.append(number)
        run_task(self, memory, number)
        running.pop()

    def watched(
        ask: Callable[..., np.ndarray], is_write: int, self: Memory, address: int, size: int, what: str
    ) -> np.ndarray:
        if running:
            asked.append((running[-1], is_write, address, address + size, what))
        return ask(self, address, size, what)

    monkeypatch.setattr(Tasks, "run", run)
    for name_of, ask, is_write in (("view", view, 0), ("target", target, 1)):
        bound = partial(watched, ask, is_write)
        monkeypatch.setattr(Memory, name_of, lambda self, a, n, what, bound=bound: bound(self, a, n, what))
    machine = machine_of(name, tmp_path)
    assert isinstance(machine, RknnMachine)
    machine.advance(20_000_000, NO_STOPS, None)
    for tensor in machine.program.graph.outputs:
        machine.tensor(tensor)
    assert asked
    tasks, spec = machine.engine.tables.tasks, machine.engine.spec
    for number, is_write, low, high, what in asked:
        rows = access_rows(tasks[number], cost_of(tasks[number], spec))
        inside = [write == is_write and first <= low and high <= end for write, first, end in rows]
        assert any(inside) or high <= low, f"task {number}: {what} at {low:#x}..{high:#x}"
