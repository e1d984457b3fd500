"""Tensors of frameworks (torch, jax) as numpy arrays, and results as the framework of the arguments has them.

No framework is imported here: who calls a kernel with a tensor has imported its framework already.
"""

import sys
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

_TORCH = "torch"
_PACKED = {
    "bfloat16": (ml_dtypes.bfloat16, "int16"),
    "float8_e5m2": (ml_dtypes.float8_e5m2, "uint8"),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, "uint8"),
}
"""Types that torch has and numpy has not -> that of ml_dtypes, and the integers that both have as wide."""


def array_of(value: Any) -> np.ndarray | None:
    """A numpy array, or a framework's tensor as one; None for anything else."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, type):
        return None
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        held = value.detach().cpu()
        kind, integers = _PACKED.get(str(held.dtype).removeprefix("torch."), (None, ""))
        if kind is not None and is_torch(held):
            return np.asarray(held.contiguous().view(getattr(sys.modules[_TORCH], integers)).numpy()).view(
                kind
            )
        return np.asarray(held.numpy())
    if hasattr(value, "__array__") and hasattr(value, "shape") and not np.isscalar(value):
        return np.asarray(value)
    return None


def is_torch(value: object) -> bool:
    """Whether a value is a tensor of torch."""
    return type(value).__module__.partition(".")[0] == _TORCH and hasattr(value, "detach")


def like_arguments(values: np.ndarray, arguments: Iterable[object]) -> Any:
    """A result as a tensor of torch if a kernel was called with one, else the array."""
    torch = sys.modules.get(_TORCH)
    if torch is None or not any(_has_torch(each) for each in arguments):
        return values
    for name, (kind, integers) in _PACKED.items():
        if values.dtype == kind:
            packed = np.ascontiguousarray(values).view(integers)
            return torch.from_numpy(packed.copy()).view(getattr(torch, name))
    return torch.from_numpy(np.ascontiguousarray(values).copy())


def write_back(value: object, values: np.ndarray) -> None:
    """Give an argument that the kernel has written its new values, in place."""
    if isinstance(value, np.ndarray):
        np.copyto(value, values, casting="unsafe")
    elif is_torch(value):
        getattr(value, "copy_")(like_arguments(values, (value,)))  # noqa: B009 - a tensor of no known type


def _has_torch(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(_has_torch(part) for part in value)
    return is_torch(value)
