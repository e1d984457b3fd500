# The two verdicts: which wrong networks they find, and what they say about them.
import numpy as np
import onnx
import pytest
from onnx import helper

from npuviz.onnx.check.errors import Tolerance
from npuviz.sim.check_result import CheckResult, Verdict
from tests.onnx.check.machine import checked, make_graph

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def _whole(result: CheckResult) -> Verdict:
    assert result.end_to_end is not None
    return result.end_to_end


def _single(result: CheckResult) -> Verdict:
    assert result.per_operator is not None
    return result.per_operator


def _verdicts(result: CheckResult) -> tuple[bool, bool, int]:
    return not _whole(result).num_failed, not _single(result).num_failed, len(result.findings)


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_right_network_passes_both(tmp_path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], "product"), helper.make_node("Tanh", ["p"], ["y"])]
    graph = make_graph(tmp_path, nodes, {"x": [4, 8]}, {"y": FLOAT}, {"w": _normal(8, 8, seed=1)})
    result = checked(graph, {"x": _normal(4, 8)}, "float16")
    assert _verdicts(result) == (True, True, 0)
    assert _whole(result).classes["within the tolerance"] == 2
    assert _whole(result).num_tensors == _single(result).num_tensors == 2
    assert "3 roundings, float16" in result.tolerance


def test_outputs_that_no_operator_computes_are_not_called_right(tmp_path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    weights = {"w": _normal(8, 8, seed=1)}
    graph = make_graph(tmp_path, nodes, {"x": [4, 8]}, {"y": FLOAT, "w": FLOAT}, weights)
    result = checked(graph, {"x": _normal(4, 8)}, "float16")
    assert (_whole(result).num_outputs, _whole(result).outputs_left) == (1, ("w",))
    assert list(result.not_compared.values()) == [("w",)]
    assert not _whole(result).says_nothing
    alone = make_graph(tmp_path, [], {"x": [4, 8]}, {"w": FLOAT}, weights)
    assert _whole(checked(alone, {"x": _normal(4, 8)}, "float16")).says_nothing


def test_integers_are_told_that_they_must_be_equal(tmp_path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "three"], ["a"], "scale"),
        helper.make_node("Greater", ["a", "bound"], ["is_more"], "more"),
        helper.make_node("Cast", ["is_more"], ["ones"], "cast", to=INT64),
        helper.make_node("ReduceSum", ["ones"], ["y"], "count", keepdims=0),
    ]
    weights = {"three": np.array(3, np.float32), "bound": np.array(0.5, np.float32)}
    graph = make_graph(tmp_path, nodes, {"x": [8]}, {"y": INT64}, weights)
    result = checked(graph, {"x": np.ones(8, np.float32)}, "float16", {"a": lambda values: values / 8})
    texts = {finding.tensor: finding.text for finding in result.findings}
    assert texts["y"] == "is off by up to 8, 1 of the largest magnitude; allowed 0, as integers"


def test_a_rounding_that_is_amplified_is_wrong_end_to_end(tmp_path) -> None:
    """Each operator is right; the difference of two large numbers is not what it should be."""
    nodes = [
        helper.make_node("Add", ["x", "large"], ["a"], "lift"),
        helper.make_node("Sub", ["a", "large"], ["y"], "drop"),
    ]
    graph = make_graph(tmp_path, nodes, {"x": [64]}, {"y": FLOAT}, {"large": np.array(1000, np.float32)})
    result = checked(graph, {"x": _normal(64)}, "float16")
    assert _verdicts(result) == (False, True, 1)
    (finding,) = result.findings
    assert (finding.tensor, finding.operator) == ("y", "Sub drop")
    assert finding.cause.startswith("fp16 rounding, from ")
    assert (result.first_divergence, _whole(result).first_divergence) == ("", "y")
    assert not result.is_passed


