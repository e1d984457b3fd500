"""Operands in the shapes that a step wants."""

from math import prod

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Box
from npuviz.targets.neuroncore.nki.record.tensors import Tensor


def can_reshape(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether a view of this shape exists."""
    try:
        tensor.reshape(*shape)
    except KernelError:
        return False
    return True


def shaped(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor in a shape with the same elements, or repeated to it."""
    if value.shape == shape:
        return value
    if value.size == prod(shape):
        rows, pending = value.row_index, value.pending
        if value.is_on_chip and value.shape[0] != shape[0]:
            raise KernelError(
                f"{value!r} where {list(shape)} is expected: partitions differ", "err_num_partition_mismatch"
            )
        made = value.reshape(*shape)
        made.row_index = rows
        if pending:
            raise KernelError(f"{value!r} where {list(shape)} is expected")
        return made
    if value.size > prod(shape):
        raise KernelError(
            f"{value!r} where {list(shape)} is written: several values for an element; "
            "write to as many elements, or reduce it",
            "err_store_dst_shape_smaller_than_other_shape",
        )
    return value.free_broadcast(shape)


def cut_to(tensor: Tensor | None, box: Box | None) -> Tensor | None:
    """The part of an operand inside of a box, its row indices too."""
    if tensor is None:
        return None
    rows = tensor.row_index
    made = tensor.boxed(box)
    if rows is not None:
        made.row_index = (
            rows[0].boxed(box[:1] + ((0, 1),) * (rows[0].ndim - 1)) if box else rows[0],
            rows[1],
        )
    return made
