from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuviz.base.errors import Cancelled, FormatError, UsageError
from npuviz.base.progress import CallbackProgress
from npuviz.onnx import shape_inference
from npuviz.onnx.inputs import Given
from npuviz.onnx.reader import read_model
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph
from tests.onnx.cases import convolution, random, save, value
from tests.sweeps import quick

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def tensor(graph: Graph, name: str):
    return next(tensor for tensor in graph.tensors if tensor.name == name)


def outputs(graph: Graph, **inputs: np.ndarray) -> list[np.ndarray]:
    return list(run_reference(graph, inputs, graph.outputs).values())


def test_the_stored_graph_keeps_nodes_names_and_order(tmp_path):
    graph = read_model(convolution(tmp_path / "m.onnx"), {"n": 2}, optimize=False)
    assert [node.op_type for node in graph.nodes] == [
        "ConstantOfShape", "Conv", "BatchNormalization", "Relu", "MaxPool", "Reshape", "MatMul",
    ]  # fmt: skip
    assert graph.nodes[1].name == "conv"
    weights = [item.name for item in graph.tensors if item.kind == "weight"]
    assert weights == ["w", "scale", "bias", "mean", "var", "flat", "lw_shape"]
    assert graph.nodes[1].attributes["kernel_shape"] == [3, 3]
    assert tensor(graph, "d").shape == (2, 36)
    light = graph.constants[tensor(graph, "lw").id]
    assert light.shape == (36, 500)
    assert light.strides == (0, 0)
    assert graph.nodes[tensor(graph, "lw").producer].op_type == "ConstantOfShape"
    assert graph.opsets["ai.onnx"] == 17
    assert graph.assumptions == ()


def test_optimising_keeps_the_results_and_drops_what_no_machine_runs(tmp_path):
    path = convolution(tmp_path / "m.onnx")
    stored, small = read_model(path, {"n": 2}, optimize=False), read_model(path, {"n": 2})
    assert [node.op_type for node in small.nodes] == ["Conv", "Relu", "MaxPool", "Reshape", "MatMul"]
    assert small.nodes[0].name == "conv"
    assert {item.kind for item in small.tensors if item.producer < 0} == {"input", "weight"}
    for item in small.tensors:
        if item.kind == "weight":
            array = small.constants[item.id]
            assert array.shape == item.shape
            assert not array.flags.writeable
    x = random(2, 3, 8, 8)
    np.testing.assert_allclose(outputs(small, x=x)[0], outputs(stored, x=x)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("optimize", [False, True])
def test_a_light_weight_that_is_also_an_output(tmp_path, optimize):
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["w"]), helper.make_node("Add", ["x", "w"], ["y"])]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [value("x", [3])],
        [value("y", None), value("w", None)],
        {"s": np.array([3], np.int64)},
    )
    graph = read_model(path, optimize=optimize)
    assert tensor(graph, "w").id in graph.outputs
    np.testing.assert_array_equal(outputs(graph, x=random(3))[1], np.zeros(3))


def test_open_dimensions_become_one_and_are_told(tmp_path):
    graph = read_model(convolution(tmp_path / "m.onnx"))
    assert tensor(graph, "x").shape == (1, 3, 8, 8)
    assert len(graph.assumptions) == 1
    assert "--set n=N" in graph.assumptions[0]


def test_a_dimension_without_a_name_is_called_by_its_place(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x", [None, 4])],
        [value("y", None)],
    )
    assert read_model(path, {"x[0]": 7}).tensors[1].shape == (7, 4)
    assert "x[0]" in read_model(path).assumptions[0]


def test_dimensions_called_alike_without_a_meaning_are_set_by_place(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x", ["?", 3, "?", "?"])],
        [value("y", ["?", 3, "?", "?"])],
    )
    graph = read_model(path, {"x[2]": 48, "x[3]": 192})
    assert tensor(graph, "y").shape == (1, 3, 48, 192)
    assert [text for text in graph.assumptions if "x[0]" in text] == list(graph.assumptions)


