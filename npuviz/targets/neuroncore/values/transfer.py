"""Plan what DMA descriptors move and compute. Ref: NEFFDOC (fields); how they execute is inferred (4.6)."""

from math import prod

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.sim.replay.contents import Report
from npuviz.targets.neuroncore.isa import Flag
from npuviz.targets.neuroncore.strides import merged
from npuviz.targets.neuroncore.tables import Access, Descriptor, Transfer
from npuviz.targets.neuroncore.values.chip import Chip
from npuviz.targets.neuroncore.values.element_types import convert_into, loader
from npuviz.targets.neuroncore.values.indexed_transfer import Moves, byte_dims, plan_indexed
from npuviz.targets.neuroncore.values.memory import Dims, ValueFault
from npuviz.targets.neuroncore.values.plan import Ins, Plan, Step, common_shape

TRANSPOSE_ORDER = (3, 2, 1, 0)
"""Axis k of the transposed array is axis TRANSPOSE_ORDER[k] of the source. Assumed: reversed."""

_WIDTHS = (8, 4, 2, 1)


def plan_transfer(
    chip: Chip,
    transfer: Transfer,
    ins: Ins,
    report: Report,
    order: tuple[int, ...] = TRANSPOSE_ORDER,
) -> Plan:
    """Plan a whole transfer, triggered by `ins`. Raises ValueFault for a bad descriptor."""
    moves = Moves(chip, transfer.core, order)
    is_indexed = ins.has(Flag.GATHER_SOURCE) or ins.has(Flag.SCATTER_TARGET)
    try:
        if is_indexed:
            return plan_indexed(moves, transfer, ins, report)
        for descriptor in transfer.descriptors:
            _add(moves, descriptor)
    except ValueFault as error:
        raise ValueFault(f"transfer {transfer.id} of core {transfer.core}: {error}") from None
    return moves.plan()


def _add(moves: Moves, descriptor: Descriptor) -> None:
    op = descriptor.op
    if not descriptor.sources:
        raise ValueFault(f"{op} without a source")
    if op == "copy":
        _copy(moves, descriptor.to, descriptor.sources[0])
    elif op == "cast":
        _cast(moves, descriptor.to, descriptor.sources[0])
    elif op == "transpose":
        _transpose(moves, descriptor)
    else:
        _compute(moves, descriptor)


