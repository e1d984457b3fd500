"""Instructions that move: DMA, copies, transposes, shuffles."""

from collections.abc import Sequence
from math import prod

from npuviz.targets.neuroncore.isa import NUM_PARTITIONS, VECTOR_BLOCK, Engine
from npuviz.targets.neuroncore.nki.calls.operands import engine_of, run, tile
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, dtype_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.names import name_of
from npuviz.targets.neuroncore.nki.record.numbers import needed_number, number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import HBM, PSUM, SBUF, Tensor, box_of, boxes_of
from npuviz.targets.neuroncore.spec import NeuronSpec

_SIDE_BY_SIDE = 16
"""Elements of a partition that the DMA engines write together when they turn a tensor. Ref: ARCH3."""

# --- movement ----------------------------------------------------------------------------------------


def load(src: object, mask: object = None, dtype: object = None, mode: object = 0) -> Tensor:
    """HBM to a new SBUF tile; with oob_mode.skip, rows by an index beyond the tensor stay as they were where
    the tile is assigned to."""
    if not isinstance(src, Tensor) or src.is_on_chip:
        raise KernelError(f"nl.load: expected a tensor in HBM, found {src!r}", "err_unsupported_memory")
    recording = current()
    if src.ndim == 1 and src.row_index is None and mask is None:
        src = src.boxed(None).reshape(src.shape[0], 1)
    box = boxes_of(mask, src.shape)
    made = recording.new(src.shape, dtype or src.dtype, SBUF, result=True)
    skips = is_skipping(mode)
    step = recording.move(made, src, box, skips)
    if src.row_index is None or (skips and box is None):
        recording.keep_result(made, step)
    elif box is not None:
        recording.keep_part(made, box)
    return made


def store(dst: object, value: object, mask: object = None) -> None:
    """A tile to HBM."""
    if not isinstance(dst, Tensor) or dst.is_on_chip:
        raise KernelError(f"nl.store: expected a tensor in HBM, found {dst!r}", "err_unsupported_memory")
    recording = current()
    if number(value) is not None:
        if dst.ndim < 2 and dst.row_index is None:  # a tile has a partition dimension
            dst = dst.viewed((1, *(dst.shape or (1,))), (0, *(dst.steps or (1,))))
        made = recording.new(_tile_shape(dst.shape), dst.dtype, SBUF)
        recording.step("memset", made, (), value=number(value))
        value = made
    source = tile(value, "nl.store value")
    box = boxes_of(mask, dst.shape)
    if box is not None and source.shape != dst.shape and source.size == dst.size:
        source = source.reshape(*dst.shape)
    recording.move(dst, source, box)


def _tile_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if len(shape) > 1 else (1, *shape)


def dma_copy(dst: object, src: object, mask: object = None, rmw: object = None, oob_mode: object = 0) -> None:
    """Any memory to any other by DMA; with `rmw` what is there and what comes are combined."""
    if not isinstance(dst, Tensor) or not isinstance(src, Tensor):
        raise KernelError(f"dma_copy of {src!r} to {dst!r}: expected two tensors")
    if PSUM in (dst.buffer, src.buffer) and current().version > 1:
        raise KernelError(f"dma_copy of {src!r} to {dst!r}: PSUM is no operand of a DMA")
    if dst.size != src.size and not (src.row_index or dst.row_index):
        raise KernelError(f"dma_copy of {src!r} to {dst!r}: {src.size} and {dst.size} elements")
    box = boxes_of(mask, dst.shape)
    skips = is_skipping(oob_mode)
    if rmw is not None:
        box = box_of(mask, dst.shape)
        src, box = combined(dst.boxed(box), src.boxed(box), rmw, skips), None
    if skips and box is None:
        first, end = _rows_inside(dst, src)
        if first == end:
            return
        if end - first < dst.shape[0]:
            dst, src = dst.slice(0, first, end), src.slice(0, first, end)
    current().move(dst, src, box, skips)


def is_skipping(mode: object) -> bool:
    """Whether an oob_mode leaves accesses beyond a tensor out. Raises KernelError."""
    try:
        found = int(mode)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        found = -1
    if found not in (0, 1):
        raise KernelError(f"oob_mode {mode!r} is nisa.oob_mode.error or nisa.oob_mode.skip")
    return bool(found)