def test_a_named_dimension_may_be_set_by_place_too(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", ["n", "k"]), value("w", ["k", "m"])], [value("y", ["n", "m"])]
    )
    assert tensor(read_model(path, {"x[1]": 5, "m": 2}), "w").shape == (5, 2)
    with pytest.raises(UsageError, match="open dimensions: k, m, n"):
        read_model(path, {"w[2]": 5})


def test_a_dimension_may_be_zero(tmp_path):
    nodes = [helper.make_node("Concat", ["past", "x"], ["y"], axis=1)]
    path = save(
        tmp_path / "m.onnx", nodes, [value("past", [1, "p", 4]), value("x", [1, 2, 4])], [value("y", None)]
    )
    graph = read_model(path, {"p": 0})
    assert tensor(graph, "past").shape == (1, 0, 4)
    assert tensor(graph, "y").shape == (1, 2, 4)


def test_open_dimensions_are_those_of_given_inputs(tmp_path):
    given = Given({"x": np.zeros((4, 3, 8, 8), np.float32)})
    graph = read_model(convolution(tmp_path / "m.onnx"), given=given)
    assert tensor(graph, "x").shape == (4, 3, 8, 8)
    assert graph.assumptions == ()
    assert tensor(read_model(tmp_path / "m.onnx", {"n": 2}, given=given), "x").shape == (2, 3, 8, 8)


def test_shapes_that_depend_on_values_are_those_of_given_inputs(tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n"])], [value("y", None)])
    given = Given({"x": np.array([0, 1, 0, 2, 0, 0, 3], np.float32)})
    assert tensor(read_model(path, given=given), "y").shape == (1, 3)


@pytest.mark.parametrize("given", [{"m": 3}, {"n": -1}, {"n": 1 << 40}])
def test_a_wrong_dimension_is_a_usage_error(tmp_path, given):
    with pytest.raises(UsageError):
        read_model(convolution(tmp_path / "m.onnx"), given)


@pytest.mark.parametrize("optimize", [False, True])
def test_absurd_sizes_are_refused_before_anything_is_allocated(tmp_path, optimize):
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Expand", ["x", "s"], ["y"])],
        [value("x", [1])],
        [value("y", None)],
        {"s": np.array([1000, 1000, 1000, 1000], np.int64)},
    )
    with pytest.raises(FormatError, match="1000000000000 "):
        read_model(path, optimize=optimize)


def test_external_data_is_mapped_and_must_exist(tmp_path):
    w = random(64, 64)
    path = save(
        tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 64])],
        [value("y", None)], {"w": w},
    )  # fmt: skip
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    graph = read_model(path)
    np.testing.assert_array_equal(graph.constants[tensor(graph, "w").id], w)
    x = random(2, 64)
    np.testing.assert_allclose(outputs(graph, x=x)[0], x @ w, rtol=1e-5, atol=1e-5)
    data = (tmp_path / "w.bin").read_bytes()
    (tmp_path / "w.bin").write_bytes(data[:-1])
    with pytest.raises(FormatError, match=r"w\.bin"):
        read_model(path)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FormatError, match=r"w\.bin.*no such file"):
        read_model(path)


@pytest.mark.parametrize("is_symbolic", [False, True])
def test_external_data_behind_links(tmp_path, is_symbolic):
    """Caches of downloads keep the files under other names, and link to them."""
    stored, folder = tmp_path / "blobs", tmp_path / "snapshot"
    stored.mkdir()
    folder.mkdir()
    w = random(64, 64)
    path = save(
        stored / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 64])],
        [value("y", None)], {"w": w},
    )  # fmt: skip
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    for name in ("m.onnx", "w.bin"):
        kept = (stored / name).rename(stored / f"3f{name}")
        (folder / name).symlink_to(kept) if is_symbolic else (folder / name).hardlink_to(kept)
    graph = read_model(folder / "m.onnx")
    np.testing.assert_array_equal(graph.constants[tensor(graph, "w").id], w)


@pytest.mark.parametrize(
    "location", ["../secret", "a\0b", "x" * 5000], ids=["upwards", "null byte", "too long"]
)
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    (tmp_path / "secret").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    path = save(
        folder / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [4])], [value("y", None)]
    )
    model = onnx.load(path)
    weight = model.graph.initializer.add(name="w", dims=[4], data_type=1, data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FormatError, match="beside the model") as caught:
        read_model(path)
    assert len(str(caught.value)) < 400


