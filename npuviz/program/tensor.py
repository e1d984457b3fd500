"""Describe a tensor of the program: name, shape and type. Its values are kept elsewhere."""

from dataclasses import dataclass
from math import prod
from typing import Literal

TensorKind = Literal["input", "weight", "activation", "output"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One value of the operator graph.

    id        index in `Graph.tensors`
    shape     all dimensions known, row-major, () for a scalar
    dtype     a name of `npuviz.program.dtypes`
    producer  id of the node that writes it, -1 for inputs and weights
    """

    id: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: TensorKind
    producer: int = -1

    @property
    def num_elements(self) -> int:
        """Product of the dimensions; 1 for a scalar."""
        return prod(self.shape)
