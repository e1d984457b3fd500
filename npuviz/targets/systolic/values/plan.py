"""The plan that the compiler makes for the values engine: everything about values that is not in the tables.

The engine executes the instructions themselves: MOVIN and MOVOUT move the bytes their rows name,
GEMM-type instructions accumulate the steps of a Product, vector instructions apply a function. The
word AUX of an instruction selects from this plan:

    MOVIN    index into `shapes` (0: the row counts and the length, axes of size 1 dropped)
    vector   index into `functions`
    GEMM     index into `products`
    MOVOUT   index into `orders` (0: the entry's own order), whose items are (shape, axes): the
             contents are read in that shape and stored with their axes in that order
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from npuviz.targets.systolic.values.storage import Storage

Load = Callable[[int], np.ndarray]
"""Operand word of an entry -> its contents."""

Apply = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Contents of the two sources (the second repeats the first when there is one) -> the result."""


@dataclass(frozen=True)
class VectorFunction:
    """What a vector instruction computes: float32 (or integer) arrays in, the new contents out.

    accumulates  the result is added to what the destination holds
    """

    name: str
    apply: Apply
    accumulates: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Rows [row, row_end) and columns [column, column_end) of a tile's result."""

    row: int
    row_end: int
    column: int
    column_end: int


class Product(Protocol):
    """The GEMM-type instructions of a tile as a whole.

    shape   rows and columns of the tile's result
    blocks  operand word of an accumulator entry -> the part of the result it holds
    dtype   of the accumulation: "float32" or "int32"
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        ...

    @property
    def blocks(self) -> Mapping[int, Block]:
        """Operand word -> block."""
        ...

    @property
    def dtype(self) -> str:
        """Element type of the accumulator."""
        ...

    @property
    def zero_words(self) -> tuple[int, int]:
        """Entries that hold the operands' zero points, where they are known at run time only; 0: none."""
        ...

    @property
    def continues(self) -> bool:
        """In a tile of several products: whether it adds to what its entries hold."""
        ...

    @property
    def num_steps(self) -> int:
        """Number of pairs that `steps` returns."""
        ...

    def steps(self, load: Load) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Return matrix pairs (rows x k, k x columns), float32, in the order in which they are
        accumulated."""
        ...


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """Root tensors that a layer reads and writes. `is_host`: computed by the host processor."""

    node: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    is_host: bool = False


@dataclass(frozen=True)
class ValuePlan:
    """All data that the values engine needs in addition to tables and graph; `storages` by tensor id."""

    storages: tuple[Storage, ...]
    layers: tuple[LayerPlan, ...]
    shapes: tuple[tuple[int, ...], ...] = ((),)
    functions: tuple[VectorFunction, ...] = ()
    products: tuple[Product, ...] = ()
    orders: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (((), ()),)
    constants: Mapping[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])
