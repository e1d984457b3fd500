"""Views whose elements a tile of offsets picks: gathered before the instruction that reads one, scattered
after the one that writes one."""

from collections.abc import Mapping
from math import prod
from typing import Any, Protocol

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.tensors import HBM, SBUF, Tensor

GROUP, GROUP_OF_PE = 16, 32
"""Partitions whose offsets are taken one after the other. Ref: SDK language, NkiTensor.indirect."""
VERSION = 4
"""NeuronCore from which on engines follow offsets. Ref: ARCH4."""
QUADRANT = 32
_TENSOR_ENGINE = frozenset(("matmul", "matmul_mx"))
READERS: Mapping[str, tuple[int, ...]] = {
    "tensor_copy": (0,), "copy_predicated": (1,), "matmul": (0, 1), "matmul_mx": (0, 1, 2, 3),
    "tensor_tensor": (0,), "tensor_scalar": (0,), "tensor_reduce": (0,), "activation": (0,),
    "accumulating": (0,),
}  # fmt: skip
"""Step -> sources that may be such views; all of them may write one. Ref: SDK isa, "Tensor indirection"."""


class _Recorder(Protocol):
    def new(self, shape: Any, dtype: object, space: str) -> Tensor: ...
    def step(self, kind: str, target: Tensor | None, sources: Any, **values: Any) -> Any: ...
    def note(self, text: str) -> None: ...


def picked(tensor: Tensor, index: Any, num_elem: int | None = None) -> Tensor:
    """The elements of each partition at `num_elem` offsets of a tile. Raises KernelError."""
    if spec_in_use().version < VERSION:
        raise KernelError(f"{tensor!r}: .indirect() needs NeuronCore-v{VERSION} (trn3) or newer")
    if not isinstance(index, Tensor) or index.storage.space != SBUF or index.dtype.kind not in "iu":
        raise KernelError(
            f"{tensor!r}: .indirect() takes offsets in a tile of integers in SBUF, found {index!r}"
        )
    if not tensor.is_on_chip or tensor.picks is not None:
        raise KernelError(f"{tensor!r}: .indirect() takes a tile that no offsets pick from yet")
    if index.shape[0] != tensor.shape[0] or index.start % QUADRANT:
        raise KernelError(
            f"{tensor!r}: offsets {index!r} have as many partitions as the tile, and begin at a multiple of "
            f"{QUADRANT} (found {index.start})"
        )
    held = prod(index.shape[1:]) * min(GROUP_OF_PE, index.shape[0])
    count = min(index.size, held) if num_elem is None else int(num_elem)
    if not 0 < count <= held:
        raise KernelError(
            f"{tensor!r}: .indirect() of {count} elements, {index!r} holds up to {held} offsets"
        )
    made = tensor.viewed((tensor.shape[0], count), (1, 1))
    made.picks = (tensor, index)
    return made


def resolved(
    recorder: _Recorder,
    kind: str,
    target: Tensor | None,
    sources: tuple[Tensor | None, ...],
    values: Mapping[str, Any],
) -> tuple[Tensor | None, tuple[Tensor | None, ...]]:
    """What the step `kind` writes and reads in place of such views; those that it reads are gathered now."""
    group = GROUP_OF_PE if kind in _TENSOR_ENGINE else GROUP
    found = list(sources)
    for number, each in enumerate(sources):
        if each is not None and each.picks is not None:
            _check(kind, each, number, values)
            found[number] = _gathered(recorder, each, group)
    if target is None or target.picks is None:
        return target, tuple(found)
    _check(kind, target, -1, values)
    if kind == "copy_predicated" or values.get("accumulate"):  # what it holds counts
        return _gathered(recorder, target, group), tuple(found)
    return recorder.new(target.shape, target.dtype, target.storage.space), tuple(found)


def scatter(recorder: _Recorder, kind: str, view: Tensor, made: Tensor) -> None:
    """Bring the result of a step to where the offsets of a view say."""
    assert view.picks is not None
    group = GROUP_OF_PE if kind in _TENSOR_ENGINE else GROUP
    base, index = view.picks
    _check_count(view, group)
    _note(recorder)
    recorder.step("indirect", base, (made, index), count=view.shape[1], group=group, scatters=True)


def _gathered(recorder: _Recorder, view: Tensor, group: int) -> Tensor:
    assert view.picks is not None
    base, index = view.picks
    _check_count(view, group)
    _note(recorder)
    made = recorder.new(view.shape, view.dtype, view.storage.space)
    recorder.step("indirect", made, (base, index), count=view.shape[1], group=group, scatters=False)
    return made


def _note(recorder: _Recorder) -> None:
    recorder.note(
        "an operand by .indirect() is an instruction of Vector before or after the one that has it "
        "(assumed: on the chip engines follow the offsets themselves); offsets are those of the first 16 "
        "partitions, 32 for the Tensor engine"
    )


def _check_count(view: Tensor, group: int) -> None:
    assert view.picks is not None
    held = prod(view.picks[1].shape[1:]) * group
    if view.shape[1] > held:
        raise KernelError(f"{view!r}: {view.shape[1]} offsets, {group} partitions hold {held}")


def _check(kind: str, view: Tensor, position: int, values: Mapping[str, Any]) -> None:
    """Raise KernelError for an operand that no offsets may pick."""
    assert view.picks is not None
    base, index = view.picks
    if kind not in READERS or (position >= 0 and position not in READERS[kind]):
        raise KernelError(f"{kind}: {view!r} by .indirect() is no operand that it takes")
    if position >= 0 and base.start != index.start and base.storage.space != HBM:
        raise KernelError(
            f"{kind}: {base!r} begins at partition {base.start}, its offsets {index!r} at {index.start}"
        )
    if kind == "matmul" and position >= 0 and (view.dtype.itemsize > 2 or view.dtype.kind in "iu"):
        raise KernelError(f"nc_matmul: {view!r} by .indirect() is no float of 1 or 2 bytes")
