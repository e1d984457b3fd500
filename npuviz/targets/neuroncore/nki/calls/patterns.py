"""Instructions of GpSimd, and rows repeated over partitions."""

from collections.abc import Sequence
from math import prod

from npuviz.targets.neuroncore.isa import Flag
from npuviz.targets.neuroncore.nki.calls.movement import tensor_copy
from npuviz.targets.neuroncore.nki.calls.operands import run, tile
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32, NAMES, name_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import Condition, Index, Mask, broadcast_shape, whole
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.names import operator
from npuviz.targets.neuroncore.nki.record.numbers import needed_number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Tensor

# --- GpSimd ------------------------------------------------------------------------------------------


def iota(
    dst: object,
    base: int,
    steps: Sequence[int],
    multiplier: int,
    shape: Sequence[int],
    dtype: object,
    mask: object = None,
) -> Tensor:
    """base + multiplier * partition + sum(steps * index)."""
    return run(
        "iota", dst, tuple(shape), dtype, (), mask, base=base, steps=tuple(steps), multiplier=multiplier
    )


def iota_of(expression: object, dtype: object, mask: object = None) -> Tensor:
    """iota of an index expression; of a loop index or program_id alone: one element."""
    if not isinstance(expression, Index | Tensor) and hasattr(expression, "__index__"):
        expression = Index((1, 1), whole(expression), (0, 0))
    if not isinstance(expression, Index):
        raise KernelError(f"iota of {expression!r}: expected an expression of nl.arange")
    if expression.ndim < 2:
        raise KernelError("iota of a 1-D index; write nl.arange(n)[None, :]", "err_1d_arange_not_supported")
    shape = broadcast_shape(expression.shape, expression.grid)
    steps = expression.padded(len(shape))
    return iota(None, expression.const, steps[1:], steps[0], shape, dtype, mask)


def affine_select(
    dst: object,
    source: object,
    base: int,
    steps: Sequence[int],
    multiplier: int,
    op: object,
    fill: object,
    mask: object = None,
    dtype: object = None,
) -> Tensor:
    """source where the expression compares with 0, else fill."""
    data = tile(source, "affine_select on_true_tile")
    return run(
        "affine_select", dst, data.shape, dtype or data.dtype, (data,), mask,
        base=base, steps=tuple(steps), multiplier=multiplier, op=operator(op),
        fill=float(needed_number(fill, "affine_select")),
    )  # fmt: skip


def select_where(
    condition: Condition, source: Tensor, fill: object, mask: object = None, dtype: object = None
) -> Tensor:
    """source where a comparison of indices holds, else fill."""
    expression, rank = condition.expression, source.ndim
    steps = expression.padded(rank)
    return affine_select(None, source, expression.const, steps[1:], steps[0], condition.op, fill, mask, dtype)


def predicate_of(mask: Mask, shape: Sequence[int]) -> Tensor:
    """A tile of uint8 that is 1 where a mask holds, else 0."""
    recording = current()
    recording.note("a mask as a condition is a tile of ones and zeros that affine_select makes (assumed)")
    made = recording.new(tuple(shape), NAMES["uint8"], SBUF)
    recording.step("memset", made, (), value=1)
    for condition in mask.conditions:
        made = select_where(condition, made, 0)
    return made


def partition_reduce(
    dst: object, op: object, data: object, mask: object = None, dtype: object = None
) -> Tensor:
    """op over partitions: [1, N]."""
    source = tile(data, "tensor_partition_reduce data")
    if source.buffer == PSUM:
        source = tensor_copy(None, source)
    return run(
        "partition_reduce",
        dst,
        (1, *source.shape[1:]),
        dtype or source.dtype,
        (source,),
        mask,
        op=operator(op),
    )


def gather_free(dst: object, data: object, indices: object, dtype: object = None) -> Tensor:
    """dst[p, i] = data[p, indices[p, i]]."""
    source, index = tile(data, "gather data"), tile(indices, "gather indices")
    return run("gather_free", dst, index.shape, dtype or source.dtype, (source, index), None)