@pytest.mark.parametrize(("factor", "is_steady"), [(2e3, False), (20.0, True)])
def test_inputs_that_decide_nothing_are_told(factor: float, is_steady: bool, tmp_path) -> None:
    """A sine of huge numbers moves as a whole if its input does by a hair; wrong it is either way."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"], "grow"),
        helper.make_node("Sin", ["a"], ["y"], "turn"),
    ]
    graph = make_graph(tmp_path, nodes, {"x": [64]}, {"y": FLOAT}, {"k": np.array(factor, np.float32)})
    result = checked(graph, {"x": 10 * _normal(64)}, "float16")
    assert not _verdicts(result)[0]
    assert all(("changed by a millionth" in finding.cause) != is_steady for finding in result.findings)


@pytest.mark.parametrize(("factor", "is_steady"), [(2e3, False), (20.0, True)])
def test_tokens_that_decide_nothing_are_told(factor: float, is_steady: bool, tmp_path) -> None:
    """Integers do not move; the rows that they choose do."""
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["r"], "look up"),
        helper.make_node("Mul", ["r", "k"], ["a"], "grow"),
        helper.make_node("Sin", ["a"], ["y"], "turn"),
    ]
    weights = {"k": np.array(factor, np.float32), "table": 10 * _normal(9, 4)}
    graph = make_graph(tmp_path, nodes, {"x": [64]}, {"y": FLOAT}, weights, {"x"})
    result = checked(graph, {"x": np.arange(64) % 9}, "float16")
    assert not _verdicts(result)[0]
    assert all(("changed by a millionth" in finding.cause) != is_steady for finding in result.findings)


def test_an_overflow_is_named_where_it_happens(tmp_path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["big"], "grow"),
        helper.make_node("Sub", ["big", "big"], ["y"], "difference"),
    ]
    graph = make_graph(tmp_path, nodes, {"x": [8]}, {"y": FLOAT}, {"k": np.array(1e5, np.float32)})
    result = checked(graph, {"x": np.full(8, 1.5, np.float32)}, "float16")
    assert _whole(result).num_failed == 1
    assert _whole(result).classes["infinite or NaN"] == 2
    finding = next(each for each in result.findings if each.tensor == "y")
    assert finding.operator == "Mul grow"
    assert finding.cause == "overflow of fp16's range: big reaches 1.5e+05, fp16 ends at 65504"


def test_an_infinity_that_ends_as_it_should_is_counted_only(tmp_path) -> None:
    """Masks overflow fp16 in many models, and are right."""
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["masked"], "mask"),
        helper.make_node("Softmax", ["masked"], ["y"], "softmax", axis=-1),
    ]
    mask = np.array([0, 0, -3.4e38, 0], np.float32)
    graph = make_graph(tmp_path, nodes, {"x": [2, 4]}, {"y": FLOAT}, {"mask": mask})
    result = checked(graph, {"x": _normal(2, 4)}, "float16")
    assert _verdicts(result) == (True, True, 0)
    assert _whole(result).classes["infinite or NaN"] == 1


def test_a_nan_inside_fails_even_if_the_outputs_are_right(tmp_path) -> None:
    nodes = [helper.make_node("Abs", ["x"], ["a"], "abs"), helper.make_node("Relu", ["x"], ["y"], "relu")]
    graph = make_graph(tmp_path, nodes, {"x": [8]}, {"y": FLOAT})
    result = checked(
        graph, {"x": _normal(8)}, changes={"a": lambda values: np.where(values > 0, np.nan, values)}
    )
    assert _verdicts(result) == (False, False, 1)


def test_a_wrong_operator_fails_per_operator(tmp_path) -> None:
    nodes = [helper.make_node("Abs", ["x"], ["a"], "abs"), helper.make_node("Sign", ["a"], ["y"], "sign")]
    graph = make_graph(tmp_path, nodes, {"x": [8]}, {"y": FLOAT})
    result = checked(graph, {"x": _normal(8)}, changes={"a": lambda values: values * np.float32(1.01)})
    assert _verdicts(result) == (True, False, 1)
    assert [(each.tensor, each.operator) for each in result.findings] == [("a", "Abs abs")]
    assert _single(result).classes == {"right": 1, "wrong": 1}


def test_another_class_fails_and_a_tie_does_not(tmp_path) -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"], "softmax", axis=-1),
    ]
    graph = make_graph(tmp_path, nodes, {"x": [2, 1, 3]}, {"y": FLOAT})

    def swap(values: np.ndarray) -> np.ndarray:
        return values[:, ::-1]

    loose = Tolerance(10.0, 10.0)
    x = np.array([[[0.0, 0.5, 0.51]], [[3.0, 1.0, 3.0 + 1e-7]]], np.float32)
    found = checked(
        graph,
        {"x": x},
        changes={"y": lambda v: v + np.array([[0, 0, -0.04], [0, 0, 0]], np.float32)},
        tolerance=loose,
    )
    assert _whole(found).num_failed == 1
    tie = np.array([[[1.0, 1.0 + 1e-7, 0.0]], [[2.0, 2.0, 0.0]]], np.float32)
    found = checked(graph, {"x": tie}, changes={"y": lambda v: v[:, [1, 0, 2]]}, tolerance=loose)
    assert _whole(found).num_failed == 0
    assert "1 rows of y rank another class first" in found.tolerance
    found = checked(graph, {"x": x}, changes={"y": swap}, tolerance=loose)
    assert _whole(found).num_failed == 1


@pytest.mark.parametrize(("kind", "is_found"), [("Conv", False), ("MatMul", True)])
def test_a_sum_has_classes_where_a_product_was_added(kind: str, is_found: bool, tmp_path) -> None:
    """The last axis of pictures are columns: which is the brightest of a dark row is no choice."""
    shapes = {"Conv": ((4, 4, 1, 1), [1, 4, 3, 4]), "MatMul": ((4, 4), [3, 4])}
    weights, shape = shapes[kind]
    nodes = [helper.make_node(kind, ["x", "w"], ["a"], "a"), helper.make_node("Add", ["x", "a"], ["y"], "y")]
    eye = np.eye(4, dtype=np.float32).reshape(weights)
    graph = make_graph(tmp_path, nodes, {"x": shape}, {"y": FLOAT}, {"w": eye})
    x = np.tile(np.array([0.01, 0.02, 0.03, 0.04], np.float32), int(np.prod(shape)) // 4).reshape(shape)
    x[..., 0, :] = 10

    def swap(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values[..., :1, :], values[..., 1:, ::-1]], -2)

    result = checked(graph, {"x": x}, "float16", {"y": swap}, Tolerance(10.0, 10.0))
    assert any("largest element" in finding.text for finding in result.findings) == is_found


@pytest.mark.parametrize(("steps", "is_right"), [(1, True), (2, False)])
def test_a_step_of_8_bits_is_no_error(steps: int, is_right: bool, tmp_path) -> None:
    """Fourteen steps are all that the values use, so that one is 7 % of the largest."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], "q"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], "d"),
        helper.make_node("Transpose", ["d"], ["y"], "y"),
    ]
    weights = {"scale": np.array(0.05, np.float32), "zero": np.array(0, np.int8)}
    graph = make_graph(tmp_path, nodes, {"x": [2, 4]}, {"y": FLOAT}, weights)
    x = np.linspace(-0.7, 0.7, 8, dtype=np.float32).reshape(2, 4)
    off = np.float32(0.05 * steps)
    result = checked(graph, {"x": x}, changes={"d": lambda values: values + off})
    assert (_whole(result).num_failed == 0) == is_right
    assert "or 0.05 of a step of 8 bits" in _whole(result).rule


