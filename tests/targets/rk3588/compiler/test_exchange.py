"""Copies between layouts: how many tasks one may take."""

from dataclasses import replace

import pytest

from npuviz.onnx.errors import CannotLower
from npuviz.targets.rk3588.compiler import exchange
from npuviz.targets.rk3588.compiler.exchange import plan_copy
from npuviz.targets.rk3588.spec import make_spec
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import cube_bytes

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
