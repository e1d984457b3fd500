"""Measures the errors of a machine's tensor against the reference, and finds the elements beyond the
tolerance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.onnx.check.blocks import blocks
from npuviz.program.graph import Graph

INTEGERS = "integers exactly"
REQUANTIZED = "requantised integers within one step"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed error of an element: a share of the element plus a share of the tensor's largest magnitude, but
    at least `least` (of an activation table) and `smallest` (the smallest number of the type above 0)."""

    of_element: float
    of_tensor: float
    least: float = 0.0
    smallest: float = 0.0

    def text(self, dtype: str) -> str:
        """Describe the tolerance for a type."""
        least = f", at least {self.least:.2g} of an activation table" if self.least else ""
        return (
            f"{dtype} {self.of_element:g} of the element + {self.of_tensor:g} of the largest magnitude{least}"
        )


FLOAT_LIMITS: dict[str, tuple[Tolerance, float]] = {
    "float32": (Tolerance(1e-4, 2e-5), 2e-5),
    "float16": (Tolerance(4e-3, 4e-3), 2e-3),
    "bfloat16": (Tolerance(2e-2, 2e-2), 1e-2),
    "float8": (Tolerance(2e-1, 2e-1), 1e-1),
}
"""What a program that a person wrote may be off by, per float type, coarsest last: errors of elements, and of
the whole tensor as relative L2.

Ref: the gates of NKIBench for float32 and bfloat16 (relative L2 2e-5, 1e-2). Assumed: the others, a few
roundings of the type.
"""


@dataclass(frozen=True, slots=True)
class Errors:
    """Wrong elements (flat bool), the largest error, the largest error relative to the largest magnitude, and
    the rule in words."""

    bad: np.ndarray
    absolute: float
    relative: float
    rule: str


Rule = Callable[[np.ndarray, np.ndarray], Errors]
"""Function that computes the errors of found values against expected ones, both flat."""


def integer_errors(found: np.ndarray, expected: np.ndarray, steps: int, rule: str) -> Errors:
    """Compute the errors of integers; `steps` is the allowed distance."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    distance = np.abs(a - b)
    bad = distance > steps if steps else found != expected
    return Errors(bad, *_largest(distance, float(np.abs(b).max(initial=0))), rule)


def float_errors(found: np.ndarray, expected: np.ndarray, tolerance: Tolerance | float, rule: str) -> Errors:
    """Compute the errors of floats. Values that are not finite must be equal.

    tolerance  a plain number is the absolute error allowed of every element
    """
    scale = max(_largest_finite(expected[part]) for part in blocks(expected.size))
    bad = np.zeros(expected.size, np.bool_)
    absolute = 0.0
    for part in blocks(expected.size):
        # Converting a signalling NaN warns; NaNs are handled below.
        with np.errstate(invalid="ignore"):
            a, b = found[part].astype(np.float64), expected[part].astype(np.float64)
            finite = np.isfinite(b)
            distance = np.abs(a - b)
            if isinstance(tolerance, Tolerance):
                allowed = tolerance.of_element * np.abs(b) + tolerance.of_tensor * scale
                allowed = np.maximum(allowed, max(tolerance.least, tolerance.smallest))
            else:
                allowed = tolerance
            # An infinite reference would allow any error.
            wrong = ~(finite & (distance <= allowed))
        bad[part] = wrong & ~((a == b) | (np.isnan(a) & np.isnan(b)))
        usable = finite & np.isfinite(a)
        if (finite & ~usable).any():
            absolute = float("inf")
        else:
            absolute = max(absolute, float(distance[usable].max(initial=0)))
    return Errors(bad, absolute, _as_share(absolute, scale), rule)


def _largest_finite(values: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        b = values.astype(np.float64)
    return float(np.abs(b[np.isfinite(b)]).max(initial=0))


def _largest(distance: np.ndarray, scale: float) -> tuple[float, float]:
    """Return the largest error, and the largest error relative to `scale`."""
    absolute = float(distance.max(initial=0))
    return absolute, _as_share(absolute, scale)


def _as_share(absolute: float, scale: float) -> float:
    return absolute / scale if scale else (float("inf") if absolute else 0.0)


def coarsest_types(graph: Graph, order: Sequence[str], type_of: Callable[[int], str]) -> list[str]:
    """Return for each tensor the coarsest float type among its ancestors and itself, "" for exact integers.

    order    float types, the finest first
    type_of  tensor -> its type, one of `order`, "" for exact integers
    """
    ranks = {"": -1, **{name: rank for rank, name in enumerate(order)}}
    own = [ranks[type_of(tensor.id)] for tensor in graph.tensors]
    found = list(own)
    for node in graph.nodes:
        before = [found[index] for index in node.inputs if index >= 0]
        for index in node.outputs:
            if index >= 0 and own[index] >= 0:
                found[index] = max(found[index], *before, 0)
    return ["" if rank < 0 else order[rank] for rank in found]
