"""Numbers, and tiles with one number for each partition."""

import numpy as np

from npuviz.targets.neuroncore.nki.record.tensors import Tensor


def number(value: object) -> float | int | None:
    """A Python or numpy number as a Python number, None for anything else."""
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    return None


def is_column(value: object, shape: tuple[int, ...]) -> bool:
    """Whether a tensor has one value for each partition of a larger tile."""
    return isinstance(value, Tensor) and value.size == shape[0] == value.shape[0] and len(shape) > 1
