"""Folds Concat, Slice, Squeeze, Transpose and Unsqueeze of weights.

Some converters store the weights of a recurrent operator in pieces or in another order. Machines that need
constant weights need them whole, and no machine should move them in every run.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from npuviz.onnx.draft import Draft

MAX_BYTES = 64 << 20
"""Most bytes of the inputs of a folded node, since these may have other readers and stay in memory too."""


def moved_weights(draft: Draft) -> dict[str, np.ndarray]:
    """Compute the results of Concat, Slice, Squeeze, Transpose and Unsqueeze of weights, or of such
    results."""
    found: dict[str, np.ndarray] = {}
    for node in draft.proto.graph.node:
        make = _MOVES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        names = [name for name in node.input if name]
        if make is None or not all(name in draft.weights or name in found for name in names):
            continue
        given = [found[name] if name in found else draft.weights[name] for name in names]
        if len(names) < len(node.input) or sum(each.nbytes for each in given) > MAX_BYTES:
            continue
        attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
        try:
            found[node.output[0]] = make(given, attributes)
        except (ValueError, IndexError, TypeError):
            continue  # an invalid node: ONNX Runtime reports the error
    return found


Attributes = Mapping[str, object]


def _numbers(given: Sequence[np.ndarray], place: int, attributes: Attributes, name: str) -> list[int] | None:
    """Return integers that are an input in newer operator sets and an attribute in older ones; None if
    absent."""
    if place < len(given):
        return [int(value) for value in given[place].reshape(-1)]
    value = attributes.get(name)
    return [int(each) for each in value] if isinstance(value, list) else None


def _concat(given: Sequence[np.ndarray], attributes: Attributes) -> np.ndarray:
    return np.concatenate(given, int(str(attributes["axis"])))


def _transpose(given: Sequence[np.ndarray], attributes: Attributes) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(given[0], _numbers(given, 1, attributes, "perm")))


def _squeeze(given: Sequence[np.ndarray], attributes: Attributes) -> np.ndarray:
    axes = _numbers(given, 1, attributes, "axes")
    return np.squeeze(given[0], None if axes is None else tuple(axes))


def _unsqueeze(given: Sequence[np.ndarray], attributes: Attributes) -> np.ndarray:
    return np.expand_dims(given[0], tuple(_numbers(given, 1, attributes, "axes") or ()))


def _slice(given: Sequence[np.ndarray], attributes: Attributes) -> np.ndarray:
    """Compute a Slice with positive steps. Raises ValueError for others."""
    names = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (_numbers(given, 1 + i, attributes, name) for i, name in enumerate(names))
    if starts is None or ends is None:
        raise ValueError("a Slice without limits")
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    if min(steps, default=1) < 1:
        raise ValueError("a Slice that runs backwards")
    cut = [slice(None)] * given[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[axis] = slice(start, end, step)
    return np.ascontiguousarray(given[0][tuple(cut)])


_MOVES: Mapping[str, Callable[[Sequence[np.ndarray], Attributes], np.ndarray]] = {
    "Concat": _concat,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