def _rows_inside(*sides: Tensor) -> tuple[int, int]:
    """The rows of a copy, along the first dimension, that lie inside of their tensors in HBM: a range, empty
    where none does. An offset that a value of the chip moved may lead outside."""
    rows = sides[0].shape[0]
    by_row = all(each.ndim and each.shape[0] == rows for each in sides)
    first, end = 0, rows
    for each in sides:
        if each.is_on_chip or each.row_index is not None:
            continue
        kept = slice(1, None) if by_row else slice(None)
        reach = [(n - 1) * step for n, step in zip(each.shape[kept], each.steps[kept], strict=True)]
        low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
        size = prod(each.storage.shape) * each.storage.dtype.itemsize // each.itemsize
        places = (
            range(each.offset, each.offset + rows * each.steps[0], each.steps[0])
            if by_row and each.steps[0]
            else [each.offset] * rows
        )
        inside = [row for row, at in enumerate(places) if at + low >= 0 and at + high < size]
        first, end = max(first, inside[0] if inside else rows), min(end, inside[-1] + 1 if inside else 0)
    return (first, end) if first < end else (0, 0)


def combined(dst: Tensor, src: Tensor, op: object, skips: bool = False) -> Tensor:
    """A tile: what lies at `dst` in HBM, by row indices too, combined with `src`."""
    recording = current()
    recording.note(
        "a DMA that combines with what is there is a load, an addition on Vector and a store (assumed); with "
        "equal row indices the last one counts"
    )
    shape = _tile_shape(src.shape)
    if dst.is_on_chip or shape[0] > NUM_PARTITIONS:
        raise KernelError(f"{dst!r}: reading, combining and writing back needs up to 128 rows of HBM")
    held = recording.new(shape, dst.dtype, SBUF)
    recording.move(held, dst, None, skips)
    if not src.is_on_chip:
        given = recording.new(shape, src.dtype, SBUF)
        recording.move(given, src)
        src = given
    recording.actions.binary_into(held, name_of(op), held, src if src.shape == shape else src.reshape(*shape))
    return held


