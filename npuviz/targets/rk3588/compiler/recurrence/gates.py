"""Lay out the gates of a recurrent layer as kernels, and look them up in one pair of tables.

LE is the logistic function around 0; LO the hyperbolic tangent, turned round: what it finds at SHIFT + x is
tanh(-x). Where they face each other both are 1, so that whatever lies between is right by either. A table is
filled once for all steps, and each task looks up both functions, by channel.
What the inputs give is held within RANGE and what the state gives is known from its weights, so that no sum
leaves its half; a function that is held there has long been level.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import Attributes
from npuviz.onnx.semantics.recurrence import Recurrence
from npuviz.targets.rk3588.compiler.activation_functions import activation_function
from npuviz.targets.rk3588.compiler.lookup_table import (
    ActivationTable,
    Function,
    Piece,
    half_table,
    two_functions,
)
from npuviz.targets.rk3588.spec import RknnSpec

RANGE = 500.0
"""Largest magnitude of what the inputs give a gate: beyond, logistic function and tangent are level for any
sum with a state."""
SHIFT = 1024
"""Where the tangent lies in the table: sums are fp32, whose steps are 1.2e-4 there."""
MOST_OF_STATE = 250.0
"""Largest sum of the magnitudes of a gate's weights of the state: hidden values are between -1 and 1; twice
that (a state that a model is given) still leaves sums in their halves."""
_USUAL: Mapping[str, tuple[str, ...]] = {"GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}
_SPELLING = {"leakyrelu": "LeakyRelu", "hardsigmoid": "HardSigmoid", "thresholdedrelu": "ThresholdedRelu"}


@cache
def gate_table() -> ActivationTable:
    """Return the tables of GRU and LSTM."""
    low = Piece(lambda x: 0.5 + 0.5 * np.tanh(0.5 * x), -16, 16)
    high = Piece(lambda x: np.tanh(SHIFT - x), SHIFT - 8, SHIFT + 8)
    return two_functions(low, high)


@cache
def rnn_table(kind: str, alpha: float | None, beta: float | None) -> ActivationTable:
    """Return the table of an RNN's activation. Raises CannotLower if none is known."""
    given = {name: value for name, value in (("alpha", alpha), ("beta", beta)) if value is not None}
    known: dict[str, tuple[Function, int, int]] = {"tanh": (np.tanh, -8, 8)}
    found = known.get(kind)
    if found is None:
        name = _SPELLING.get(kind, kind.capitalize())
        other = activation_function(name, Attributes(name, given))
        if other is None:
            raise CannotLower(f"an activation {kind}", kind, "Tanh, Relu or Sigmoid")
        found = other.function, other.low, other.high
    return half_table(*found)


@dataclass(frozen=True)
class Gates:
    """The gates of a layer, by their numbers in the operator, as kernels of one product.

    order  gates in their order; some may be there twice
    """

    form: Recurrence
    order: tuple[int, ...]

    @property
    def width(self) -> int:
        """Channels of a gate, filled up."""
        return aligned(self.form.hidden, packing("float16").kernels)

    @property
    def kernels(self) -> int:
        """Kernels of one direction, those included that only fill up."""
        return len(self.order) * self.width

    @property
    def tangent(self) -> int | None:
        """The gate whose function is the hyperbolic tangent, None if there is none."""
        return {"GRU": 2, "LSTM": 3}.get(self.form.kind)

    def first(self, gate: int) -> int:
        """Return the first kernel of a gate."""
        return self.order.index(gate) * self.width

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of gates (all hidden values of one gate after the other) at their kernels.

        Their sign is that which the table wants: it finds tanh(-x), of which a GRU takes the negative.
        """
        full = np.zeros((self.kernels, *values.shape[1:]), np.float32)
        for place, gate in enumerate(self.order):
            is_turned = gate == self.tangent and self.form.kind == "LSTM"
            first = place * self.width
            full[first : first + self.form.hidden] = self.form.gate(values, gate) * (-1) ** is_turned
        return full


def gates_of(form: Recurrence, spec: RknnSpec) -> Gates:
    """Return the kernels of a layer.

    A GRU begins with the gate of its new values, whose weights a task can keep in CBUF without the others. Of
    an LSTM for one example the input gate is there twice, if CBUF has room for that (`single_lstm_steps`).
    """
    if form.kind == "LSTM" and form.batch == 1:
        found = Gates(form, (3, 2, 0, 0, 1))
        if fits(found, spec):
            return found
    return Gates(form, {"RNN": (0,), "GRU": (2, 0, 1), "LSTM": (1, 0, 2, 3)}[form.kind])


def fits(gates: Gates, spec: RknnSpec) -> bool:
    """Return whether all weights of the state stay in CBUF from step to step, beside a batch of states."""
    form, size = gates.form, spec.cbuf_bank_bytes
    row = 2 * aligned(form.hidden, packing("float16").channels)
    return row * gates.kernels <= (spec.cbuf_banks - -(-row * form.batch // size)) * size


def refuse_functions(form: Recurrence) -> None:
    """Raise CannotLower for activations, or weights of the state, that the table of gates is not for."""
    wanted = _USUAL.get(form.kind)
    if wanted is None:
        return
    if any(tuple(form.activations(n)) != wanted for n in range(form.directions)):
        chosen = ", ".join(form.activations(0))
        raise CannotLower("activations other than Sigmoid and Tanh", chosen, "the usual activations")
    sums = np.abs(form.again).sum(axis=2) + np.abs(form.bias[:, 1])
    if float(sums.max(initial=0)) > MOST_OF_STATE:
        found = f"{float(sums.max()):.0f}"
        limit = f"weights of a gate's state whose magnitudes are at most {MOST_OF_STATE:.0f} together"
        raise CannotLower("weights of the state that reach beyond the table", found, limit)
