"""Attention operators on the cores: every form gives what ONNX Runtime gives, cut in any way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.onnx.runtime import onnxruntime
from npuviz.sim.stop import NO_STOPS
from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.compiler.compile import compile_true
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels.records import CHIP, STATUS_FINISHED
from npuviz.targets.systolic.load.form import form_for
from npuviz.targets.systolic.machine.engine import Engine
from tests.targets.systolic.true_cases import Compiled, chip, compile_model, constant, save_model, weights

CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[int, ...]], tuple[int, ...]]] = {
    "4-D": ({}, {"q": (2, 3, 20, 16), "k": (2, 3, 28, 16), "v": (2, 3, 28, 8)}, (2, 3, 20, 8)),
    "3-D, grouped": (
        {"q_num_heads": 6, "kv_num_heads": 2},
        {"q": (1, 12, 48), "k": (1, 30, 16), "v": (1, 30, 16)},
        (1, 12, 48),
    ),
    "causal": (
        {"is_causal": 1, "scale": 0.5},
        {"q": (1, 2, 40, 16), "k": (1, 2, 40, 16), "v": (1, 2, 40, 16)},
        (1, 2, 40, 16),
    ),
    "mask": (
        {},
        {"q": (1, 4, 9, 16), "k": (1, 2, 33, 16), "v": (1, 2, 33, 16), "m": (9, 33)},
        (1, 4, 9, 16),
    ),
}


def attention_model(path: Path, case: str) -> Path:
    attributes, inputs, out = CASES[case]
    node = helper.make_node("Attention", list(inputs), ["y"], name="att", **attributes)
    return save_model(path, [node], inputs, {"y": out}, opset=23)


def assert_checks(case: Compiled) -> None:
    assert set(case.compiled.placement.values()) <= {"Core", "View"}
    result = check(case.engine(), case.graph)
    assert result.num_failed == 0
    assert result.num_tensors >= 1
    engine = Engine(case.spec, case.compiled.tables)
    engine.advance(1 << 40, NO_STOPS, None)
    assert int(engine.state[CHIP.status]) == STATUS_FINISHED


@pytest.mark.parametrize("flow", ["systolic_ws", "systolic_os", "systolic_is"])
@pytest.mark.parametrize("case", CASES)
def test_attention_equals_the_reference(tmp_path: Path, case: str, flow: str) -> None:
    spec = chip(side=8, cores=2, spad=16, acc=8, core_type=flow, precision=4)
    assert_checks(compile_model(attention_model(tmp_path / "m.onnx", case), spec))


def test_keys_are_taken_in_parts_when_they_do_not_fit(tmp_path: Path) -> None:
    path = attention_model(tmp_path / "m.onnx", "4-D")
    whole = compile_model(path, chip(side=8, spad=64, acc=64, precision=4))
    parts = compile_model(path, chip(side=8, spad=4, acc=2, precision=4))
    assert whole.compiled.tables.tiles[:, tk.TILE.accumulate].sum() == 0
    assert parts.compiled.tables.tiles[:, tk.TILE.accumulate].sum() > 0
    assert_checks(parts)
    np.testing.assert_allclose(
        parts.engine().tensor(parts.graph.outputs[0]),
        whole.engine().tensor(whole.graph.outputs[0]),
        atol=1e-5,
    )


def test_causal_attention_leaves_out_what_nobody_sees(tmp_path: Path) -> None:
    shapes = dict.fromkeys("qkv", (1, 1, 64, 8))
    counts: list[int] = []
    for causal in (0, 1):
        node = helper.make_node("Attention", ["q", "k", "v"], ["y"], is_causal=causal)
        path = save_model(tmp_path / f"{causal}.onnx", [node], shapes, {"y": (1, 1, 64, 8)}, opset=23)
        case = compile_model(path, chip(side=8, spad=4, acc=2, precision=4))
        assert_checks(case)
        counts.append(len(case.compiled.tables.tiles))
    assert counts[1] < counts[0]


def test_cache_of_earlier_keys(tmp_path: Path) -> None:
    inputs = {
        "q": (1, 4, 3, 8), "k": (1, 2, 3, 8), "v": (1, 2, 3, 8), "pk": (1, 2, 9, 8), "pv": (1, 2, 9, 8),
    }  # fmt: skip
    names = ["q", "k", "v", "", "pk", "pv"]
    node = helper.make_node("Attention", names, ["y", "nk", "nv"], name="att", is_causal=1)
    outputs = {"y": (1, 4, 3, 8), "nk": (1, 2, 12, 8), "nv": (1, 2, 12, 8)}
    path = save_model(tmp_path / "m.onnx", [node], inputs, outputs, opset=23)
    assert_checks(compile_model(path, chip(side=8, precision=4)))


@pytest.mark.parametrize(
    ("query", "mask"),
    [
        ((1, 4, 9, 16), (9, 33)),
        ((2, 4, 9, 16), (2, 1, 9, 33)),
        ((2, 9, 64), (2, 1, 9, 33)),
        ((1, 9, 64), (9, 33)),
    ],
)
def test_masks_of_truth_values(tmp_path: Path, query: tuple[int, ...], mask: tuple[int, ...]) -> None:
    """A row in which nothing counts is 0, as in the standard."""
    keys = (query[0], 33, 32) if len(query) == 3 else (query[0], 2, 33, 16)
    threshold = np.zeros((9, 1), np.float32)
    threshold[3] = 1e9
    heads: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2} if len(query) == 3 else {}
    nodes = [
        helper.make_node("Greater", ["m", "t"], ["counts"]),
        helper.make_node("Attention", ["q", "k", "v", "counts"], ["y"], name="att", **heads),
    ]
    inputs = {"q": query, "k": keys, "v": keys, "m": mask}
    path = save_model(
        tmp_path / "m.onnx", nodes, inputs, {"y": query}, [constant("t", threshold, np.float32)], opset=23
    )
    spec = chip(side=8, precision=4)
    graph = read_model(path, form=form_for(spec))
    case = Compiled(graph, spec, compile_true(graph, spec))
    assert_checks(case)
    given = dict(draw_inputs(graph, {}, 0))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = np.asarray(session.run(["y"], given)[0])
    found = case.engine().tensor(graph.outputs[0])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert not np.moveaxis(found, -2, 0)[3].any()
    assert found.any()


def test_multi_head_attention(tmp_path: Path) -> None:
    inputs = {"q": (2, 10, 32), "k": (2, 14, 32), "v": (2, 14, 32)}
    node = helper.make_node(
        "MultiHeadAttention", ["q", "k", "v"], ["y"], name="att", domain="com.microsoft", num_heads=4
    )
    path = save_model(tmp_path / "m.onnx", [node], inputs, {"y": (2, 10, 32)})
    assert_checks(compile_model(path, chip(side=8, precision=4)))


def transformer(path: Path, layers: int, tokens: int, width: int, heads: int) -> Path:
    """A decoder as an exporter of today writes it: norms, projections, Attention, gated feed-forward."""
    nodes, kept, source = list[Any](), list[Any](), "x"
    for n in range(layers):
        made = {"q": width, "k": width // 2, "v": width // 2, "gate": 2 * width, "up": 2 * width}
        kept += [weights(f"{n}.{name}.w", width, size, seed=n) for name, size in made.items()]
        kept += [weights(f"{n}.o.w", width, width, seed=n), weights(f"{n}.down.w", 2 * width, width, seed=n)]
        kept += [weights(f"{n}.norm{i}.w", width, seed=n) for i in (1, 2)]
        nodes.append(helper.make_node("RMSNormalization", [source, f"{n}.norm1.w"], [f"{n}.n1"], axis=-1))
        nodes += [
            helper.make_node("MatMul", [f"{n}.n1", f"{n}.{name}.w"], [f"{n}.{name}"])
            for name in ("q", "k", "v")
        ]
        nodes += [
            helper.make_node(
                "Attention", [f"{n}.q", f"{n}.k", f"{n}.v"], [f"{n}.a"], name=f"{n}.attention",
                q_num_heads=heads, kv_num_heads=heads // 2, is_causal=1,
            ),
            helper.make_node("MatMul", [f"{n}.a", f"{n}.o.w"], [f"{n}.o"]),
            helper.make_node("Add", [source, f"{n}.o"], [f"{n}.r1"]),
            helper.make_node("RMSNormalization", [f"{n}.r1", f"{n}.norm2.w"], [f"{n}.n2"], axis=-1),
            helper.make_node("MatMul", [f"{n}.n2", f"{n}.gate.w"], [f"{n}.g"]),
            helper.make_node("MatMul", [f"{n}.n2", f"{n}.up.w"], [f"{n}.u"]),
            helper.make_node("Sigmoid", [f"{n}.g"], [f"{n}.s"]),
            helper.make_node("Mul", [f"{n}.g", f"{n}.s"], [f"{n}.silu"]),
            helper.make_node("Mul", [f"{n}.silu", f"{n}.u"], [f"{n}.h"]),
            helper.make_node("MatMul", [f"{n}.h", f"{n}.down.w"], [f"{n}.d"]),
            helper.make_node("Add", [f"{n}.r1", f"{n}.d"], [f"{n}.out"]),
        ]  # fmt: skip
        source = f"{n}.out"
    shape = (1, tokens, width)
    return save_model(path, nodes, {"x": shape}, {source: shape}, kept, opset=23)


def test_a_whole_transformer_runs_on_the_cores(tmp_path: Path) -> None:
    case = compile_model(transformer(tmp_path / "m.onnx", 2, 24, 32, 4), chip(side=8, cores=4, precision=4))
    assert_checks(case)