@pytest.mark.parametrize(("steps", "is_right"), [(1, True), (2, False)])
def test_classes_a_step_of_8_bits_apart_are_a_tie(steps: int, is_right: bool, tmp_path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "a"),
        helper.make_node("QuantizeLinear", ["a", "scale", "zero"], ["q"], "q"),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], "y"),
    ]
    weights = {
        "scale": np.array(0.05, np.float32),
        "zero": np.array(0, np.int8),
        "w": np.eye(2, dtype=np.float32),
    }
    graph = make_graph(tmp_path, nodes, {"x": [1, 2]}, {"y": FLOAT}, weights)
    x = np.array([[0.7, 0.7 - 0.05 * steps]], np.float32)
    swapped = checked(graph, {"x": x}, changes={"y": lambda values: values[:, ::-1]})
    assert (_whole(swapped).num_failed == 0) == is_right


def test_choices_between_close_values_may_differ(tmp_path) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("ArgMax", ["e"], ["top"], "top", axis=0, keepdims=0),
        helper.make_node("Less", ["e", "limit"], ["small"], "less"),
    ]
    graph = make_graph(
        tmp_path, nodes, {"x": [4]}, {"top": INT64, "small": BOOL}, {"limit": np.array(1.0, np.float32)}
    )
    x = np.array([1.0, 1.0001, 0.00001, -1.0], np.float32)
    assert checked(graph, {"x": x}, "float16").is_passed
    clear = checked(
        graph, {"x": np.array([1.0, 2.0, 0.5, -1.0], np.float32)}, changes={"top": lambda v: v * 0}
    )
    assert "top" in {each.tensor for each in clear.findings}
    flipped = checked(graph, {"x": x}, changes={"small": lambda v: ~v})
    assert "small" in {each.tensor for each in flipped.findings}


