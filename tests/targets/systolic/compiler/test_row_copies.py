"""Operators that need rows, between convolutions whose images lie with their channels innermost."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from npuviz.onnx.copied_tensors import SUFFIX
from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.targets.systolic.check import check
from npuviz.targets.systolic.compiler.bodies import with_bodies
from npuviz.targets.systolic.compiler.compile import compile_true
from npuviz.targets.systolic.compiler.row_copies import with_row_copies
from npuviz.targets.systolic.values.engine import ValueEngine
from tests.targets.systolic.true_cases import (
    Compiled,
    assert_everything_stored_once,
    assert_sound,
    chip,
    constant,
    save_model,
    weights,
)

Shape = Sequence[int]
CONVS = [
    helper.make_node("Conv", ["x", "w"], ["image"], "first"),
    helper.make_node("Conv", ["middle", "w"], ["last"], "second"),
]
IMAGE = (1, 4, 6, 6)


def copied(folder: Path, middle: Sequence[onnx.NodeProto], outputs: dict[str, Shape], **settings) -> Compiled:
    """Compile convolutions with nodes between them that make `middle` of `image`."""
    nodes = [CONVS[0], *middle, CONVS[1]]
    given = [
        weights("w", 4, 4, 1, 1),
        weights("volume", 4, 6, 6),
        weights("whole", *IMAGE),
        constant("axis", [1]),
    ]
    path = save_model(folder / "model.onnx", nodes, {"x": IMAGE}, outputs, given)
    spec = chip(precision=4, **settings)
    graph = read_model(path, optimize=False)
    before = compile_true(graph, spec)
    on_host = [node for node, place in before.placement.items() if place == "Host"]
    made = with_row_copies(graph, spec, on_host)
    return Compiled(made, spec, compile_true(made, spec))


def assert_on_cores(case: Compiled) -> None:
    assert set(case.compiled.placement.values()) <= {"Core", "View"}
    assert_sound(case)
    assert_everything_stored_once(case)
    inputs = draw_inputs(case.graph, {}, 0)
    result = check(ValueEngine(case.compiled.tables, case.graph, case.spec, inputs), case.graph)
    assert result.num_failed == 0
    assert result.num_tensors == len([node for node in case.graph.nodes if node.outputs])


BETWEEN = {
    "a product": [helper.make_node("MatMul", ["image", "image"], ["middle"], "p")],
    "a product with a constant": [helper.make_node("MatMul", ["image", "whole"], ["middle"], "p")],
    "a chain": [
        helper.make_node("MatMul", ["image", "image"], ["scores"], "p"),
        helper.make_node("Add", ["scores", "volume"], ["sum"], "s"),
        helper.make_node("MatMul", ["sum", "image"], ["middle"], "q"),
    ],
    "rows and images of one result": [
        helper.make_node("MatMul", ["image", "image"], ["scores"], "p"),
        helper.make_node("Relu", ["scores"], ["positive"], "r"),
        helper.make_node("MatMul", ["scores", "positive"], ["rows"], "q"),
        helper.make_node("Add", ["rows", "positive"], ["middle"], "s"),
    ],
    "a sum over stacked images": [
        helper.make_node("Unsqueeze", ["image", "axis"], ["one"], "u"),
        helper.make_node("Concat", ["one", "one", "one"], ["stack"], "c", axis=1),
        helper.make_node("ReduceSum", ["stack", "axis"], ["middle"], "p", keepdims=0),
    ],
}


@pytest.mark.parametrize("name", BETWEEN)
def test_operators_between_convolutions(name: str, tmp_path: Path) -> None:
    assert_on_cores(copied(tmp_path, BETWEEN[name], {"last": IMAGE}))


def test_result_that_is_an_output_keeps_its_name(tmp_path: Path) -> None:
    case = copied(tmp_path, BETWEEN["a product"], {"middle": IMAGE, "last": IMAGE})
    assert_on_cores(case)
    assert [case.graph.tensors[index].name for index in case.graph.outputs] == ["middle", "last"]


def test_result_that_only_such_operators_read_is_written_once(tmp_path: Path) -> None:
    names = {tensor.name for tensor in copied(tmp_path, BETWEEN["a chain"], {"last": IMAGE}).graph.tensors}
    assert f"image{SUFFIX}" in names
    assert f"middle{SUFFIX}" in names
    assert not {f"scores{SUFFIX}", f"sum{SUFFIX}"} & names


def test_what_the_cores_cannot_run_either_way_is_not_copied(tmp_path: Path) -> None:
    asin = [helper.make_node("Asin", ["image"], ["middle"], "a")]
    case = copied(tmp_path, asin, {"last": IMAGE})
    assert [node.op_type for node in case.graph.nodes] == ["Conv", "Asin", "Conv"]


def test_nodes_that_the_host_is_to_run_are_not_copied(tmp_path: Path) -> None:
    case = copied(tmp_path, BETWEEN["a product"], {"last": IMAGE}, keep_fp32="p")
    assert case.compiled.placement[1] == "Host"
    assert len(case.graph.nodes) == 3


def test_constant_is_stored_in_both_orders(tmp_path: Path) -> None:
    between = [
        helper.make_node("Mul", ["image", "whole"], ["scaled"], "m"),
        helper.make_node("MatMul", ["scaled", "whole"], ["middle"], "p"),
    ]
    case = copied(tmp_path, between, {"last": IMAGE})
    assert_on_cores(case)
    names = {tensor.name: tensor.id for tensor in case.graph.tensors}
    first, second = (case.plan.storages[names[name]] for name in ("whole", f"whole{SUFFIX}"))
    assert (first.order, second.order) == ((0, 2, 3, 1), (0, 1, 2, 3))
    np.testing.assert_array_equal(case.graph.constants[first.tensor], case.graph.constants[second.tensor])


def test_transposes_that_only_rename_the_order_are_views(tmp_path: Path) -> None:
    """Channels last, as LayerNormalization of images wants them: the bytes that a convolution made."""
    nodes = [
        CONVS[0],
        helper.make_node("Transpose", ["image"], ["rows"], "there", perm=[0, 2, 3, 1]),
        helper.make_node("LayerNormalization", ["rows", "scale"], ["even"], "norm"),
        helper.make_node("Transpose", ["even"], ["middle"], "back", perm=[0, 3, 1, 2]),
        CONVS[1],
    ]
    given = [weights("w", 4, 4, 1, 1), weights("scale", 4)]
    path = save_model(tmp_path / "model.onnx", nodes, {"x": IMAGE}, {"last": IMAGE}, given)
    for kept in ("", "there"):
        spec = chip(precision=4, keep_fp32=kept)
        graph = read_model(path, optimize=False)
        case = Compiled(graph, spec, compile_true(graph, spec))
        assert case.compiled.placement[1] == ("Host" if kept else "View")
        assert case.compiled.placement[3] == "View"
        assert check(case.engine(), case.graph).num_failed == 0


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_images_are_resized_on_the_cores(mode: str, tmp_path: Path) -> None:
    out = (1, 4, 9, 4)
    nodes = [CONVS[0], helper.make_node("Resize", ["image", "", "", "sizes"], ["y"], "resize", mode=mode)]
    given = [weights("w", 4, 4, 1, 1), constant("sizes", out)]
    path = save_model(tmp_path / "model.onnx", nodes, {"x": IMAGE}, {"y": out}, given)
    spec = chip(precision=4)
    graph = with_bodies(read_model(path, optimize=False), ())
    case = Compiled(graph, spec, compile_true(graph, spec))
    assert_on_cores(case)


def test_even_repeats_stay_moves(tmp_path: Path) -> None:
    out = (1, 4, 12, 12)
    nodes = [CONVS[0], helper.make_node("Resize", ["image", "", "scales"], ["y"], "resize")]
    given = [weights("w", 4, 4, 1, 1), constant("scales", [1, 1, 2, 2], np.float32)]
    path = save_model(tmp_path / "model.onnx", nodes, {"x": IMAGE}, {"y": out}, given)
    graph = with_bodies(read_model(path, optimize=False), ())
    assert [node.op_type for node in graph.nodes] == ["Conv", "Resize"]


def test_what_is_resized_in_each_run_alike_is_a_constant(tmp_path: Path) -> None:
    """As position embeddings are: they change with the size of the image only."""
    nodes = [
        helper.make_node("Resize", ["whole", "", "", "sizes"], ["table"], "resize", mode="cubic"),
        helper.make_node("Add", ["x", "table"], ["y"], "add"),
    ]
    given = [weights("whole", *IMAGE), constant("sizes", (1, 4, 3, 5))]
    path = save_model(tmp_path / "model.onnx", nodes, {"x": (1, 4, 3, 5)}, {"y": (1, 4, 3, 5)}, given)
    graph = with_bodies(read_model(path, optimize=False), ())
    assert [node.op_type for node in graph.nodes] == ["Add"]
    assert_on_cores(Compiled(graph, chip(precision=4), compile_true(graph, chip(precision=4))))
