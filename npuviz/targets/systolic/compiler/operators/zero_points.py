"""Places zero points that are known only at run time in the tiles of products.

Assumed: the array holds one for either operand and subtracts it at no cost, as it does constant ones; their
loads are issued before all others, so that they are there before the first block is.
"""

from collections.abc import Sequence

from npuviz.targets.systolic.compiler.lowering import Half, Lowering
from npuviz.targets.systolic.compiler.template import Rows, Template

Pair = tuple[int, int]
"""Tensors of the left and the right operand."""


def place_zeros(spad: Half, zeros: Pair) -> Pair:
    """Return the operand words of the zero points' entries; 0 where the tensor is -1."""
    left, right = (spad.entry(("zero", side), 1) if index >= 0 else 0 for side, index in enumerate(zeros))
    return left, right


def zero_addresses(lowering: Lowering, zeros: Pair) -> list[int]:
    """Return base addresses for the tiles, one for each side or none at all."""
    if max(zeros) < 0:
        return []
    return [lowering.storage(index).address if index >= 0 else 0 for index in zeros]


def load_zeros(
    lowering: Lowering, template: Template, zeros: Pair, words: Sequence[int], first_base: int
) -> None:
    """Load the zero points; `first_base` is the number of the base address for the left one."""
    for side, (index, word) in enumerate(zip(zeros, words, strict=True)):
        if index >= 0:
            place = Rows(first_base + side, 0, 1)
            root = lowering.storage(index).root
            template.movin(word, place, size=1, tensor=root, aux=lowering.shape((1,)))