def test_a_coarse_reference_is_not_held_against_the_machine(tmp_path) -> None:
    """What float64 says decides: ONNX Runtime's Sigmoid is off by more than a rounding."""
    graph = make_graph(
        tmp_path, [helper.make_node("Sigmoid", ["x"], ["y"], "s")], {"x": [4001]}, {"y": FLOAT}
    )
    x = np.linspace(-10, 10, 4001, dtype=np.float32)
    right = (1 / (1 + np.exp(-x.astype(np.float64)))).astype(np.float32)
    strict = Tolerance(2.0**-23, 0.0)
    found = checked(graph, {"x": x}, changes={"y": lambda values: right}, tolerance=strict)
    assert found.num_failed == 0
    assert "right against float64, where the reference is the coarser one" in _single(found).classes
    wrong = checked(
        graph, {"x": x}, changes={"y": lambda values: right * np.float32(1.00001)}, tolerance=strict
    )
    assert wrong.num_failed == 1


def test_what_float32_itself_cannot_decide_is_no_error(tmp_path) -> None:
    """The reference loses as many digits as the machine, in another way."""
    nodes = [
        helper.make_node("Exp", ["x"], ["e"], "exp"),
        helper.make_node("Add", ["e", "large"], ["a"], "lift"),
        helper.make_node("Sub", ["a", "large"], ["y"], "drop"),
    ]
    graph = make_graph(tmp_path, nodes, {"x": [64]}, {"y": FLOAT}, {"large": np.array(1e5, np.float32)})
    x = _normal(64)
    step = np.float32(2.0**-7)
    result = checked(
        graph, {"x": x}, changes={"a": lambda values: values + step}, tolerance=Tolerance(1e-6, 0)
    )
    assert result.is_passed
    assert _whole(result).classes["as far off as the reference is from float64"] == 1
    further = checked(
        graph, {"x": x}, changes={"a": lambda values: values + 8 * step}, tolerance=Tolerance(1e-6, 0)
    )
    assert _whole(further).num_failed == 1


