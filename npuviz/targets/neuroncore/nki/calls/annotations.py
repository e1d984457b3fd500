"""What kernels write as types of their parameters."""

from typing import Any

import numpy as np

from npuviz.targets.neuroncore.nki.record.element_types import dtype_of


class Annotation:
    """nt.tensor, nt.tensor[shape], nt.tensor[[...], dtype]; the last one stands for an array of zeros."""

    def __init__(self, name: str, shape: tuple[int, ...] | None = None, dtype: Any = None) -> None:
        self._name = name
        self.shape = shape
        self._dtype = dtype

    def zeros(self) -> np.ndarray | None:
        """What a kernel gets that is called with this; None if shape or type are not known."""
        if self.shape is None or self._dtype is None:
            return None
        return np.zeros(self.shape, dtype_of(self._dtype))

    def __repr__(self) -> str:
        return f"nt.{self._name}"

    def __getitem__(self, shape: Any) -> "Annotation":
        dtype = None
        if isinstance(shape, tuple) and len(shape) == 2 and isinstance(shape[0], tuple | list):
            shape, dtype = shape
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        is_known = all(isinstance(size, int) for size in sizes)
        return Annotation(self._name, tuple(sizes) if is_known else None, dtype)

    def __call__(self, value: Any = None) -> Any:
        """The value as it is."""
        return value


tensor, mutable_tensor, mutable, scalar = map(Annotation, ("tensor", "mutable_tensor", "mutable", "scalar"))