def test_large_weights_are_not_held_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("npuviz.onnx.serialization.INLINE_BYTES", 1000)
    w = random(64, 64)
    path = save(
        tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [2, 64])],
        [value("y", None)], {"w": w},
    )  # fmt: skip
    graph = read_model(path)
    assert len(graph.source) < w.nbytes // 10
    x = random(2, 64)
    np.testing.assert_allclose(outputs(graph, x=x)[0], x @ w, rtol=1e-5, atol=1e-5)


def test_text_is_never_named_as_bytes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr("npuviz.onnx.serialization.INLINE_BYTES", 1000)
    words = np.array([f"word {number}" for number in range(200)], object)
    nodes = [
        helper.make_node("Gather", ["words", "x"], ["taken"]),
        helper.make_node("Equal", ["taken", "wanted"], ["y"]),
    ]
    path = save(
        tmp_path / "m.onnx", nodes,
        [value("x", [3], TensorProto.INT64)], [value("y", None, TensorProto.BOOL)],
        {"words": words, "wanted": np.array(["word 150"], object)}, opset=19,
    )  # fmt: skip
    for optimize in (False, True):
        graph = read_model(path, optimize=optimize)
        found = run_reference(graph, {"x": np.array([7, 150, 15])}, graph.outputs)
        assert next(iter(found.values())).tolist() == [False, True, False]


def test_functions_are_inlined(tmp_path):
    function = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [helper.make_node("Twice", ["x"], ["h"], domain="own"), helper.make_node("Relu", ["h"], ["y"])]
    path = save(
        tmp_path / "m.onnx",
        nodes,
        [value("x", [3])],
        [value("y", None)],
        functions=[function],
        domains={"own": 1},
    )
    assert [node.op_type for node in read_model(path).nodes] == ["Add", "Relu"]
    assert [node.op_type for node in read_model(path, optimize=False).nodes] == ["Twice", "Relu"]


def test_initialisers_that_are_also_inputs_are_weights(tmp_path):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [4]), value("w", [4])], [value("y", None)], {"w": random(4)},
    )  # fmt: skip
    for optimize in (False, True):
        graph = read_model(path, optimize=optimize)
        assert [graph.tensors[item].name for item in graph.inputs] == ["x"]
        assert tensor(graph, "w").kind == "weight"


def test_a_subgraph_is_one_opaque_node_that_names_what_it_reads(tmp_path):
    def branch(name: str, op: str) -> onnx.GraphProto:
        nodes = [helper.make_node(op, ["x", "w"], [name])]
        return helper.make_graph(nodes, name, [], [value(name, [4])])

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("t", "Add"), else_branch=branch("e", "Mul")
    )
    path = save(
        tmp_path / "m.onnx", [node], [value("x", [4]), value("c", [], TensorProto.BOOL)], [value("y", [4])],
        {"w": random(4)},
    )  # fmt: skip
    graph = read_model(path, optimize=False)
    assert graph.nodes[0].attributes["captured_inputs"] == 2
    assert {graph.tensors[item].name for item in graph.nodes[0].inputs} == {"c", "x", "w"}
    assert isinstance(graph.nodes[0].attributes["then_branch"], bytes)
    x = random(4)
    result = outputs(graph, x=x, c=np.array(False))
    np.testing.assert_allclose(result[0], x * graph.constants[tensor(graph, "w").id])


def test_shapes_that_only_a_run_can_tell(tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [5])], [value("y", None)])
    graph = read_model(path)
    assert tensor(graph, "y").shape == (1, 5)
    assert "those of a run" in graph.assumptions[0]


def test_a_run_for_shapes_draws_only_so_many_numbers(tmp_path, monkeypatch):
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n"])], [value("y", None)])
    monkeypatch.setattr(shape_inference, "MAX_DRAWN_ELEMENTS", 6)
    assert tensor(read_model(path, {"n": 6}), "y").shape == (1, 6)
    with pytest.raises(FormatError, match=r"at most 6 elements.* found 7; give them with --input"):
        read_model(path, {"n": 7})
    assert tensor(read_model(path, given=Given({"x": np.ones(7, np.float32)})), "y").shape == (1, 7)


