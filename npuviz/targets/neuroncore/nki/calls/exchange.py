"""What instances of a kernel do together: tiles sent to each other, barriers; DMAs that compute."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.nki.calls.instances import NeedsInstances, are_waiting, meeting
from npuviz.targets.neuroncore.nki.calls.movement import combined, is_skipping
from npuviz.targets.neuroncore.nki.calls.operands import tile
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import whole
from npuviz.targets.neuroncore.nki.record.names import name_of
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Tensor
from npuviz.targets.neuroncore.strides import dense_steps

_MAX_SOURCES = 16


def sendrecv(src: object, dst: object, send_to: object, receive_from: object, pipe: object) -> None:
    """src goes to another instance, dst gets what that sends. Raises KernelError without a partner."""
    recording = current()
    given, target = tile(src, "sendrecv src"), tile(dst, "sendrecv dst")
    other, sender = whole(send_to), whole(receive_from)
    own = recording.program[-1] if recording.program else 0
    if given.shape != target.shape or given.dtype != target.dtype:
        raise KernelError(f"sendrecv of {given!r} to {target!r}: shapes and types are the same")
    recording.note(
        "sendrecv: instances of the kernel run on one core; what they send is copied by DMA (assumed)"
    )

    def exchange(posted: dict[int, tuple[Tensor, Tensor, int]]) -> None:
        sent = {number: tensors[0] for number, tensors in posted.items()}
        if any(first.storage is second.storage for first, second, _ in posted.values()):
            for number, tensor in sent.items():
                kept = sent[number] = recording.new(tensor.shape, tensor.dtype, SBUF)
                recording.move(kept, tensor)
        for _, receiver, source in posted.values():
            recording.move(receiver, sent[source])

    members = tuple(sorted({own, other, sender}))
    if not meeting(f"sendrecv {pipe}", members, (given, target, sender), exchange):
        raise KernelError(f"sendrecv with {other}: the kernel has one instance; run it with --grid 2")


def core_barrier(cores: Sequence[int]) -> None:
    """Wait for the other cores' instances."""
    if not meeting("core_barrier", tuple(cores) if len(current().grid) else (), None, lambda _: None):
        current().note("core_barrier: one core runs, nothing to wait for")


def all_reduce(x: object, op: object, axes: Sequence[int], dtype: object = None) -> Tensor:
    """A new tile: the instances' tiles combined, of those that differ along these axes of the grid only."""
    recording = current()
    given, name = tile(x, "all_reduce x"), name_of(op)
    grid, own = recording.grid or (1,), recording.program or (0,)
    if not all(-len(grid) <= axis < len(grid) for axis in axes):
        raise KernelError(f"nl.all_reduce along {list(axes)}: the grid {list(grid)} has no such axis")
    free = {axis % len(grid) for axis in axes}
    places = product(*(range(size) if at in free else (own[at],) for at, size in enumerate(grid)))
    members = tuple(sum(k * step for k, step in zip(each, dense_steps(grid), strict=True)) for each in places)
    made = recording.new(given.shape, dtype or given.dtype, SBUF)

    def then(posted: dict[int, tuple[Tensor, Tensor]]) -> None:
        total = posted[members[0]][0]
        for number in members[1:]:
            total = recording.actions.binary(name, total, posted[number][0], FLOAT32)
        for _, target in posted.values():
            recording.step("tensor_copy", target, (total,))

    if len(members) > 1 and not are_waiting():
        raise NeedsInstances
    recording.note(
        "all_reduce: instances of the kernel run on one core; Vector combines their tiles (assumed)"
    )
    if not meeting(f"all_reduce {name}", members, (given, made), then):
        recording.step("tensor_copy", made, (given,))
    return made


def dma_compute(dst: object, srcs: Sequence[object], op: object, scales: Any, oob_mode: object) -> None:
    """dst = the sum of tensors, in fp32; with rows by index on either side: what lies there included."""
    sources = [each for each in srcs if isinstance(each, Tensor)]
    if not isinstance(dst, Tensor) or len(sources) != len(srcs) or not 0 < len(sources) <= _MAX_SOURCES:
        raise KernelError(f"dma_compute: expected a tensor and 1 to {_MAX_SOURCES} sources")
    if name_of(op) != "add":
        raise KernelError(f"dma_compute: reduce_op {name_of(op)!r} is add")
    if scales is not None and any(float(each) != 1.0 for each in scales):
        raise KernelError(f"dma_compute: scales {list(scales)} are all 1.0")
    if dst.row_index is not None:
        others = [each for each in sources if each.row_index is None]
        if len(others) != 1 or len(sources) > 2:
            raise KernelError("dma_compute with vector_offset takes what lies at dst and one source")
        skips = is_skipping(oob_mode)
        current().move(dst, combined(dst, others[0], op, skips), None, skips)
        return
    for each in sources:
        if each.size != dst.size:
            raise KernelError(f"dma_compute of {each!r} to {dst!r}: {each.size} and {dst.size} elements")
    current().note("dma_compute is charged as loads, additions on Vector and a store (assumed)")
    reduced(dst, [_shaped(each, dst.shape) for each in sources], "add")


def _shaped(source: Tensor, shape: tuple[int, ...]) -> Tensor:
    return source if source.shape == shape or source.row_index is not None else source.reshape(*shape)


def reduced(dst: Tensor, sources: Sequence[Tensor], op: str) -> None:
    """dst = the sources combined, in fp32, 128 rows at a time."""
    recording = current()
    if not dst.is_on_chip and dst.ndim == 1:
        dst, sources = dst.reshape(1, -1), [each.reshape(1, -1) for each in sources]
    for first in range(0, dst.shape[0], NUM_PARTITIONS):
        rows = slice(first, min(dst.shape[0], first + NUM_PARTITIONS))
        part = dst[rows] if dst.shape[0] > NUM_PARTITIONS else dst
        total: Tensor | None = None
        for source in sources:
            given = source[rows] if dst.shape[0] > NUM_PARTITIONS else source
            if not given.is_on_chip:
                loaded = recording.new(part.shape, given.dtype, SBUF)
                recording.move(loaded, given)
                given = loaded
            total = given if total is None else recording.actions.binary(op, total, given, FLOAT32)
        assert total is not None
        if total.dtype != part.dtype:
            total = recording.actions.copied(total, part.dtype)
        recording.move(part, total)
