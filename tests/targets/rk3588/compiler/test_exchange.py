"""Copies between layouts: how many tasks one may take, and how long."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.reader import read_model
from npuviz.targets.rk3588.compiler import exchange
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.exchange import emit_copy, plan_copy
from npuviz.targets.rk3588.spec import make_spec
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_bytes
from tests.targets.rk3588.compiler.models import SLOW_HOST, Model, on_npu

SPEC = make_spec()[0]
ROWS, COLUMNS = 1024, 8192


def test_a_copy_of_too_many_tasks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Buffer(
        "home", 0, cube_bytes((ROWS, COLUMNS), "float16"), "feature", shape=(ROWS, COLUMNS), dtype="float16"
    )
    rows = replace(home, layout="rows", size_bytes=2 * ROWS * COLUMNS)
    count = len(plan_copy(SPEC, rows, home).tasks)
    assert count > 1
    monkeypatch.setattr(exchange, "MAX_TASKS", count)
    plan_copy(SPEC, rows, home)
    monkeypatch.setattr(exchange, "MAX_TASKS", count - 1)
    with pytest.raises(CannotLower, match=f"{count:,} tasks|more than {count - 1} tasks"):
        plan_copy(SPEC, rows, home)


@pytest.mark.parametrize("shape", [(1, 1, 4000), (1, 40, 500)])
@pytest.mark.parametrize("makes_rows", [False, True])
def test_a_copy_is_estimated_by_what_it_moves(
    tmp_path: Path, shape: tuple[int, ...], makes_rows: bool
) -> None:
    """Not by the room that fills channels up, which no task reads or writes."""
    model = Model(*shape)
    model.add("Relu", "x")
    builder = Builder(read_model(model.save(tmp_path), {}), SPEC)
    home = builder.cleared("home", shape, "float16")
    size = 2 * shape[1] * shape[2]
    rows = replace(home, layout="rows", shape=shape[1:], size_bytes=size, address=home.address + (1 << 24))
    mark = builder.mark()
    copy = plan_copy(SPEC, home, rows) if makes_rows else plan_copy(SPEC, rows, home)
    emit_copy(builder, -1, copy)
    assert 0.4 < copy.cycles(builder) / builder.cycles_since(mark) < 2.5


@pytest.mark.parametrize("shape", [(8400, 16), (8192, 40), (20001, 24)])
@pytest.mark.parametrize("makes_rows", [False, True])
def test_surfaces_too_far_apart_for_columns_are_copied_atom_by_atom(
    shape: tuple[int, int], makes_rows: bool
) -> None:
    """Each atom of the rows is copied once, and to its place, in a few tasks."""
    home = Buffer("home", 0, cube_bytes(shape, "float16"), "feature", shape=shape, dtype="float16")
    rows = replace(home, layout="rows", size_bytes=2 * shape[0] * shape[1])
    copy = plan_copy(SPEC, home, rows) if makes_rows else plan_copy(SPEC, rows, home)
    moved: list[tuple[int, int]] = []
    for task in copy.tasks:
        loops = task.rows, task.columns, task.surfaces
        assert task.lanes is None
        assert all(loop.size <= exchange.MAX_POSITIONS for loop in loops)
        moved += [
            (
                task.taken + sum(turn * loop.taken for turn, loop in zip(turns, loops, strict=True)),
                task.given + sum(turn * loop.given for turn, loop in zip(turns, loops, strict=True)),
            )
            for turns in product(*(range(loop.size) for loop in loops))
        ]
    atoms = shape[1] // 8
    wanted = [(row * atoms + atom, atom * shape[0] + row) for row in range(shape[0]) for atom in range(atoms)]
    assert sorted((b, a) if makes_rows else (a, b) for a, b in moved) == wanted
    assert len(copy.tasks) < 400


def test_axes_that_stay_neighbours_are_one(tmp_path: Path) -> None:
    """Atoms of the result lie across the border of two axes of the tensor, of which neither fills any."""
    model = Model(3, 7, 24)
    model.add("Transpose", model.add("Relu", "x"), perm=[2, 0, 1])
    model.add("Reshape", model.nodes[-1].output[0], model.constant([24, 21]))
    on_npu(model.save(tmp_path), SLOW_HOST)
