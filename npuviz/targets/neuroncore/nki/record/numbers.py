"""Numbers, and tiles with one number for each partition."""

import math

import numpy as np

from npuviz.targets.neuroncore.nki.record.element_types import is_float
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.tensors import Tensor

_TOO_LARGE = 2.0**128 - 2.0**103
"""The least that rounds to more than float32 holds."""


def number(value: object) -> float | int | None:
    """A Python or numpy number as a Python number, None for anything else.

    Raises KernelError for a finite one that float32 does not hold: no instruction could.
    """
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int | np.integer):
        return _held(int(value))
    if isinstance(value, float | np.floating):
        return _held(float(value))
    if isinstance(value, np.generic) and is_float(value.dtype):  # of bfloat16 or 8 bits, no np.floating
        return _held(float(value))
    return None


def needed_number(value: object, call: str) -> float | int:
    """A number that a call cannot do without. Raises KernelError for anything else."""
    found = number(value)
    if found is None:
        raise KernelError(f"{call} with {value!r}: expected a number")
    return found


def _held(value: float | int) -> float | int:
    if abs(value) >= _TOO_LARGE and (isinstance(value, int) or not math.isinf(value)):
        bits = f"{value.bit_length()} bits" if isinstance(value, int) else f"{value:g}"
        raise KernelError(f"a number of {bits}: operands are of float32")
    return value


def is_column(value: object, shape: tuple[int, ...]) -> bool:
    """Whether a tensor has one value for each partition of a larger tile."""
    return isinstance(value, Tensor) and value.size == shape[0] == value.shape[0] and len(shape) > 1
