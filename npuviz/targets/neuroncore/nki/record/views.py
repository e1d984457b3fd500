"""More views of the second generation: by names of dimensions, by rows of a tile."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from npuviz.targets.neuroncore import strides
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Index, whole
from npuviz.targets.neuroncore.nki.record.indirection import picked
from npuviz.targets.neuroncore.nki.record.tensors import Tensor

Pattern = Sequence[str | Sequence[str]]
"""Names of dimensions; several in parentheses are one dimension."""


def rearrange(
    tensor: Tensor, src_pattern: Pattern, dst_pattern: Pattern, fixed_sizes: Mapping[str, int] | None = None
) -> Tensor:
    """The dimensions split, reordered and joined by name; no data moves. Raises KernelError."""
    sources = [(each,) if isinstance(each, str) else tuple(each) for each in src_pattern]
    targets = [(each,) if isinstance(each, str) else tuple(each) for each in dst_pattern]
    names = [name for group in sources for name in group]
    if len(sources) != tensor.ndim or sorted(names) != sorted(name for group in targets for name in group):
        raise KernelError(f"{tensor!r} rearranged from {src_pattern} to {dst_pattern}: the dimensions differ")
    sizes = dict(fixed_sizes or {})
    for size, group in zip(tensor.shape, sources, strict=True):
        unknown = [name for name in group if name not in sizes]
        known = prod(sizes[name] for name in group if name in sizes)
        if len(unknown) > 1 or (size % known if unknown else size != known):
            raise KernelError(f"{tensor!r} rearranged: sizes {sizes} do not split a dimension of {size}")
        if unknown:
            sizes[unknown[0]] = size // known
    split = tensor.reshape(*(sizes[name] for name in names))
    order = [names.index(name) for group in targets for name in group]
    return split.permute(order).reshape(*(prod(sizes[name] for name in group) for group in targets))


def vector_select(tensor: Tensor, dim: int, vector_offset: Tensor) -> Tensor:
    """Rows of a tensor in HBM, one for each partition of a tile of indices. Raises KernelError."""
    if dim != 0 or tensor.is_on_chip:
        raise KernelError(f"{tensor!r}: vector_select takes dimension 0 of a tensor in HBM")
    if is_indirect(tensor):
        raise KernelError(f"{tensor!r}: rows of it are picked by index already")
    made = tensor.viewed((vector_offset.shape[0], *tensor.shape[1:]), (0, *tensor.steps[1:]))
    made.row_index = (vector_offset, tensor.steps[0])
    return made


def ap(
    tensor: Tensor,
    pattern: Sequence[Sequence[int]],
    offset: int | None = None,
    scalar_offset: Any = None,
    vector_offset: Any = None,
    indirect_dim: int = 0,
    dtype: Any = None,
) -> Tensor:
    """A raw access pattern: [step, size] of each dimension in elements, from an offset."""
    if vector_offset is not None and scalar_offset is not None:
        raise KernelError(f"{tensor!r}: .ap takes vector_offset or scalar_offset, not both")
    base = tensor if dtype is None else tensor.view(dtype)
    steps, sizes = _pattern_of(tensor, pattern)
    first = 0 if offset is None else int(offset)
    if scalar_offset is not None:
        first += whole(scalar_offset) * prod(tensor.shape[indirect_dim + 1 :])
    if not base.is_on_chip:
        made = base.viewed(sizes, steps, base.offset + first)
        if vector_offset is not None:
            made = base.viewed(sizes, (0, *steps[1:]), base.offset + first)
            made.row_index = (vector_offset, prod(tensor.shape[indirect_dim + 1 :]))
        elif scalar_offset is None:
            _check_inside(tensor, made)
        return made
    if vector_offset is not None:
        raise KernelError(f"{tensor!r}: vector_offset needs a tensor in HBM")
    pitch = prod(base.shape[1:])
    row, column = divmod(first, pitch)
    if steps[0] % pitch and sizes[0] > 1:
        raise KernelError(f"{tensor!r}: the first entry of .ap steps over partitions, {pitch} elements each")
    if sizes[0] > 1 and steps[0] != pitch:
        raise KernelError(
            f"{tensor!r}: the first entry of .ap has a step of {steps[0]}: partitions are taken one after "
            f"the other, {pitch} elements each"
        )
    dense = base.reshape(base.shape[0], -1) if base.ndim > 1 else base
    if dense.steps[-1] != 1 and dense.shape[-1] > 1:
        raise KernelError(f"{tensor!r}: .ap of a view that is not contiguous")
    made = base.viewed(sizes, (1, *steps[1:]), base.offset + column, base.start + row)
    if scalar_offset is None:
        _mark_beyond(tensor, made)
    return made


def _pattern_of(tensor: Tensor, pattern: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(steps, sizes) of an access pattern. Raises KernelError."""
    try:
        entries = [(int(step), int(size)) for step, size in pattern]
    except (TypeError, ValueError):
        entries = []
    if not entries or any(size < 1 for _, size in entries):
        raise KernelError(f"{tensor!r}: .ap takes [[step, size], ...] in whole elements, found {pattern!r}")
    return tuple(step for step, _ in entries), tuple(size for _, size in entries)


def _check_inside(tensor: Tensor, made: Tensor) -> None:
    """Raise KernelError if a pattern of fixed offsets leaves the tensor in HBM."""
    held = prod(made.storage.shape) * made.storage.dtype.itemsize // made.itemsize
    low, high = (made.offset + end for end in strides.extent(made.shape, made.steps))
    if low < 0 or high >= held:
        raise KernelError(
            f"{tensor!r}: .ap reads elements {low} to {high} of {held}", "err_tensor_access_out_of_bound"
        )


def _mark_beyond(tensor: Tensor, made: Tensor) -> None:
    """Let a pattern of fixed offsets that leaves the partitions of a tile, or their bytes, fail where it is
    used: kernels make such views and leave them alone.

    # Ref: nki-library d2ad3a5, core/output_projection/output_projection_tkg.py, the last piece of weights
    """
    rows, columns = made.storage.shape
    held = columns * made.storage.dtype.itemsize // made.itemsize
    low, high = (made.offset + end for end in strides.extent(made.shape[1:], made.steps[1:]))
    first, last = made.start, made.start + made.shape[0] - 1
    if low < 0 or high >= held or last >= rows:
        made.recording.note(
            f"{tensor!r}: .ap reaches elements {low} to {high} of {held} in partitions {first} to {last} of "
            f"{rows}: an error where it is used"
        )
        made.pending = tuple(
            (Index((), each, ()), size) for each, size in ((low, held), (high, held), (last, rows))
        )


def is_indirect(tensor: Tensor) -> bool:
    """Whether indices of a tile pick its rows or elements."""
    return tensor.row_index is not None or tensor.picks is not None


def is_contiguous(tensor: Tensor) -> bool:
    """Whether its elements (on the chip: of each partition) follow each other in memory."""
    first = 1 if tensor.is_on_chip else 0
    dense = strides.dense_steps(tensor.shape[first:])
    found = zip(tensor.steps[first:], dense, tensor.shape[first:], strict=True)
    return all(step == wanted for step, wanted, size in found if size > 1)


for _each in (ap, rearrange, vector_select, is_indirect, is_contiguous):
    setattr(Tensor, _each.__name__, _each)
Tensor.indirect = picked  # type: ignore[attr-defined]
Tensor.strides = property(lambda self: self.steps)  # type: ignore[attr-defined]
