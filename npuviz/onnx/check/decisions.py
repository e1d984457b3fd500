"""Judges discrete results (classes, indices, comparisons), which rounding may decide either way if they are
close."""

import math

import numpy as np

from npuviz.program.graph import Graph, Node

_VIEWS = frozenset(
    ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Cast", "QuantizeLinear", "DequantizeLinear")
)
_PRODUCTS = frozenset(("Gemm", "MatMul", "QLinearMatMul", "MatMulInteger"))
_CHOOSING = frozenset(("ArgMax", "ArgMin", "TopK"))
_COMPARING = frozenset(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"))
_ROUNDING = {"Cast": np.trunc, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint}


def holds_scores(graph: Graph, tensor: int) -> bool:
    """Return whether the last axis of a tensor holds scores of classes: a softmax along it, or the result of
    a matrix product, possibly behind operators that only change shape or type."""
    found = graph.tensors[tensor]
    if len(found.shape) < 2 or found.shape[-1] < 2:
        return False
    size = found.shape[-1]
    while found.producer >= 0:
        node = graph.nodes[found.producer]
        if found.shape[-1:] != (size,):
            return False
        if node.op_type in ("Softmax", "LogSoftmax"):
            axis = int(node.attributes.get("axis", -1 if node.opset >= 13 else 1))
            return axis in (-1, len(found.shape) - 1)
        if node.op_type == "Add":
            return any(_is_product(graph, index, size) for index in node.inputs)
        if node.op_type not in _VIEWS:
            return node.op_type in _PRODUCTS
        found = graph.tensors[node.inputs[0]]
    return False


def _is_product(graph: Graph, tensor: int, size: int) -> bool:
    """Return whether a matrix product made a tensor whose last axis has this size, possibly behind operators
    that only change shape or type."""
    while graph.tensors[tensor].producer >= 0 and graph.tensors[tensor].shape[-1:] == (size,):
        node = graph.nodes[graph.tensors[tensor].producer]
        if node.op_type not in _VIEWS:
            return node.op_type in _PRODUCTS
        tensor = node.inputs[0]
    return False


def other_classes(
    found: np.ndarray, reference: np.ndarray, share: float, least: float = 0.0
) -> tuple[list[int], int]:
    """Find rows whose largest element is at another index than in the reference.

    Returns the rows (index over all axes but the last) where that is wrong, and the number of further rows
    where the reference's margin is at most `share` of the row's magnitude, or `least`, so that either may be
    right.

    found, reference  of the same shape
    """
    a = found.reshape(-1, reference.shape[-1]).astype(np.float64)
    b = reference.reshape(-1, reference.shape[-1]).astype(np.float64)
    rows = np.arange(len(b))
    chosen, wanted = a.argmax(1), b.argmax(1)
    with np.errstate(invalid="ignore"):
        margin = b[rows, wanted] - b[rows, chosen]
        finite = np.where(np.isfinite(b), np.abs(b), 0).max(1)
        is_other = (chosen != wanted) & (margin > 0)
        is_clear = is_other & ~(margin <= np.maximum(share * finite, least))
    return np.flatnonzero(is_clear).tolist(), int(is_other.sum() - is_clear.sum())


def is_close_call(
    graph: Graph, tensor: int, found: np.ndarray, inputs: list[np.ndarray], share: float
) -> bool:
    """Return whether an integer or boolean result that differs from the reference could result from other
    roundings of the reference's inputs.

    found   values of the machine, in the tensor's shape
    inputs  the reference's inputs of the tensor's node;  share  their allowed error, relative to their
    magnitude
    """
    node = graph.nodes[graph.tensors[tensor].producer]
    if any(np.asarray(each).dtype.kind not in "biuf" for each in inputs[:2]):
        return False
    values = [np.asarray(each, np.float64) for each in inputs[:2]]
    if not values or not share:
        return False
    allowed = [share * float(np.abs(each[np.isfinite(each)]).max(initial=0)) for each in values]
    if node.op_type in _CHOOSING:
        return _chooses_alike(node, values[0], found, allowed[0])
    if node.op_type in _COMPARING and len(values) == 2:
        close = np.abs(values[0] - values[1]) <= sum(allowed)
        return bool(np.broadcast_to(close, found.shape)[_differs(node.op_type, values, found)].all())
    rounding = _ROUNDING.get(node.op_type)
    if rounding is None or values[0].shape != found.shape:
        return False
    low, high = rounding(values[0] - allowed[0]), rounding(values[0] + allowed[0])
    return bool(((found >= low) & (found <= high)).all())


def _chooses_alike(node: Node, values: np.ndarray, found: np.ndarray, allowed: float) -> bool:
    """Return whether the chosen elements are as large (small) as the best ones, within the allowed error."""
    if not values.ndim:
        return True
    is_sorted = node.op_type == "TopK"
    axis = int(node.attributes.get("axis", -1 if is_sorted else 0)) % values.ndim
    is_largest = node.op_type == "ArgMax" or (is_sorted and bool(node.attributes.get("largest", 1)))
    order = np.sort(-values if is_largest else values, axis)
    count = found.shape[axis] if is_sorted else 1
    best = np.take(-order if is_largest else order, range(min(count, values.shape[axis])), axis)
    if best.size != found.size or found.min(initial=0) < 0 or found.max(initial=0) >= values.shape[axis]:
        return False
    chosen = np.take_along_axis(values, found.reshape(best.shape).astype(np.int64), axis)
    return bool((np.abs(chosen - best) <= allowed).all())


def _differs(op_type: str, values: list[np.ndarray], found: np.ndarray) -> np.ndarray:
    compare = {
        "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
        "GreaterOrEqual": np.greater_equal, "Equal": np.equal,
    }[op_type]  # fmt: skip
    return compare(values[0], values[1]) != found


def row_text(row: int, found: np.ndarray, reference: np.ndarray) -> str:
    """Describe which element of a row is the largest, and which should be."""
    size = reference.shape[-1]
    chosen = int(found.reshape(-1, size)[row].astype(np.float64).argmax())
    wanted = int(reference.reshape(-1, size)[row].astype(np.float64).argmax())
    where = "" if math.prod(reference.shape[:-1]) == 1 else f" of row {row}"
    return f"the largest element{where} is number {chosen}, the reference's is number {wanted}"