def test_a_run_that_fails_names_what_was_assumed(tmp_path):
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["p"], mode="reflect"),
        helper.make_node("NonZero", ["p"], ["i"]),
        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", ["time"])], [value("y", None)], {"pads": np.array([2, 0])}
    )
    with pytest.raises(FormatError, match=r"1 for what nobody set: --set time=N"):
        read_model(path)


def test_a_shape_that_nobody_can_tell_is_one_line(tmp_path):
    nodes = [helper.make_node("Odd", ["x"], ["h"], domain="own"), helper.make_node("Relu", ["h"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [5])], [value("y", None)], domains={"own": 1})
    with pytest.raises(FormatError, match="node Odd_0") as caught:
        read_model(path)
    assert "\n" not in str(caught.value)


def test_operators_of_other_domains_stay_when_their_shapes_are_stored(tmp_path):
    nodes = [helper.make_node("Odd", ["x"], ["h"], domain="own"), helper.make_node("Relu", ["h"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, [value("x", ["n", 5])], [value("y", None)], domains={"own": 1})
    model = onnx.load(path)
    model.graph.value_info.append(value("h", ["n", 7]))
    path.write_bytes(model.SerializeToString())
    graph = read_model(path, {"n": 3})
    assert tensor(graph, "h").shape == (3, 7)
    assert tensor(graph, "y").shape == (3, 7)
    assert graph.nodes[0].domain == "own"


@pytest.mark.parametrize(
    ("kind", "name", "dtype"),
    [
        (TensorProto.BFLOAT16, "bfloat16", ml_dtypes.bfloat16),
        (TensorProto.FLOAT8E4M3FN, "float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        (TensorProto.INT4, "int4", ml_dtypes.int4),
        (TensorProto.UINT4, "uint4", ml_dtypes.uint4),
        (TensorProto.FLOAT16, "float16", np.float16),
        (TensorProto.INT8, "int8", np.int8),
    ],
)
def test_narrow_weights(tmp_path, kind, name, dtype):
    w = np.arange(8).astype(dtype)
    node = helper.make_node("Cast", ["w"], ["h"], to=TensorProto.FLOAT)
    add = helper.make_node("Add", ["h", "x"], ["y"])
    path = save(tmp_path / "m.onnx", [node, add], [value("x", [8])], [value("y", None)], opset=21)
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("w", kind, [8], w.astype(np.float32)))
    path.write_bytes(model.SerializeToString())
    graph = read_model(path, optimize=False)
    assert tensor(graph, "w").dtype == name
    np.testing.assert_array_equal(graph.constants[tensor(graph, "w").id], w)


def test_quantised_weights_stay_quantised(tmp_path):
    weights: dict[str, np.ndarray] = {
        "w": np.arange(-8, 8, dtype=np.int8).reshape(4, 4),
        "s": np.array(0.5, np.float32),
        "z": np.array(1, np.int8),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["h"]),
        helper.make_node("MatMul", ["x", "h"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [2, 4])], [value("y", None)], weights)
    graph = read_model(path)
    assert [node.op_type for node in graph.nodes] == ["DequantizeLinear", "MatMul"]
    assert tensor(graph, "w").dtype == "int8"


def test_sparse_weights_are_written_out(tmp_path):
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [5])],
        [value("y", None)],
    )
    model = onnx.load(path)
    sparse = model.graph.sparse_initializer.add(dims=[5])
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([7, 9], np.float32), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([1, 3], np.int64), "w_indices"))
    path.write_bytes(model.SerializeToString())
    graph = read_model(path)
    np.testing.assert_array_equal(graph.constants[tensor(graph, "w").id], [0, 7, 0, 9, 0])


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 18, 26, onnx.defs.onnx_opset_version()])
def test_operator_sets_from_seven_on_run_in_the_reference(tmp_path, opset):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y"], axis=-1),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", [2, 3])], [value("y", None)], {"w": random(3, 4)}, opset=opset
    )
    graph = read_model(path)
    assert graph.opsets["ai.onnx"] == opset
    np.testing.assert_allclose(outputs(graph, x=random(2, 3))[0].sum(), 2, rtol=1e-5)