def dma_transpose(
    dst: object,
    src: Tensor,
    axes: Sequence[int] | None = None,
    dtype: object = None,
    mask: object = None,
) -> Tensor:
    """A transposing DMA; `mask`: of the source."""
    order = tuple(axes) if axes else {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(src.ndim, ())
    if len(order) != src.ndim or order not in ((1, 0), (2, 1, 0), (3, 1, 2, 0)):
        raise KernelError(f"dma_transpose of {src!r} with axes {axes}: expected (1,0), (2,1,0) or (3,1,2,0)")
    recording = current()
    shape = tuple(src.shape[axis] for axis in order)
    if dst is None:
        dst = recording.new(shape, dtype or src.dtype, SBUF)
    assert isinstance(dst, Tensor)
    if src.is_on_chip:
        through = recording.new(src.shape, src.dtype, HBM, "transposed")
        recording.move(through, src)
        src = through
    box = box_of(mask, src.shape)
    if box is None and _turns_at_full_rate(dst, src, spec_in_use()):
        recording.move(dst, src.permute(order)).values["turns"] = True
        return dst
    recording.note("a transposing DMA of this shape is charged as one that moves single elements (assumed)")
    if box is None:
        recording.move(dst, src.permute(order))
        return dst
    part = tuple(box[axis] for axis in order)
    recording.move(dst.boxed(part), src.boxed(box).permute(order))
    recording.keep_part(dst, part)
    return dst


def _turns_at_full_rate(dst: Tensor, src: Tensor, spec: NeuronSpec) -> bool:
    """Whether the DMA engines turn a tensor at the rate of `dma_transpose_rate`.

    # Ref: ARCH3 (trainium2_arch, DMA transpose): elements of 2 and 4 bytes; best where the result has a
    # multiple of 128 partitions and of 16 elements side by side. Assumed: other shapes move single elements.
    """
    is_dense = dst.ndim == 2 and dst.steps[1] == 1 and src.ndim == 2 and src.steps[1] == 1
    return (
        spec.version >= 3
        and is_dense
        and dst.is_on_chip
        and dst.dtype == src.dtype
        and dst.itemsize in (2, 4)
        and dst.shape == src.shape[::-1]
        and dst.shape[0] % NUM_PARTITIONS == 0
        and dst.shape[1] % _SIDE_BY_SIDE == 0
    )


def tensor_copy(
    dst: object, src: object, engine: object = None, mask: object = None, dtype: object = None
) -> Tensor:
    """dst = src, cast."""
    data = tile(src, "tensor_copy src")
    return run("tensor_copy", dst, data.shape, dtype or data.dtype, (data,), mask, engine=engine_of(engine))


def tensor_copy_predicated(
    dst: object, src: object, predicate: object, reverse_pred: bool = False, mask: object = None
) -> None:
    """dst = src where predicate is not 0."""
    target, chosen = (
        tile(dst, "tensor_copy_predicated dst"),
        tile(predicate, "tensor_copy_predicated predicate"),
    )
    if reverse_pred:
        chosen = current().actions.binary("equal", chosen, 0, "uint8")
    value = number(src)
    if value is not None:
        filled = current().new(target.shape, target.dtype, SBUF)
        current().step("memset", filled, (), value=value)
        src = filled
    run(
        "copy_predicated",
        target,
        target.shape,
        target.dtype,
        (tile(src, "tensor_copy_predicated src"), chosen),
        mask,
    )


def memset(
    dst: object,
    value: object,
    engine: object = None,
    shape: Sequence[int] = (),
    dtype: object = None,
    mask: object = None,
) -> Tensor:
    """dst = value."""
    found = needed_number(value, "memset")
    sizes = dst.shape if isinstance(dst, Tensor) else tuple(shape)
    return run("memset", dst, sizes, dtype or FLOAT32, (), mask, value=found)


def load_transposed(src: Tensor, dtype: object = None) -> Tensor:
    """HBM to a new SBUF tile, transposed: float32 in rows, turned on PE, what PE has no room for by DMA.

    Dimensions after the first one are one, as in nc_transpose.
    """
    recording = current()
    if src.ndim > 2:
        src = src.reshape(src.shape[0], prod(src.shape[1:]))
    wanted = dtype_of(dtype or src.dtype)
    is_fitting = src.ndim == 2 and 32 < src.shape[1] <= NUM_PARTITIONS
    if wanted != FLOAT32 or src.dtype != FLOAT32 or not is_fitting or recording.is_placed:
        return dma_transpose(None, src, (1, 0), dtype)
    recording.note(
        "load_transpose2d of float32 loads rows and turns them on PE, of other types it is a transposing DMA "
        "(assumed: the vendor's DMA turns elements of 2 bytes only)"
    )
    rows, columns = src.shape
    made = recording.new((columns, rows), wanted, SBUF)
    for first in range(0, rows, NUM_PARTITIONS):
        end = min(first + NUM_PARTITIONS, rows)
        turned = nc_transpose(None, load(src.slice(0, first, end)))
        tensor_copy(made.slice(1, first, end), turned)
    return made


def nc_transpose(
    dst: object, data: object, engine: object = None, mask: object = None, dtype: object = None
) -> Tensor:
    """[P, F] to [F, P] on PE, or on Vector, which turns 32 x 32 at a time."""
    source = tile(data, "nc_transpose data")
    shape = (prod(source.shape[1:]), source.shape[0])
    wanted = engine_of(engine)
    is_small = max(shape) <= VECTOR_BLOCK
    if wanted is None:
        wanted = (
            Engine.DVE if is_small and not (isinstance(dst, Tensor) and dst.buffer == PSUM) else Engine.PE
        )
    if isinstance(dst, Tensor) and engine in (None, 0):
        wanted = Engine.PE if dst.buffer == PSUM and source.buffer == SBUF else Engine.DVE
    if wanted == Engine.PE and current().is_placed and current().version == 1:
        raise KernelError(
            "nc_transpose on the Tensor engine needs a hidden identity, in a kernel that places its tiles: "
            "multiply by an identity of its own",
            "err_transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
        )
    if shape[0] > 128:
        raise KernelError(f"nc_transpose of {source!r}: at most 128 elements a partition")
    if wanted == Engine.PE and source.buffer == PSUM:
        source = tensor_copy(None, source)
    if wanted == Engine.DVE and not is_small:
        current().note(
            f"nc_transpose on Vector is one instruction for each {VECTOR_BLOCK} x {VECTOR_BLOCK} of a larger "
            "tile (it turns no more at a time)"
        )
    space = PSUM if wanted == Engine.PE else SBUF
    return run("transpose", dst, shape, dtype or source.dtype, (source,), mask, space, engine=wanted)


def nc_stream_shuffle(
    dst: object, src: object, shuffle_mask: Sequence[int], mask: object = None, dtype: object = None
) -> Tensor:
    """Partitions reordered inside of each quadrant of 32."""
    source = tile(src, "nc_stream_shuffle src")
    return run(
        "stream_shuffle",
        dst,
        source.shape,
        dtype or source.dtype,
        (source,),
        mask,
        order=tuple(int(k) for k in shuffle_mask),
    )
