"""Tensors of generation 1 with block dimensions before the partition dimension: a tile for each block."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from npuviz.targets.neuroncore.nki.record.element_types import Dtype
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Index
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import Scope, Tensor


@dataclass(eq=False)
class Tiles:
    """The tiles of a tensor with blocks, each made when it is first used.

    make    a tile of a label, for a maker;  value  what they are filled with, None if with nothing
    buffer  the memory as the kernel names it;  scope  loops that they live in;  made  by block
    """

    make: Callable[[str, Any], Tensor]
    name: str
    value: Any
    buffer: Any
    scope: Scope
    made: dict[tuple[int, ...], Tensor] = field(default_factory=dict[tuple[int, ...], Tensor])

    def at(self, block: tuple[int, ...], value: Any) -> Tensor:
        """The tile of a block; where that is new, filled before the step that computes `value`."""
        found = self.made.get(block)
        if found is None:
            label = f"{self.name or 'tile'}[{','.join(map(str, block))}]"
            found = self.made[block] = self.make(label, self)
            if self.value is not None:
                current().filled_before(found, self.value, value)
        return found


class BlockTensor:
    """Tiles by block index, or those that are left when the first indices are given.

    shape  block dimensions, partitions, free dimensions;  blocks  how many block dimensions
    """

    def __init__(
        self, shape: Sequence[int], blocks: int, dtype: Dtype, tiles: Tiles, first: tuple[int, ...] = ()
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.blocks = blocks
        self._tiles = tiles
        self._first = first

    def __repr__(self) -> str:
        return f"tensor {self._tiles.name} {self.dtype}{list(self.shape)}".replace("  ", " ")

    ndim = property(lambda self: len(self.shape))
    buffer = property(lambda self: self._tiles.buffer)

    def __getitem__(self, key: Any) -> "Tensor | BlockTensor":
        block, rest = self._split(key)
        if len(block) < self.blocks:
            left = self.shape[len(block) :]
            return BlockTensor(left, self.blocks - len(block), self.dtype, self._tiles, self._first + block)
        tile = self._tiles.at(self._first + block, None)
        return tile[rest] if rest else tile

    def __setitem__(self, key: Any, value: Any) -> None:
        block, rest = self._split(key)
        if len(block) < self.blocks:
            raise self._misused()
        self._tiles.at(self._first + block, value)[rest if rest else ...] = value

    def __bool__(self) -> bool:
        return True

    def _split(self, key: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
        """The indices of blocks in a subscript, and the others. Raises KernelError."""
        items = list(key) if isinstance(key, tuple) else [key]
        head, rest = [_constant(each) for each in items[: self.blocks]], items[self.blocks :]
        if not all(hasattr(each, "__index__") and not isinstance(each, Tensor) for each in head):
            raise self._misused()
        block = tuple(
            int(each) + size * (int(each) < 0) for each, size in zip(head, self.shape, strict=False)
        )
        if not all(0 <= at < size for at, size in zip(block, self.shape, strict=False)):
            raise KernelError(
                f"block {list(block)} of a tensor {list(self.shape)}", "err_tensor_access_out_of_bound"
            )
        return block, tuple(rest)

    def _misused(self) -> KernelError:
        return KernelError(
            f"{self._tiles.name or 'a tensor'} {list(self.shape)}: the first {self.blocks} dimensions are "
            "blocks and take integers or loop indices",
            "err_failed_to_infer_tile_from_local_tensor",
        )


def _constant(item: Any) -> Any:
    """The number that an index tensor of one element holds; anything else itself."""
    return item.const if isinstance(item, Index) and math.prod(item.shape) == 1 else item