def _dims(access: Access, item: int) -> Dims | None:
    """Return the dimensions in elements of `item` bytes; None if an element's bytes are not contiguous."""
    dims = [(size, step) for size, step in byte_dims(access) if size != 1]
    if item == 1:
        return merged(dims)
    if not dims or dims[-1][1] != 1 or dims[-1][0] % item:
        return None
    return merged([*dims[:-1], (dims[-1][0] // item, item)])


def _same_shape(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    if first.shape == second.shape:
        return first, second
    fine = common_shape([first.shape, second.shape], first.size)
    if fine is None:
        return None
    return first.reshape(fine, copy=False), second.reshape(fine, copy=False)


def _copy(moves: Moves, to: Access, source: Access) -> None:
    if to.num_bytes != source.num_bytes:
        raise ValueFault(f"copy of {source.num_bytes} bytes to {to.num_bytes} bytes")
    if not to.num_bytes:
        return
    for width in _WIDTHS:
        from_dims, to_dims = _dims(source, width), _dims(to, width)
        if from_dims is not None and to_dims is not None:
            kind = np.dtype(f"u{width}")
            a, out = moves.source(source, from_dims, kind), moves.target(to, to_dims, kind)
            pair = _same_shape(a, out)
            moves.steps.append(_reshaping(out, a) if pair is None else _copying(pair[1], pair[0]))
            return


def _copying(out: np.ndarray, values: np.ndarray) -> Step:
    return lambda: np.copyto(out, values)


def _reshaping(out: np.ndarray, values: np.ndarray) -> Step:
    return lambda: np.copyto(out, values.reshape(out.shape))


def _elements(
    moves: Moves, access: Access, dtype: np.dtype, *, is_target: bool
) -> tuple[np.ndarray, int, bool]:
    """Return (view, elements, whether the view is of single bytes) of a computing descriptor's access."""
    if access.num_bytes % dtype.itemsize:
        raise ValueFault(f"{access.num_bytes} bytes are no whole number of {dtype} elements")
    take = moves.target if is_target else moves.source
    dims = _dims(access, dtype.itemsize)
    count = access.num_bytes // dtype.itemsize
    if dims is not None:
        return take(access, dims, dtype), count, False
    return take(access, merged(byte_dims(access)), np.dtype(np.uint8)), count, True


def _kind(name: str) -> np.dtype:
    try:
        return numpy_dtype(name)
    except ValueError as error:
        raise ValueFault(str(error)) from None


def _gathered(view: np.ndarray, dtype: np.dtype, in_bytes: bool) -> np.ndarray:
    """Return the elements of a view as a flat array."""
    return np.ascontiguousarray(view).reshape(-1).view(dtype) if in_bytes else view.reshape(-1)


def _store(out: np.ndarray, values: np.ndarray, dtype: np.dtype, in_bytes: bool) -> None:
    """Cast flat values to a type and write them into a view."""
    if not in_bytes:
        convert_into(out, values.reshape(out.shape))
        return
    made = np.empty(values.shape, dtype)
    convert_into(made, values)
    np.copyto(out, made.view(np.uint8).reshape(out.shape))


def _cast(moves: Moves, to: Access, source: Access) -> None:
    from_kind, to_kind = _kind(source.dtype), _kind(to.dtype)
    a, count, a_bytes = _elements(moves, source, from_kind, is_target=False)
    out, to_count, out_bytes = _elements(moves, to, to_kind, is_target=True)
    if count != to_count:
        raise ValueFault(f"cast of {count} elements to {to_count}")
    if not count:
        return
    pair = None if a_bytes or out_bytes else _same_shape(a, out)
    if pair is None:
        moves.steps.append(lambda: _store(out, _gathered(a, from_kind, a_bytes), to_kind, out_bytes))
    elif to_kind == np.float32:
        moves.steps.append(loader(pair[0], pair[1]))
    else:
        x, y = pair
        moves.steps.append(lambda: convert_into(y, x))


def _compute(moves: Moves, descriptor: Descriptor) -> None:
    """Add the step of a computing descriptor: add, fma, min or max in fp32. Ref: NKI dma_compute."""
    to_kind = _kind(descriptor.to.dtype)
    parts: list[tuple[np.ndarray, np.dtype, bool]] = []
    out, count, out_bytes = _elements(moves, descriptor.to, to_kind, is_target=True)
    for source in descriptor.sources:
        kind = _kind(source.dtype)
        view, found, in_bytes = _elements(moves, source, kind, is_target=False)
        if found != count:
            raise ValueFault(f"{descriptor.op} of {found} elements to {count}")
        parts.append((view, kind, in_bytes))
    scales = descriptor.scales or (1.0,) * len(parts)
    if len(scales) != len(parts):
        raise ValueFault(f"{len(scales)} scales for {len(parts)} sources")
    op, constant = descriptor.op, descriptor.constant
    combine = {"add": np.add, "fma": np.add, "min": np.minimum, "max": np.maximum}.get(op)
    if combine is None:
        raise ValueFault(f"unknown descriptor operation {op!r}")

    def run() -> None:
        total: np.ndarray | None = None
        if op in ("min", "max") and constant is not None:
            total = np.full(count, constant, np.float32)
        for (view, kind, in_bytes), scale in zip(parts, scales, strict=True):
            values = _gathered(view, kind, in_bytes).astype(np.float32)
            if op == "fma":
                values = values * np.float32(scale)
            total = values if total is None else combine(total, values)
        assert total is not None
        _store(out, total, to_kind, out_bytes)

    moves.steps.append(run)


def _transpose(moves: Moves, descriptor: Descriptor) -> None:
    source, to, item = descriptor.sources[0], descriptor.to, descriptor.element_size
    shape, order = descriptor.transpose_shape, moves.order
    count = prod(shape)
    if (
        item < 1
        or len(shape) != len(order)
        or count * item != source.num_bytes
        or to.num_bytes != count * item
    ):
        raise ValueFault(
            f"transpose of {source.num_bytes} bytes to {to.num_bytes} as {shape} elements of {item} bytes"
        )
    from_shape = [0] * len(order)
    for axis, origin in enumerate(order):
        from_shape[origin] = shape[axis]
    kind = np.dtype(np.uint8)
    a = moves.source(source, merged(byte_dims(source)), kind)
    out = moves.target(to, merged(byte_dims(to)), kind)

    def run() -> None:
        elements = np.ascontiguousarray(a).reshape(*from_shape, item)
        turned = elements.transpose(*order, len(order))
        np.copyto(out, np.ascontiguousarray(turned).reshape(out.shape))

    moves.steps.append(run)