def test_older_operator_sets_are_converted(tmp_path):
    node = helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=0)
    path = save(
        tmp_path / "m.onnx", [node], [value("x", [2, 3])], [value("y", [2, 3])], {"w": random(2)}, opset=6
    )
    graph = read_model(path)
    assert graph.opsets["ai.onnx"] == 7
    np.testing.assert_allclose(outputs(graph, x=np.zeros((2, 3), np.float32))[0][:, 0], random(2))


@quick(but=["light_shufflenet"])
@pytest.mark.parametrize("name", ["light_squeezenet", "light_shufflenet", "light_resnet50"])
def test_real_topologies_give_the_same_results_when_optimised(name):
    path = LIGHT / f"{name}.onnx"
    stored, small = read_model(path, optimize=False), read_model(path)
    assert len(small.nodes) < len(stored.nodes)
    assert not {"BatchNormalization", "Dropout", "ConstantOfShape"} & {node.op_type for node in small.nodes}
    feed = {stored.tensors[item].name: random(*stored.tensors[item].shape) for item in stored.inputs}
    np.testing.assert_allclose(outputs(small, **feed)[0], outputs(stored, **feed)[0], rtol=1e-3, atol=1e-6)
    # Light weights stay light: resnet50 has 100 MB of them.
    assert len(small.source) < 2 << 20


def test_reading_can_be_cancelled(tmp_path):
    progress = CallbackProgress(lambda fraction, text: None)
    progress.cancel()
    with pytest.raises(Cancelled):
        read_model(convolution(tmp_path / "m.onnx"), progress=progress)


@pytest.mark.parametrize(
    ("op_type", "opset"), [("SimplifiedLayerNormalization", 17), ("LayerNormalization", 14)]
)
def test_operators_that_only_the_runtime_has_in_the_standard_domain(tmp_path, op_type, opset):
    nodes = [
        helper.make_node(op_type, ["x", "w"], ["n"], "norm", epsilon=1e-5),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, [value("x", ["b", 8])], [value("y", None)], {"w": random(8)}, opset=opset
    )
    graph = read_model(path, {"b": 3})
    assert tensor(graph, "n").shape == (3, 8)
    x = random(3, 8)
    middle = x - (x.mean(-1, keepdims=True) if op_type == "LayerNormalization" else 0)
    expected = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + 1e-5)
    weights = graph.constants[tensor(graph, "w").id]
    np.testing.assert_allclose(
        outputs(graph, x=x)[0], np.maximum(expected * weights, 0), rtol=1e-4, atol=1e-5
    )


def test_an_operator_that_nobody_has_is_one_line(tmp_path):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Odd", ["x"], ["y"])], [value("x", [3])], [value("y", None)]
    )
    with pytest.raises(FormatError, match="found Odd; export"):
        read_model(path)


def test_names_of_output_dimensions_do_not_decide_their_size(tmp_path):
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=0)
    path = save(tmp_path / "m.onnx", [node], [value("x", ["batch"])], [value("y", ["batch"])])
    graph = read_model(path, dimensions={"batch": 4})
    assert tensor(graph, "y").shape == (8,)


