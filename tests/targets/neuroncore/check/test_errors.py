# Which differences between the machine and the reference count, at the edges of the number types.
import numpy as np

from npuviz.targets.neuroncore.check.errors import float_errors, integer_errors


def _float16(found: list[float], exact: list[float]) -> list[bool]:
    reference = np.array(exact, np.float32)
    with np.errstate(over="ignore"):
        held, expected = np.array(found, np.float16), reference.astype(np.float16)
    return float_errors(held, expected, reference, "float16")[0].tolist()


def test_an_allowed_error_may_decide_what_is_infinite() -> None:
    assert _float16([np.inf, 65000.0, np.inf], [65400.0, 65600.0, 70000.0]) == [False] * 3


def test_infinities_far_from_the_range_are_wrong() -> None:
    assert _float16([np.inf, 60000.0], [1.0, 60000.0]) == [True, False]
    assert _float16([1.0, 60000.0], [70000.0, 60000.0]) == [True, False]
    assert _float16([-np.inf, 60000.0], [65500.0, 60000.0]) == [True, False]


def test_real_infinities_are_compared_exactly() -> None:
    assert _float16([65504.0, np.inf, -np.inf], [np.inf, np.inf, np.inf]) == [True, False, True]


def test_the_largest_errors_are_told() -> None:
    found, expected = np.array([1.0, 2.5], np.float32), np.array([1.0, 2.0], np.float32)
    bad, absolute, relative = float_errors(found, expected, expected, "float32")
    assert (bad.tolist(), absolute, relative) == ([False, True], 0.5, 0.25)
    assert float_errors(np.array([np.nan], np.float32), expected[:1], expected[:1], "float32")[1] == np.inf


def test_signalling_nans_are_values_like_others() -> None:
    found = np.array([0x7F800001], np.uint32).view(np.float32)
    bad, absolute, _ = float_errors(found, found, found, "float32")
    assert (bad.tolist(), absolute) == ([False], 0.0)


def test_integers_are_exact_or_one_step_off() -> None:
    found, expected = np.array([1, 2, 3], np.int8), np.array([1, 3, 3], np.int8)
    assert integer_errors(found, expected, 0)[0].tolist() == [False, True, False]
    assert not integer_errors(found, expected, 1)[0].any()
