"""Whether a product is added to what PSUM holds."""

from npuviz.targets.neuroncore.nki.record.index import Box
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.sums import boxes_without
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Tensor

_QUADRANT = 32


def accumulates(target: Tensor, wanted: bool | None) -> bool:
    """Whether the product that the next step writes to a tile of the kernel's is added to what that holds.

    wanted  what the kernel says; None: the first write of an element overwrites, later ones add, whether or
            not the tile was read in between. Elements that were not written yet, beside others that were,
            are filled with 0 here.
    """
    # Ref: aws-neuron-sdk 81ce03ae, nki/api/nki/isa/__init__.py, nc_matmul, Accumulation mode and
    # `accumulate`; release-notes/components/nki.rst, NKI 0.6, products into overlapping regions of PSUM
    recording = current()
    if wanted is not None:
        return bool(wanted)
    mask = recording.written(target)
    if mask.any() and not mask.all():
        recording.note(
            f"nc_matmul to {target!r}, of which some elements were written before: it is added "
            "to those, the others are set to 0 by instructions of their own first (assumed)"
        )
        for box in boxes_without(mask):
            _fill(target, box)
    return bool(mask.any())


def _fill(target: Tensor, box: Box) -> None:
    """Set a part to 0. Engines begin at every 32nd partition: what lies before the part there is put back."""
    recording = current()
    (first, end), *columns = box
    while first < end:
        begin = first - (target.start + first) % _QUADRANT
        last = min(end, begin + _QUADRANT)
        before = target.boxed(((begin, first), *columns)) if begin < first else None
        held = recording.new(before.shape, before.dtype, SBUF) if before is not None else None
        if before is not None and held is not None:
            recording.step("tensor_copy", held, (before,))
        recording.step("memset", target.boxed(((begin, last), *columns)), (), value=0, fills_rest=True)
        if before is not None and held is not None:
            recording.step("tensor_copy", before, (held,), fills_rest=True)
        first = last
