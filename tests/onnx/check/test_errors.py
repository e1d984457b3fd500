# Which differences between the machine and the reference count, at the edges of the number types.
import numpy as np

from npuviz.onnx.check.errors import INTEGERS, Tolerance, coarsest_types, float_errors, integer_errors
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

TOLERANCE = Tolerance(1e-3, 1e-4)


def _bad(found: list[float], expected: list[float], tolerance: Tolerance | float = TOLERANCE) -> list[bool]:
    held, reference = np.array(found, np.float32), np.array(expected, np.float32)
    return float_errors(held, reference, tolerance, "").bad.tolist()


def test_the_share_of_the_element_and_of_the_tensor_add_up() -> None:
    assert _bad([1.0009, 1000.9], [1.0, 1000.0]) == [False, False]
    assert _bad([1.2, 1001.2], [1.0, 1000.0]) == [True, True]
    assert _bad([1.4, 1000.0], [1.0, 1000.0], 0.3) == [True, False]


def test_infinities_and_nan_are_right_only_when_equal() -> None:
    inf, nan = np.inf, np.nan
    assert _bad([inf, -inf, nan], [inf, -inf, nan]) == [False] * 3
    assert _bad([1.0, inf, 1.0], [inf, -inf, nan]) == [True] * 3
    assert _bad([inf, nan], [1.0, 1.0]) == [True, True]
    assert _bad([1.0], [inf], 0.5) == [True]


def test_what_a_type_cannot_hold_is_nothing() -> None:
    """Of a tensor whose numbers are all below the smallest of fp16, 0 is right."""
    half = Tolerance(1e-2, 2e-2, smallest=2.0**-24)
    assert _bad([0.0, 0.0], [1.1e-8, -5e-8], half) == [False, False]
    assert _bad([0.0, 1.0], [1e-7, 1.0], half) == [False, False]
    assert _bad([0.0], [1e-7], half) == [True]


def test_the_largest_errors_are_told() -> None:
    found, expected = np.array([1.0, 2.5], np.float32), np.array([1.0, 2.0], np.float32)
    errors = float_errors(found, expected, TOLERANCE, "rule")
    assert (errors.bad.tolist(), errors.absolute, errors.relative) == ([False, True], 0.5, 0.25)
    assert errors.rule == "rule"
    assert float_errors(np.array([np.nan], np.float32), expected[:1], TOLERANCE, "").absolute == np.inf


def test_signalling_nans_are_values_like_others() -> None:
    found = np.array([0x7F800001], np.uint32).view(np.float32)
    errors = float_errors(found, found, TOLERANCE, "")
    assert (errors.bad.tolist(), errors.absolute) == ([False], 0.0)


def test_integers_are_exact_or_one_step_off() -> None:
    found, expected = np.array([1, 2, 3], np.int8), np.array([1, 3, 3], np.int8)
    assert integer_errors(found, expected, 0, INTEGERS).bad.tolist() == [False, True, False]
    assert not integer_errors(found, expected, 1, INTEGERS).bad.any()
    large = np.array([1 << 60], np.int64)
    assert integer_errors(large + 1, large, 0, INTEGERS).bad.all()


def test_the_coarsest_type_on_the_way_counts() -> None:
    dtypes = ["float32", "float16", "float32", "int64", "float32"]
    tensors = tuple(
        Tensor(number, f"t{number}", (1,), dtype, "activation") for number, dtype in enumerate(dtypes)
    )
    nodes = tuple(Node(number, "", "Cast", "", (number,), (number + 1,)) for number in range(4))
    graph = Graph("g", nodes, tensors, (0,), (4,))
    found = coarsest_types(
        graph, ["float32", "float16"], lambda number: "" if number == 3 else dtypes[number]
    )
    assert found == ["float32", "float16", "float16", "", "float32"]
