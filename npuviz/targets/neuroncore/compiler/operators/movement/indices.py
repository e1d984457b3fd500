"""Compute with indices known only at run time: wrap negative ones, make row numbers, on the engines."""

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement.arguments import copy
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Alu

EXACT_FLOAT = 1 << 24
"""Limit below which integers are exact in the engines' fp32 arithmetic."""
INT32_MAX = (1 << 31) - 1
WORDS = {1: "uint8", 2: "uint16", 4: "uint32"}


def is_whole(size: int) -> bool:
    """Return whether numbers up to `size` need integer arithmetic. Raises CannotLower beyond 32 bits."""
    if size > INT32_MAX:
        raise CannotLower(f"indices up to {size}, more than 32 bits hold")
    return size >= EXACT_FLOAT


def wrapped(b: Builder, index: View, size: int) -> View:
    """Emit indices as int32 to a new tile, with negative ones counted from the end of an axis of `size`."""
    made, below = (b.tiles.sbuf(index.partitions, index.shape, "int32") for _ in range(2))
    if index.dtype != "int32":
        as_words = b.tiles.sbuf(index.partitions, index.shape, "int32")
        b.isa.copy(as_words, index)
        index = as_words
    b.isa.tensor_scalar(below, index, Alu.LESS, 0, Alu.MULTIPLY, size, integer=is_whole(size))
    b.isa.tensor_tensor(made, index, below, Alu.ADD)
    return made


def scaled(b: Builder, index: View, factor: int, offset: View | int, bound: int) -> View:
    """Emit index * factor + offset to a new int32 tile; all results lie below `bound`."""
    made = b.tiles.sbuf(index.partitions, index.shape, "int32")
    whole = is_whole(bound)
    if isinstance(offset, int):
        b.isa.tensor_scalar(made, index, Alu.MULTIPLY, factor, Alu.ADD, offset, integer=whole)
        return made
    if factor == 1:
        b.isa.tensor_tensor(made, index, offset, Alu.ADD)
        return made
    part = b.tiles.sbuf(index.partitions, index.shape, "int32")
    b.isa.tensor_scalar(part, index, Alu.MULTIPLY, factor, integer=whole)
    b.isa.tensor_tensor(made, part, offset, Alu.ADD)
    return made


def words(view: HbmView) -> HbmView:
    """Return rows as unsigned words, which instructions move unchanged; 64-bit elements become two words.

    Raises CannotLower for 64-bit rows that are not contiguous.
    """
    if view.itemsize in WORDS:
        return view.bitcast(WORDS[view.itemsize])
    if view.itemsize % 4:
        raise CannotLower(f"elements of {view.dtype}")
    try:
        return view.bitcast("uint32")
    except ValueError as error:
        raise CannotLower(str(error)) from None


def dense(b: Builder, view: HbmView, shape: tuple[int, ...]) -> HbmView:
    """Return a pattern in another shape: a view if possible (that moves as words), else a copy in HBM."""
    if view.itemsize in WORDS or view.is_contiguous:
        try:
            found = view.reshape(*shape)
        except ValueError:
            pass
        else:
            # Rows that are read element by element are brought together first.
            if found.steps[-1] == view.itemsize or found.shape[-1] == 1:
                return found
    made = b.hbm.scratch(view.shape, view.dtype)
    copy(b, made, view)
    return made.reshape(*shape)


def bases(shape: tuple[int, ...], steps: tuple[int, ...], axis: int) -> np.ndarray:
    """Return the row-major offset of every element of `shape`, without its index along `axis`, as int32.

    steps  of each axis, in elements of the indexed tensor
    """
    total = np.zeros(shape, np.int64)
    for at, (size, step) in enumerate(zip(shape, steps, strict=True)):
        if at != axis:
            total += (np.arange(size) * step).reshape((-1,) + (1,) * (len(shape) - at - 1))
    return total.astype(np.int32)
