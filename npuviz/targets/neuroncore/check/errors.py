"""Allowed rounding errors of a machine: tolerances by type, and the range of fp16."""

from collections.abc import Callable
from functools import partial

import numpy as np

from npuviz.onnx.check import errors
from npuviz.onnx.semantics.operators import is_requantized
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.values.host import as_type

TOLERANCES = {
    "float32": errors.Tolerance(1e-3, 1e-4),
    "float16": errors.Tolerance(1e-2, 2e-2, smallest=2.0**-24),
    "bfloat16": errors.Tolerance(5e-2, 1e-1),
    "float8": errors.Tolerance(5e-1, 5e-1),
}
"""Tolerances by the coarsest type on the way to a tensor; the first of float32 is that of ONNX's tests."""

_LARGEST = {"float16": 65504.0}
"""Largest number of types that a model's values may exceed; they become infinite then."""


def type_of(graph: Graph, compute: str, tensor: int) -> str:
    """Return the type (key of TOLERANCES) in which a tensor is computed and stored; "" for exact integers.

    compute  the type of intermediate floats
    """
    dtype = graph.tensors[tensor].dtype
    if dtype in ("float32", "float64"):
        return compute
    if dtype.startswith(("float8", "float6", "float4")):
        return "float8"
    return dtype if dtype in TOLERANCES else ""


def rules_of(graph: Graph, compute: str) -> Callable[[int], errors.Rule]:
    """Return a function from a tensor to its rule; compute: the type of intermediate floats."""
    types = errors.coarsest_types(graph, list(TOLERANCES), partial(type_of, graph, compute))

    def rule_of(tensor: int) -> errors.Rule:
        dtype = types[tensor]
        if dtype:
            return lambda found, expected: _float_errors(found, expected, dtype)
        steps = 1 if is_requantized(graph, tensor) else 0
        text = errors.REQUANTIZED if steps else errors.INTEGERS
        return lambda found, expected: errors.integer_errors(found, expected, steps, text)

    return rule_of


def _float_errors(found: np.ndarray, exact: np.ndarray, dtype: str) -> errors.Errors:
    """Return the errors of floats in HBM's type, allowed by the coarsest type (key of TOLERANCES) on the
    way.
    """
    # Expected values that HBM's type cannot hold are cast to it.
    expected = as_type(exact, found.dtype) if found.dtype.kind not in "iub" else exact
    largest = _LARGEST.get(dtype)
    if largest is not None:
        # Near the largest number of a type, an allowed error decides whether a value is infinite.
        beyond = (np.isinf(found) | np.isinf(expected)) & np.isfinite(exact)
        if beyond.any():
            found = np.where(beyond, np.clip(found, -largest, largest), found)
            expected = np.where(beyond, np.clip(expected, -largest, largest), expected)
    tolerance = TOLERANCES[dtype]
    return errors.float_errors(found, expected, tolerance, tolerance.text(dtype))