def nonzero_with_count(dst: object, src: object, offset: object, padding: object) -> None:
    """Positions of elements that are not 0, in partitions 0, 16, 32, ..., and their count."""
    source, target = tile(src, "nonzero_with_count src"), tile(dst, "nonzero_with_count dst")
    if spec_in_use().version < 3:
        raise KernelError("nonzero_with_count needs NeuronCore-v3 (trn2) or newer")
    if prod(target.shape[1:]) != prod(source.shape[1:]) + 1 or target.shape[0] != source.shape[0]:
        raise KernelError(
            f"nonzero_with_count: dst {target!r} must have one element more in each partition than src "
            f"{source!r}: {prod(source.shape[1:]) + 1}"
        )
    current().step(
        "nonzero_with_count", target, (source, target), offset=whole(offset), padding=whole(padding)
    )


def topk(val_dst: object, idx_dst: object, src: object, n: object) -> None:
    """The largest of n elements that 16 partitions hold in columns, rising, and their numbers."""
    values, places = tile(val_dst, "topk val_dst"), tile(idx_dst, "topk idx_dst")
    source, count = tile(src, "topk src"), whole(n)
    for each, kind in ((values, "bfloat16"), (places, "uint32"), (source, "bfloat16")):
        if name_of(each.dtype) != kind or each.buffer != SBUF:
            raise KernelError(f"topk: {each!r} must be {kind} in SBUF")
    kept = prod(values.shape[1:])
    if values.shape[0] != source.shape[0] or places.shape != values.shape:
        raise KernelError(f"topk: {values!r} and {places!r} have the partitions of {source!r} and one shape")
    if source.shape[0] % 16:
        raise KernelError(f"topk: {source!r} is no whole number of 16 partitions")
    if not 8 <= count < 65536 or not 1 <= kept <= min(count, 32767) or prod(source.shape[1:]) * 16 < count:
        raise KernelError(
            f"topk: {kept} of n = {count} elements of {source!r}; n is 8..65535 and fits into it"
        )
    current().step("topk", values, (source,), more=(places,), count=count)


# --- composites --------------------------------------------------------------------------------------


def broadcast_partitions(source: Tensor, partitions: int) -> Tensor:
    """A tile [1, ...] repeated over partitions: a product with ones on PE (as profiles of NKI show).

    It takes the passes of any product of its type: on trn2 PE works 1.53 to 1.57 ms at 458,752 rows of mamba
    (KDA, published as half of that), which is four passes of fp32 at the half rate of an array that one row
    uses, not the two passes of is_stationary_onezero.
    """
    recording = current()
    shape = (partitions, *source.shape[1:])
    made = recording.new(shape, source.dtype, SBUF, result=True)
    flat, target = source.reshape(1, -1), made.reshape(partitions, -1)
    if flat.buffer == PSUM:
        flat = tensor_copy(None, flat)
    is_marked = bool(spec_in_use().kernel_repeat_onezero)
    if source.dtype == FLOAT32:
        recording.note(
            "a row of float32 repeated over partitions is a product with ones in "
            f"{'half of the' if is_marked else 'all'} passes of float32 (assumed: --set "
            f"kernel_repeat_onezero={int(is_marked)})"
        )
    ones = recording.new((1, partitions), source.dtype, SBUF)
    recording.step("memset", ones, (), value=1.0)
    count = flat.shape[1]
    for first in range(0, count, 512):
        end = min(count, first + 512)
        product = recording.result(
            "matmul",
            (partitions, end - first),
            FLOAT32,
            (ones, flat[:, first:end]),
            None,
            PSUM,
            accumulate=False,
            hints=Flag.STATIONARY_ONEZERO * is_marked,
            repeats=True,
        )
        recording.step("tensor_copy", target[:, first:end], (product,), engine=None, repeats=True)
    return made