@pytest.mark.parametrize("stored", [[], [1, 2, 9, 9], [1, 2, 4]])
def test_stored_shapes_that_contradict_the_operators_do_not_count(tmp_path, stored):
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["p"], ["right"]),
        helper.make_node("Relu", ["right"], ["y"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, [value("x", [1, 2, 8, 8])], [value("y", None)])
    model = onnx.load(path)
    model.graph.value_info.extend([value("p", stored), value("right", [1, 2, 4, 4])])
    onnx.save(model, path)
    graph = read_model(path, optimize=False)
    assert [tensor(graph, name).shape for name in "py"] == [(1, 2, 4, 4)] * 2
    assert "of 1 tensors (first: p) contradict" in graph.assumptions[0]


@pytest.mark.parametrize(("given", "bins"), [({}, 201), ({"onesided": 1}, 201), ({"onesided": 0}, 400)])
def test_half_of_the_frequencies_are_the_default(tmp_path: Path, given: dict[str, int], bins: int) -> None:
    """ONNX's own shape inference takes all of them for the default."""
    constants = {"step": np.array(160, np.int64), "window": np.ones(400, np.float32)}
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"])
    node.attribute.extend(helper.make_attribute(name, each) for name, each in given.items())
    path = save(tmp_path / "m.onnx", [node], [value("x", [1, 2000, 1])], [value("y", None)], constants)
    graph = read_model(path, {})
    assert graph.tensors[graph.outputs[0]].shape == (1, 11, bins, 2)
    found = outputs(graph, x=random(1, 2000, 1))
    assert found[0].shape == (1, 11, bins, 2)


def test_nodes_may_stand_in_any_order(tmp_path):
    """As the float16 converter of ONNX Runtime leaves them, in branches too."""
    scalar = helper.make_tensor_value_info
    branch = helper.make_graph(
        [helper.make_node("Neg", ["i"], ["o"], "neg"), helper.make_node("Add", ["b", "b"], ["i"], "add")],
        "branch", [], [scalar("o", TensorProto.FLOAT, [4])],
    )  # fmt: skip
    nodes = [
        helper.make_node("If", ["c"], ["y"], "if", then_branch=branch, else_branch=branch),
        helper.make_node("Cast", ["s"], ["c"], "cast", to=TensorProto.BOOL),
        helper.make_node("ReduceMax", ["b"], ["s"], "max", keepdims=0),
        helper.make_node("Abs", ["a"], ["b"], "abs"),
        helper.make_node("Exp", ["x"], ["a"], "exp"),
    ]
    given, made_there = ([scalar(name, TensorProto.FLOAT, [4])] for name in "xy")
    made = helper.make_model(
        helper.make_graph(nodes, "g", given, made_there),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(made.SerializeToString())
    graph = read_model(path, optimize=False)
    assert [node.name for node in graph.nodes] == ["exp", "abs", "max", "cast", "if"]
    assert any("they were sorted" in text for text in graph.assumptions)
    x = np.array([1, 2, 3, 4], np.float32)
    (found,) = outputs(read_model(path, given=Given({"x": x})), x=x)
    np.testing.assert_allclose(found, -2 * np.exp(x), rtol=1e-6)


def test_a_circle_of_nodes_is_refused(tmp_path):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Abs", ["a"], ["b"])]
    given, found = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])] for name in "xb")
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(helper.make_graph(nodes, "g", given, found)).SerializeToString())
    with pytest.raises(FormatError, match="sorted"):
        read_model(path)


@pytest.mark.parametrize(
    ("operator", "gates", "steps", "batch", "missing"),
    [("GRU", 3, 0, 1, "one step"), ("GRU", 3, 2, 0, "one step and one example"),
     ("LSTM", 4, 2, 0, "one example"), ("LSTM", 4, 0, 1, ""), ("RNN", 1, 0, 0, "")],
)  # fmt: skip
def test_layers_that_end_the_runtime_are_refused(tmp_path, operator, gates, steps, batch, missing):
    weights = {"w": random(1, gates * 4, 3), "r": random(1, gates * 4, 4)}
    node = helper.make_node(operator, ["x", "w", "r"], ["y"], hidden_size=4, name="cell")
    x, y = value("x", [steps, batch, 3]), value("y", [steps, 1, batch, 4])
    path = save(tmp_path / "m.onnx", [node], [x], [y], weights)
    if missing:
        with pytest.raises(FormatError, match=f"node cell: expected {operator} with at least {missing}"):
            read_model(path)
    else:
        assert outputs(read_model(path), x=random(steps, batch, 3))[0].shape == (steps, 1, batch, 4)


def test_warnings_of_the_checker_go_to_the_standard_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Scripts read JSON from the output."""
    node = helper.make_node("Affine", ["x"], ["y"], alpha=2.0, beta=1.0)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    graph = helper.make_graph([node], "experimental", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=3)
    path = tmp_path / "experimental.onnx"
    onnx.save(model, path)
    read_model(path)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "Affine" in printed.err
