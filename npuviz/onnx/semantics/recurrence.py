"""Reads an RNN, GRU or LSTM of the standard: sizes, weights by gate, activations and options."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Graph, Node

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_DEFAULTS = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}

ConstantOf = Callable[[int], np.ndarray | None]
"""Function: tensor -> its constant value, None if it is computed."""


@dataclass(frozen=True)
class Recurrence:
    """A recurrent node.

    steps, batch, features, hidden  sizes; is_batch_first  for layout 1
    weights, again  (directions, gates * hidden, features) of the input, (..., hidden) of the state
    bias     (directions, 2, gates * hidden): of the input, of the state
    names    functions of all directions in lower case;  alpha, beta  of those that have one, in their order
    resets_late  linear_before_reset of a GRU;  joins_gates  input_forget of an LSTM
    """

    kind: str
    steps: int
    batch: int
    features: int
    hidden: int
    directions: int
    direction: str
    weights: np.ndarray
    again: np.ndarray
    bias: np.ndarray
    names: tuple[str, ...]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    clip: float
    has_peepholes: bool
    has_lengths: bool
    is_batch_first: bool
    resets_late: bool
    joins_gates: bool

    def is_backward(self, number: int) -> bool:
        """Return whether a direction begins with the last step."""
        return number > 0 or self.direction == "reverse"

    def gate(self, values: np.ndarray, number: int) -> np.ndarray:
        """Return the rows of a gate, by its number in the operator."""
        return values[number * self.hidden : (number + 1) * self.hidden]

    def activations(self, number: int) -> tuple[str, ...]:
        """Return the names of the activations of a direction."""
        each = len(self.names) // self.directions
        return self.names[number * each : (number + 1) * each]

    def parameters(self, number: int) -> tuple[float | None, float | None]:
        """Return alpha and beta of the only activation of a direction of an RNN, None for defaults."""
        return tuple(values[number] if number < len(values) else None for values in (self.alpha, self.beta))  # type: ignore[return-value]


def recurrence_of(graph: Graph, node: Node, constant: ConstantOf) -> Recurrence:
    """Read a recurrent node. Raises CannotLower if weights are not constant, or their sizes do not fit."""
    kind, count = node.op_type, GATES[node.op_type]
    shape = graph.tensors[node.inputs[0]].shape
    inputs = [*node.inputs, *[-1] * 8][:8]
    held = [constant(tensor) if tensor >= 0 else None for tensor in inputs]
    weights, again = held[1], held[2]
    if weights is None or again is None or (inputs[3] >= 0 and held[3] is None):
        raise CannotLower("weights that only a run tells", change="constant weights")
    if not len(shape) == weights.ndim == again.ndim == 3:
        raise CannotLower("weights of other sizes", f"{weights.shape} and {again.shape} for {tuple(shape)}")
    given = attributes_of(node)
    is_batch_first = bool(node.attributes.get("layout", 0))
    batch, steps = shape[:2] if is_batch_first else shape[1::-1]
    directions, hidden = again.shape[0], again.shape[2]
    if weights.shape != (directions, count * hidden, shape[2]) or again.shape[1] != count * hidden:
        raise CannotLower("weights of other sizes", f"{weights.shape} and {again.shape}")
    bias = np.zeros((directions, 2 * count * hidden)) if held[3] is None else held[3]
    names = tuple(_text(name).lower() for name in node.attributes.get("activations") or ())
    lengths = held[4]
    has_lengths = inputs[4] >= 0 and (lengths is None or bool(np.any(lengths != steps)))
    peepholes = held[7] if kind == "LSTM" else None
    return Recurrence(
        kind, steps, batch, shape[2], hidden, directions,
        given.text("direction", "forward"), weights, again, bias.reshape(directions, 2, -1),
        names or _DEFAULTS[kind] * directions,
        _reals(node.attributes.get("activation_alpha")), _reals(node.attributes.get("activation_beta")),
        float(node.attributes.get("clip") or 0),
        kind == "LSTM" and inputs[7] >= 0 and (peepholes is None or bool(np.any(peepholes))),
        has_lengths, is_batch_first, bool(node.attributes.get("linear_before_reset", 0)),
        bool(node.attributes.get("input_forget", 0)),
    )  # fmt: skip


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _reals(values: Sequence[float] | None) -> tuple[float, ...]:
    return tuple(float(value) for value in values or ())
