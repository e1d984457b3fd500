"""Subscripts of tensors: slices, index tensors, rows picked by a tile."""

from collections.abc import Sequence
from typing import Any

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Grid, Index, Mask, broadcast_shape, whole
from npuviz.targets.neuroncore.nki.record.loops import Turns
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import Tensor


def subscripted(tensor: Tensor, key: object) -> Tensor:
    """The view that a subscript names. Raises KernelError."""
    items: list[Any] = []
    for item in key if isinstance(key, tuple) else (key,):
        items += list(item) if isinstance(item, Grid) else [_as_slice(item)]
    if any(isinstance(item, Mask | bool) for item in items):
        return _masked(tensor, items)
    if any(item is Ellipsis for item in items):
        at = next(n for n, item in enumerate(items) if item is Ellipsis)
        given = sum(item is not Ellipsis and item is not None for item in items)
        items[at : at + 1] = [slice(None)] * (tensor.ndim - given)
    if tensor.is_on_chip and any(isinstance(item, Tensor) for item in items):
        items = [_known_offset(tensor, item) if isinstance(item, Tensor) else item for item in items]
    if not any(isinstance(item, Index) for item in items):
        items = [_named_by(item) if isinstance(item, Tensor) and item.is_element else item for item in items]
    if any(isinstance(item, Tensor) for item in items):
        return _by_rows(tensor, items)
    if any(item is None for item in items):
        return _with_new_axes(tensor, items)
    if any(isinstance(item, Index) for item in items):
        return _by_index(tensor, items)
    if len(items) > tensor.ndim:
        raise KernelError(f"{len(items)} subscripts for {tensor!r}")
    made = _by_slices(tensor, items + [slice(None)] * (tensor.ndim - len(items)))
    made.is_element = made.size == 1 and not any(isinstance(item, slice) for item in items)
    return made


def _as_slice(item: object) -> object:
    """The elements that a range goes through, which generation 2 takes as a subscript.

    # Ref: aws-neuron/nkipy b91c980, examples/playground/simple_nki_kernel.py
    """
    values = item.values if isinstance(item, Turns) else item
    if not isinstance(values, range) or current().version == 1:
        return item
    return slice(values.start, values.stop, values.step)


def _known_offset(tensor: Tensor, item: Tensor) -> int:
    """Where a tile is read that an element of the chip says. Raises KernelError for several elements."""
    if item.size != 1:
        raise KernelError(
            f"{tensor!r} with {item.size} indices of {item!r}: one dynamic offset at a time, with "
            "nisa.tensor_copy_dynamic_src",
            "err_copy_dynamic_indirect_indices_not_natively_supported",
        )
    return item.known_integer()


def _masked(tensor: Tensor, items: list[Any]) -> Tensor:
    """The part of a tile that masks in its subscript leave; a mask without an index is True or False."""
    rest = tuple(item for item in items if not isinstance(item, Mask | bool))
    found = subscripted(tensor, rest) if rest else tensor
    if any(item is False for item in items):
        raise KernelError(f"a subscript of {tensor!r} leaves no element")
    masks = [item for item in items if isinstance(item, Mask)]
    conditions = Mask(tuple(condition for mask in masks for condition in mask.conditions))
    return found.boxed(conditions.box(found.shape))


def _with_new_axes(tensor: Tensor, items: list[Any]) -> Tensor:
    plain = [item for item in items if item is not None]
    if any(isinstance(item, Index) for item in plain):
        raise KernelError(
            f"{tensor!r}: None beside index tensors",
            "err_unsupported_mixing_basic_advanced_tensor_indexing",
        )
    found = tensor[tuple(plain)]
    at = 0
    for item in items:
        if item is None:
            found = found.expand_dims(at)
            at += 1
        elif not isinstance(item, int):
            at += 1
    return found


def _by_slices(tensor: Tensor, items: list[Any]) -> Tensor:
    shape: list[int] = []
    coefficients: list[tuple[int, int, int]] = []  # const, step, result dimension or -1
    for dim, (item, size) in enumerate(zip(items, tensor.shape, strict=True)):
        if isinstance(item, slice):
            step = 1 if item.step is None else whole(item.step)
            first = 0 if item.start is None else whole(item.start)
            end = size if item.stop is None else whole(item.stop)
            first, end = first + size * (first < 0), end + size * (end < 0)
            count = len(range(first, end, step))
            coefficients.append((first, step, len(shape)))
            shape.append(count)
        else:
            at = whole(item)
            if dim == 0 and tensor.is_on_chip:
                coefficients.append((at + size * (at < 0), 1, len(shape)))
                shape.append(1)
            else:
                coefficients.append((at + size * (at < 0), 0, -1))
    if not shape or (len(shape) == 1 and tensor.is_on_chip):
        shape.append(1)
    rank = len(shape)
    expressions = [
        Index(tuple(shape), const, tuple(step if k == target else 0 for k in range(rank)))
        for const, step, target in coefficients
    ]
    made = _at(tensor, tuple(shape), expressions)
    if made.pending and current().version > 1 and not current().has_offsets:
        made.boxed(None)  # nothing will make it smaller
    return made


