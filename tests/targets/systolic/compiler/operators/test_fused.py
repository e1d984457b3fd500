"""Activations that a product applies where its result lies."""

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from npuviz.targets.systolic.check import check
from tests.targets.systolic.true_cases import assert_sound, chip, compile_model, save_model, weights


@pytest.mark.parametrize(
    ("op_type", "shape", "out", "kernel", "given"),
    [
        ("FusedConv", (1, 9, 5, 5), (1, 20, 5, 5), (20, 9, 1, 1), {"activation_params": [0.25]}),
        ("FusedGemm", (9, 25), (9, 20), (25, 20), {"activation_alpha": 0.25}),
    ],
)
def test_leaky_relu(
    op_type: str,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    kernel: tuple[int, ...],
    given: dict[str, Any],
    tmp_path: Path,
) -> None:
    node = helper.make_node(
        op_type, ["x", "w"], ["y"], "node", domain="com.microsoft", activation="LeakyRelu", **given
    )
    path = save_model(tmp_path / "m.onnx", [node], {"x": shape}, {"y": out}, [weights("w", *kernel)])
    case = compile_model(path, chip(precision=4))
    assert_sound(case)
    assert case.compiled.placement == {0: "Core"}
    engine = case.engine()
    assert check(engine, case.graph).num_failed == 0
    assert (engine.tensor(case.graph.outputs[0]) < 0).any()
