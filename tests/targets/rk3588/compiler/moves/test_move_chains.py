"""Views and Transposes one behind the other are one copy of whole atoms."""

import math
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.sweeps import seeds
from tests.targets.rk3588.compiler.models import SLOW_HOST, Finished, Model, checked, on_npu


def _moves(finished: Finished) -> int:
    nodes = finished.program.graph.nodes
    return sum(nodes[task.node].op_type in ("Reshape", "Transpose") for task in finished.work)


@pytest.mark.parametrize(
    ("parts", "order", "result", "most"),
    [
        ((1, 12, 4, 32), (0, 2, 1, 3), (4, 12, 32), 1),
        ((1, 12, 4, 32), (0, 2, 3, 1), (4, 32, 12), 8),
        ((1, 12, 2, 64), (1, 0, 2, 3), (12, 2, 64), 2),
        ((3, 4, 8, 16), (2, 0, 1, 3), (8, 12, 16), 3),
    ],
)
def test_heads_of_a_product_are_brought_to_the_front(
    tmp_path: Path, parts: tuple[int, ...], order: tuple[int, ...], result: tuple[int, ...], most: int
) -> None:
    """The tensor in between has its heads as channels or its lanes elsewhere: copied by itself it is cut."""
    model = Model(1, 12, 40)
    made = model.add("MatMul", "x", model.weight(40, 128))
    made = model.add("Reshape", made, model.constant(np.array(parts)))
    made = model.add("Transpose", made, perm=order)
    made = model.add("Reshape", made, model.constant(np.array(result)))
    model.add("MatMul", made, model.weight(result[-1], 16))
    assert _moves(on_npu(model.save(tmp_path))) <= most


def test_a_signal_between_products_is_turned_at_once(tmp_path: Path) -> None:
    """As FSMN writes it: axes of one index around a Transpose."""
    model = Model(1, 32, 40)
    made = model.add("MatMul", "x", model.weight(40, 128))
    made = model.add("Unsqueeze", made, model.constant(np.array([1])))
    made = model.add("Transpose", made, perm=[0, 3, 2, 1])
    made = model.conv(made, 128, 128, 3, 1, group=128)
    made = model.add("Transpose", made, perm=[0, 3, 2, 1])
    made = model.add("Squeeze", made, model.constant(np.array([1])))
    model.add("MatMul", made, model.weight(128, 16))
    assert _moves(on_npu(model.save(tmp_path))) <= 2


def test_what_is_read_in_between_is_written(tmp_path: Path) -> None:
    model = Model(1, 12, 40)
    made = model.add("MatMul", "x", model.weight(40, 128))
    parts = model.add("Reshape", made, model.constant(np.array([1, 12, 4, 32])))
    turned = model.add("Transpose", parts, perm=[0, 2, 1, 3])
    made = model.add("ReduceMax", parts, model.constant(np.array([3])))
    turned = model.add("ReduceMax", turned, model.constant(np.array([3])))
    made = model.add("Transpose", made, perm=[0, 2, 1, 3])
    model.add("Add", turned, made)
    checked(model.save(tmp_path))


def test_a_chain_that_is_no_copy_is_done_one_by_one(tmp_path: Path) -> None:
    """Three of twelve channels: an axis that cuts through atoms at both ends, where one end does not."""
    model = Model(1, 12, 40)
    made = model.add("MatMul", "x", model.weight(40, 128))
    made = model.add("Reshape", made, model.constant(np.array([1, 3, 4, 128])))
    made = model.add("Transpose", made, perm=[0, 3, 1, 2])
    made = model.add("Reshape", made, model.constant(np.array([1, 128, 12])))
    model.add("Reshape", made, model.constant(np.array([1, 64, 24])))
    checked(model.save(tmp_path))


@pytest.mark.parametrize(("shape", "axis"), [((1, 16, 5, 5), 1), ((2, 3, 4, 5), 1), ((1, 4, 12), 1)])
def test_axes_that_a_view_has_joined_keep_their_order(
    tmp_path: Path, shape: tuple[int, ...], axis: int
) -> None:
    """Channels and positions are one axis behind Flatten, the channels moving slower."""
    model = Model(*shape)
    made = model.add("Flatten", "x", axis=axis)
    model.add("Transpose", made, perm=[1, 0])
    checked(model.save(tmp_path))


@pytest.mark.parametrize("seed", seeds(8, 60, 60))
def test_random_chains_compute_the_same(tmp_path: Path, seed: int) -> None:
    """Views and Transposes in any order, from one shape to another."""
    random = Random(seed)
    shape = random.choice([(1, 16, 4, 6), (2, 8, 12), (1, 12, 32), (6, 32), (3, 4, 2, 8), (1, 6, 16, 1)])
    model, made = Model(*shape), "x"
    for _ in range(random.randrange(2, 6)):
        if random.random() < 0.5:
            order = random.sample(range(len(shape)), len(shape))
            made, shape = model.add("Transpose", made, perm=order), tuple(shape[axis] for axis in order)
            continue
        sizes = [1] * random.randrange(1, 5)
        for factor in factors(math.prod(shape)):
            sizes[random.randrange(len(sizes))] *= factor
        made, shape = model.add("Reshape", made, model.constant(np.array(sizes))), tuple(sizes)
    checked(model.save(tmp_path))


def factors(number: int) -> list[int]:
    """Its primes."""
    found = next((each for each in (2, 3, 5, 7) if number % each == 0), 0)
    return [found, *factors(number // found)] if found else []


def test_heads_of_less_than_an_atom(tmp_path: Path) -> None:
    """An attention over channels: 4 heads of 12 of them lie as rows of all places."""
    model = Model(1, 64, 144)
    made = model.add("Reshape", model.add("Relu", "x"), model.constant(np.array([1, 64, 3, 4, 12])))
    model.add("Relu", model.add("Transpose", made, perm=[2, 0, 3, 4, 1]))
    on_npu(model.save(tmp_path), SLOW_HOST)


def test_rotation_of_whole_heads_needs_no_host(tmp_path: Path) -> None:
    """The standard's body cuts off what is not rotated, which is nothing here."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 16, 32])]
    angles = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    weights = [numpy_helper.from_array(values, name) for name, values in
               (("cos", np.cos(angles)[None]), ("sin", np.sin(angles)[None]))]  # fmt: skip
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin"], ["y"], "turn")
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 16, 32])]
    graph = helper.make_graph([node], "turn", inputs, outputs, weights)
    path = tmp_path / "turn.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    on_npu(path, SLOW_HOST)