def _by_index(tensor: Tensor, items: list[Any]) -> Tensor:
    if any(isinstance(item, slice) for item in items):
        raise KernelError(
            f"{tensor!r}: slices and index tensors in one subscript: write a slice as nl.arange(n)[None, :]",
            "err_unsupported_mixing_basic_advanced_tensor_indexing",
        )
    if len(items) != tensor.ndim:
        raise KernelError(f"{len(items)} index tensors for {tensor!r}, it has {tensor.ndim} dimensions")
    for item in items:
        if isinstance(item, Index) and item.ndim == 1 and tensor.ndim > 1:
            raise KernelError(
                f"{tensor!r}: an index of one dimension; write nl.arange(n)[:, None]",
                "err_1d_arange_not_supported",
            )
    shape = broadcast_shape(*(item.shape for item in items if isinstance(item, Index)))
    expressions = [
        _spread(
            item if isinstance(item, Index) else Index((1,) * len(shape), whole(item), (0,) * len(shape)),
            shape,
        )
        for item in items
    ]
    return _at(tensor, shape, expressions)


def _is_whole(item: object) -> bool:
    """Whether an item of a subscript is a number of Python or numpy, not a tile or an index."""
    return hasattr(item, "__index__") and not isinstance(item, Tensor | Index | bool)


def _by_rows(tensor: Tensor, items: list[Any]) -> Tensor:
    """Rows by indices that a tile holds: t[index[i_p, 0], i_f] of HBM; numbers before them choose a part."""
    while not tensor.is_on_chip and items and _is_whole(items[0]) and tensor.ndim > 1:
        tensor, items = tensor[whole(items[0])], items[1:]
    if tensor.is_on_chip or not isinstance(items[0], Tensor):
        raise KernelError(
            f"{tensor!r}: indices of a tile pick rows of a tensor in HBM, in its first dimension",
            "err_indirect_indices_free_dim",
        )
    rows = items[0]
    rest: list[Any] = items[1:] + [slice(None)] * (tensor.ndim - len(items))
    if any(isinstance(item, Index) for item in rest):
        rank = max(item.ndim for item in rest if isinstance(item, Index))
        found = _by_index(tensor, [Index((rows.shape[0],) + (1,) * (rank - 1), 0, (0,) * rank), *rest])
    else:
        found = _by_slices(tensor, [slice(0, 1), *rest])
        found = found.viewed((rows.shape[0], *found.shape[1:]), (0, *found.steps[1:]))
    found.row_index = (rows, tensor.steps[0])
    return found


def _named_by(element: Tensor) -> int:
    """What an element of the chip that is a subscript says."""
    if element.dtype.kind not in "iu":
        element.recording.note(f"an index of type {element.dtype} is cast to a whole number (assumed)")
    return int(element.recording.observed(element).reshape(-1)[0])


def _at(tensor: Tensor, shape: tuple[int, ...], expressions: Sequence[Index]) -> Tensor:
    """The elements at the index that the expressions give for each dimension."""
    if 0 in shape:
        raise KernelError(f"a subscript of {tensor!r} leaves no element")
    offset, start = tensor.offset, tensor.start
    steps = [0] * len(shape)
    pending: list[tuple[Index, int]] = []
    for dim, expression in enumerate(expressions):
        low, high = expression.bounds()
        if low < 0 or high >= tensor.shape[dim]:
            pending.append((expression, tensor.shape[dim]))
        if dim == 0 and tensor.is_on_chip:
            if any(expression.steps[1:]) or (expression.steps[0] != 1 and shape[0] != 1):
                raise KernelError(
                    f"{tensor!r}: the partition index has step 1 in the first dimension of a tile"
                )
            start += expression.const
            steps[0] = 1
            continue
        offset += expression.const * tensor.steps[dim]
        for k, step in enumerate(expression.steps):
            steps[k] += step * tensor.steps[dim]
    if tensor.is_on_chip:
        steps[0] = 1
    made = tensor.viewed(shape, tuple(steps), offset, start)
    made.pending = tuple(pending)
    return made


def _spread(index: Index, shape: tuple[int, ...]) -> Index:
    """The index over all dimensions of `shape`."""
    extra = len(shape) - index.ndim
    steps = (0,) * extra + tuple(
        step if size > 1 else 0 for size, step in zip(index.shape, index.steps, strict=True)
    )
    return Index(shape, index.const, steps)
