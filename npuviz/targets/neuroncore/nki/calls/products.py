"""Products of the Tensor engine, with a target or making their result."""

from collections.abc import Sequence
from math import prod
from typing import Any

from npuviz.targets.neuroncore.isa import Flag
from npuviz.targets.neuroncore.nki.calls.operands import same_partitions, tile
from npuviz.targets.neuroncore.nki.calls.psum_sums import accumulates
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, is_float
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Box, Mask, is_empty
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor, box_of


def nc_matmul(
    dst: object,
    stationary: object,
    moving: object,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    mask: object = None,
    perf_mode: object = None,
    tile_position: Sequence[int] = (),
    tile_size: Sequence[int] = (),
    is_onezero: tuple[bool, bool] = (False, False),
) -> Tensor:
    """dst [M, N] = or += stationary [K, M].T @ moving [K, N].

    mask        columns of moving, and so of dst, that take part
    is_onezero  whether the stationary, the moving tile holds zeros and ones only
    """
    memory = SBUF if mask is not False else ""
    a, b = tile(stationary, "nc_matmul stationary", memory), tile(moving, "nc_matmul moving", memory)
    double_row = _is_double_row(perf_mode, (a, b))
    if len(tile_position) or len(tile_size):
        current().note("nc_matmul tiles of PE (tile_position) run one after the other (assumed)")
    _, columns = shape = _product_shape(a, b, double_row)
    part = _columns_left(mask, shape)
    if part is not None and not is_empty(part):
        b = b.reshape(b.shape[0], columns).boxed(((0, b.shape[0]), part[1]))
    recording = current()
    hints = Flag.STATIONARY_ONEZERO * bool(is_onezero[0]) | Flag.MOVING_ONEZERO * bool(is_onezero[1])
    hints |= Flag.TRANSPOSE * bool(is_transpose)
    if dst is None:
        kind = a.dtype if is_transpose and is_float(a.dtype) and recording.version > 1 else FLOAT32
        made, accumulate = recording.new(shape, kind, PSUM, result=True), False
    else:
        made = _product_target(dst, shape)
        accumulate = accumulates(made, accumulate)
    values: dict[str, Any] = {"accumulate": accumulate, "double_row": double_row, "hints": hints}
    nothing = part if part is not None and is_empty(part) else None
    flat = made if part is None else made.reshape(*shape).boxed(part)
    step = recording.step("matmul", flat, (a, b), nothing, **values)
    step.box = part  # of the result: `step` would cut the stationary tile by it too
    if dst is None:
        recording.keep_result(made, step)
    return made


def _columns_left(mask: object, shape: tuple[int, int]) -> Box | None:
    """The part of a product that a mask leaves, None without one. Raises KernelError where it cuts rows."""
    if isinstance(mask, Mask) and mask.cuts_partitions(shape):
        # Rows of dst and of the contraction are both partitions, so operands are masked by their subscripts.
        # Ref: aws-neuron-sdk 49ee15c5, general/nki/api/nki.api.shared.rst, NKI API Masking
        raise KernelError("nc_matmul with a mask of partitions: put it into the subscripts of its operands")
    return box_of(mask, shape)


def _product_target(dst: object, shape: tuple[int, int]) -> Tensor:
    """The tile of PSUM that a product is written to. Raises KernelError where it does not fit."""
    target = tile(dst, "nc_matmul dst", PSUM)
    if (target.shape[0], prod(target.shape[1:])) != shape:
        raise KernelError(f"nc_matmul: the product is {list(shape)}, dst is {list(target.shape)}")
    return target


def _product_shape(stationary: Tensor, moving: Tensor, double_row: bool) -> tuple[int, int]:
    """Rows and columns of a product. Raises KernelError where an operand is too large or they do not fit."""
    same_partitions(stationary, moving, "nc_matmul stationary and moving")
    each = 2 if double_row else 1
    rows, columns = prod(stationary.shape[1:]) // each, prod(moving.shape[1:]) // each
    for size, limit, what in (
        (rows, 128, "stationary"),
        (columns, spec_in_use().matmul_max_moving, "moving"),
    ):
        if size > limit:
            raise KernelError(
                f"nc_matmul: the {what} tile has {size} elements a partition"
                f", at most {limit}: multiply parts of it",
                "err_size_of_dimension_exceed_arch_limit",
            )
    return rows, columns


def _is_double_row(perf_mode: object, operands: tuple[Tensor, Tensor]) -> bool:
    """Whether a partition holds two rows of the contraction. Raises KernelError where that cannot be."""
    name = str(getattr(perf_mode, "value", perf_mode) or "none")
    if name == "none":
        return False
    if not name.startswith("double_row"):
        raise KernelError(f"nc_matmul: perf_mode={name!r} is none or double_row")
    if spec_in_use().version < 3:
        raise KernelError("nc_matmul with double_row needs NeuronCore-v3 (trn2) or newer")
    for each in operands:
        if each.dtype.itemsize != 1 or each.ndim < 3 or each.shape[1] != 2:
            raise KernelError(f"nc_matmul with double_row: {each!r} is no tile [K, 2, N] of an 8-bit float")
    return True
