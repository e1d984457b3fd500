"""Text, which exists on the Host only, on every machine that compiles models."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.workbench.onnx_backend.execution import ExecutionOptions, execute

MACHINES = pytest.mark.parametrize("target", ["rk3588", "systolic", "neuroncore"])
WORDS = ["red", "green", "Blue", "the blue"]


def text(name: str, words: list[str]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(words, np.object_), name)


def declared(values: list[tuple[str, str, list[int]]]) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape) for name, kind, shape in values
    ]


def repeated() -> onnx.GraphProto:
    """The body of a loop: the words without the first, and "green" behind them."""
    nodes = [
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Concat", ["words", "green"], ["longer"], axis=0),
        helper.make_node("Slice", ["longer", "one", "five"], ["shifted"]),
    ]
    starts = [("turn", "INT64", []), ("go", "BOOL", []), ("words", "STRING", [4])]
    ends = [("on", "BOOL", []), ("shifted", "STRING", [4])]
    return helper.make_graph(nodes, "body", declared(starts), declared(ends))


def text_model() -> onnx.ModelProto:
    """Numbers that pick words, and numbers that are made of words in all ways there are."""
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["s"]),
        helper.make_node("Equal", ["s", "green"], ["same"]),
        helper.make_node("Where", ["same", "table", "green"], ["chosen"]),
        helper.make_node("Concat", ["s", "chosen"], ["both"], axis=0),
        helper.make_node("Unique", ["both"], ["kinds", "", "places"]),
        helper.make_node("Loop", ["two", "", "s"], ["shifted"], body=repeated()),
        helper.make_node("Equal", ["shifted", "green"], ["moved"]),
        helper.make_node(
            "TfIdfVectorizer", ["s"], ["counts"], mode="TF", min_gram_length=1, max_gram_length=1,
            max_skip_count=0, ngram_counts=[0], ngram_indexes=[0, 1], pool_strings=["red", "green"],
        ),
        helper.make_node("Mul", ["counts", "counts"], ["squares"]),
        helper.make_node("Cast", ["squares"], ["digits"], to=TensorProto.STRING),
        helper.make_node("Cast", ["digits"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("StringNormalizer", ["s"], ["loud"], case_change_action="UPPER", locale="C"),
    ]  # fmt: skip
    ends = [
        ("same", "BOOL", [4]),
        ("places", "INT64", [8]),
        ("moved", "BOOL", [4]),
        ("numbers", "FLOAT", [2]),
    ]
    numbers = [
        helper.make_tensor(name, TensorProto.INT64, shape, [value])
        for name, shape, value in (("one", [1], 1), ("two", [], 2), ("five", [1], 5))
    ]
    graph = helper.make_graph(
        nodes, "words", declared([("i", "INT64", [4])]), declared(ends),
        [text("table", WORDS), text("green", ["green"]), *numbers],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@MACHINES
def test_numbers_made_of_text_are_right(target: str) -> None:
    model, picked = text_model(), np.array([1, 0, 2, 1])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    run = execute(model, [picked], ExecutionOptions(target))
    for found, expected in zip(run.outputs, session.run(None, {"i": picked}), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert run.check().is_passed


@MACHINES
def test_a_large_vocabulary_stays_in_the_model(target: str) -> None:
    """More words than a light model keeps numbers."""
    words = text("table", [f"word {number}" for number in range(500)])
    nodes = [
        helper.make_node("Gather", ["table", "i"], ["s"]),
        helper.make_node("Equal", ["s", "last"], ["y"]),
    ]
    ends = declared([("i", "INT64", [3])]), declared([("y", "BOOL", [3])])
    graph = helper.make_graph(nodes, "words", *ends, [words, text("last", ["word 499"])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    run = execute(model, [np.array([499, 0, 499])], ExecutionOptions(target))
    np.testing.assert_array_equal(run.outputs[0], [True, False, True])
