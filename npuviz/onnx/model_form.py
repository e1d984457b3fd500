"""Describes in which form a machine wants its models."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import onnx

MIN_DYNAMIC_WEIGHTS = 3 << 19
"""Measured on NeuronCores, the operators around included: an LSTM with 786,432 weights a direction takes 1.8
times as long step by step as on the Host, one with 2,097,152 a 1.2th."""


GATES: Mapping[str, int] = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Recurrent operator -> gates of a step: so many times the hidden values are its weights' columns."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Sizes of a recurrent operator: `kind` as in `GATES`, elements of a step's input and hidden values."""

    kind: str
    steps: int
    batch: int
    inputs: int
    hidden: int


@dataclass(frozen=True)
class ModelForm:
    """How `read_model` writes a model for a machine.

    whole            node -> whether it stays as it is; other nodes that `onnx.passes.contrib` knows are
    written with
    plainer operators; None: as `only_recurrent` there
    float_weights    whether weights behind DequantizeLinear are stored as floats, for machines that do not
    multiply integers faster
    float_products   whether products whose operand is rounded to 8 bits at run time become those of floats
    float_recurrence  weights of a direction up to which a DynamicQuantizeLSTM becomes an LSTM of floats
    whole_recurrence  whether the machine runs a recurrent operator of such sizes as one; None: none of those
                     that `whole` does not name
    dynamic_weights  weights of a direction from which on a DynamicQuantizeLSTM is written step by step
    selection_elements  most elements of the matrix of ones and zeros with which rows are added to rows as a
    product; a tensor of one row needs no matrix
    integer_products  whether products between DequantizeLinear and QuantizeLinear become those of integers
    most_padding     largest padding on either side of an axis that a convolution can apply; a larger Pad
    stays
    most_stride      largest stride that a convolution can have; one with a kernel as large as a larger stride
    becomes one of patches
    """

    whole: Callable[[onnx.NodeProto], bool] | None = None
    float_weights: bool = False
    float_products: bool = False
    float_recurrence: int = 0
    whole_recurrence: Callable[[Recurrence], bool] | None = None
    dynamic_weights: int = MIN_DYNAMIC_WEIGHTS
    selection_elements: int = 0
    integer_products: bool = False
    most_padding: int = 1 << 30
    most_stride: int = 1 << 30


AS_IT_IS = ModelForm()