@pytest.mark.parametrize(("away", "is_right"), [(1, True), (40, False)])
def test_what_a_large_sum_loses_before_a_fused_operator_is_no_error_of_the_machine(
    tmp_path, away: float, is_right: bool
) -> None:
    """The sum is not held, so that the function behind it is judged with all that float32 lost in the sum."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["l"], "product"),
        helper.make_node("Sigmoid", ["l"], ["y"], "s"),
    ]
    rng = np.random.default_rng(1)
    weights = rng.standard_normal((256, 8)).astype(np.float32)
    graph = make_graph(tmp_path, nodes, {"x": [16, 256]}, {"y": FLOAT}, {"w": weights})
    x = (rng.standard_normal((16, 256)) * 1e3).astype(np.float32)
    x -= (x @ weights @ np.linalg.pinv(weights)).astype(np.float32)
    exact = x.astype(np.float64) @ weights.astype(np.float64)
    lost = np.abs(x @ weights - exact).max()
    moved = (1 / (1 + np.exp(-(exact + away * lost)))).astype(np.float32)
    result = checked(
        graph, {"x": x}, changes={"y": lambda _: moved}, tolerance=Tolerance(1e-6, 1e-6), fused={"l"}
    )
    assert (result.num_failed == 0) == is_right
    assert ("as far off as the reference is from float64" in _single(result).classes) == is_right


def _head(tmp_path, op_type: str, logits: np.ndarray, off: float) -> CheckResult:
    """Logits that are off by a share of their magnitude, and a function behind them."""
    nodes = [helper.make_node("Add", ["x", "zero"], ["l"], "add"), helper.make_node(op_type, ["l"], ["y"])]
    graph = make_graph(
        tmp_path, nodes, {"x": list(logits.shape)}, {"y": FLOAT}, {"zero": np.zeros(1, np.float32)}
    )
    spoiled = {"l": lambda values: values + np.float32(off * np.abs(logits).max())}
    return checked(graph, {"x": logits}, "float16", spoiled)


def test_a_sigmoid_may_be_off_by_what_it_makes_of_its_input(tmp_path) -> None:
    """exp(-9.5) is off by 2.4 % where -9.5 is off by 0.25 %: no more than the logits may be."""
    logits = np.array([[-9.5, -9.0]], np.float32)
    allowed = 8 * 2.0**-11
    assert not _whole(_head(tmp_path, "Sigmoid", logits, 0.7 * allowed)).num_failed
    assert _whole(_head(tmp_path, "Sigmoid", logits, 4 * allowed)).num_failed


def test_saturation_excuses_nothing_where_a_function_is_steep(tmp_path) -> None:
    nodes = [helper.make_node("Sigmoid", ["x"], ["y"], "gate")]
    graph = make_graph(tmp_path, nodes, {"x": [1, 4]}, {"y": FLOAT})
    spoiled = {"y": lambda values: values + np.float32(0.02)}
    given = {"x": np.array([[-8, 0, 0.5, 1]], np.float32)}
    assert _whole(checked(graph, given, "float16", spoiled)).num_failed
    small = {"y": lambda values: values * np.array([10, 1, 1, 1], np.float32)}
    assert not _whole(checked(graph, given, "float16", small)).num_failed  # 0.004 of the largest


def test_nan_is_reported_where_it_begins_and_where_it_ends(tmp_path) -> None:
    nodes = [helper.make_node("Relu", [f"t{n}"], [f"t{n + 1}"], f"relu{n}") for n in range(6)]
    graph = make_graph(tmp_path, nodes, {"t0": [1, 4]}, {"t6": FLOAT})
    spoiled = {"t2": lambda values: values * np.float32("nan")}
    result = checked(graph, {"t0": _normal(1, 4)}, "float32", spoiled)
    assert [finding.tensor for finding in result.findings] == ["t2", "t6"]


def test_nan_that_spreads_within_an_operator_is_told_from_another_function(tmp_path) -> None:
    """A machine that moves elements by products with ones and zeros makes NaN of all beside one."""
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["big"], "grow"),
        helper.make_node("Sub", ["big", "big"], ["a"], "difference"),
        helper.make_node("Gather", ["a", "places"], ["y"], "pick", axis=0),
    ]
    weights = {"k": np.array(1e5, np.float32), "places": np.array([0, 3, 2], np.int64)}
    graph = make_graph(tmp_path, nodes, {"x": [4]}, {"y": FLOAT}, weights)
    values = np.array([1.5, 0, 0, 0], np.float32)
    cause = "what is infinite or NaN in a reaches more elements than in the reference's operator"
    for spoiled, expected in (
        ({"y": lambda made: np.where(np.arange(3) > 0, np.float32("nan"), made)}, cause),
        (
            {"a": np.zeros_like, "y": lambda made: made + np.float32(1)},
            "the machine's operator computes something else than the reference's",
        ),
    ):
        result = checked(graph, {"x": values}, "float16", spoiled)
        assert expected in [finding.cause for finding in result.findings if finding.tensor == "y"]
        assert _single(result).num_failed >= 1


def test_sums_that_the_reference_saturates_are_no_error(tmp_path) -> None:
    """Processors without VNNI lose what does not fit 16 bits; the machine does not."""
    weights = np.full((64, 32), 127, np.int8)
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], "narrow", to=onnx.TensorProto.UINT8),
        helper.make_node("MatMulInteger", ["a", "w"], ["y"], "product"),
    ]
    graph = make_graph(tmp_path, nodes, {"x": [4, 64]}, {"y": onnx.TensorProto.INT32}, {"w": weights})
    given = {"x": np.full((4, 64), 255, np.float32)}
    right = np.full((4, 32), 255 * 127 * 64, np.int32)
    assert _single(checked(graph, given, "float32", {"y": lambda _: right})).num_failed == 0
    assert _single(checked(graph, given, "float32", {"y": lambda _: right - 1000})).num_failed == 1
