"""Rows repeated over partitions that Vector and Scalar read where the product has left them, in PSUM.

The compiler repeats a row by a product with ones. A row of up to a bank needs no copy to SBUF where the turn
that made it reads it by instructions that take operands from PSUM; a longer one is copied by Scalar.
# Assumed, from KDA on trn2: Scalar works 0.36 ms in mamba with rows of 512 columns, 0.75 and 0.73 with rows
# of 896 and 1,024, which is two more passes over all columns. Where the kernel itself copies such rows
# (mamba_v3), Vector works 0.24 ms longer, which is those two passes on Vector. On trn1 a
# kernel of mamba with rows of 512 columns (autocomp) takes 0.362 ms: 0.363 here, 0.49 if they are copied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.nki.hoisting import REPEATS, fullest, loops_of, redirected
from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step, storages_of
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, Storage
from npuviz.targets.neuroncore.spec import NeuronSpec

_FROM_PSUM = frozenset(
    (
        *("tensor_tensor", "tensor_scalar", "scalar_tensor_tensor", "scan", "activation", "tensor_copy"),
        "tensor_reduce",
    )
)
"""Steps of Vector or Scalar, which read PSUM."""


def rows_in_psum(recording: Recording, steps: Sequence[Step], spec: NeuronSpec) -> tuple[list[Step], int]:
    """The steps without copies of repeated rows that need none, and how many; Scalar does the others."""
    readers: dict[int, list[Step]] = {}
    writers: dict[int, list[Step]] = {}
    for step in steps:
        for storage in storages_of(step):
            readers.setdefault(storage.id, []).append(step)
        if step.target is not None:
            writers.setdefault(step.target.storage.id, []).append(step)
    turns = [loops_of(moment) for moment in recording.moments]
    moved: dict[int, int] = {}
    for step in steps:
        product, target = step.sources[0] if step.sources else None, step.target
        if not _is_copy(step) or target is None or product is None:
            continue
        copy = target.storage
        is_whole = copy.shape == product.storage.shape and copy.dtype == product.dtype
        reads = [each for each in readers[copy.id] if each is not step]
        turn = turns[step.moment]
        if is_whole and len(writers[copy.id]) == 1 and all(_can_read(each, turn, turns) for each in reads):
            moved[copy.id] = product.storage.id
    found = [
        _on(Engine.DVE, redirected(step, moved)) if _is_read(step, moved) else step
        for step in steps
        if not (_is_copy(step) and step.target is not None and step.target.storage.id in moved)
    ]

    def banks(storage: Storage) -> int:
        return -(-storage.shape[1] * storage.dtype.itemsize // spec.psum_bank_bytes)

    if fullest(found, banks, PSUM) > spec.num_psum_banks:
        found, moved = list(steps), {}
    return [_on(Engine.ACTIVATION, step) if _is_copy(step) else step for step in found], len(moved)


def _on(engine: Engine, step: Step) -> Step:
    """A copy, on this engine where it leaves the choice open; other steps as they are."""
    if step.op != "tensor_copy" or step.values.get("engine") is not None:
        return step
    return replace(step, values={**step.values, "engine": engine})


def _is_read(step: Step, moved: Mapping[int, int]) -> bool:
    return any(each is not None and each.storage.id in moved for each in step.sources)


def _is_copy(step: Step) -> bool:
    return step.op == "tensor_copy" and bool(step.values.get(REPEATS))


def _can_read(step: Step, turn: object, turns: Sequence[object]) -> bool:
    """Whether a step reads a tile of a turn from PSUM as well, in that turn."""
    is_there = step.moment >= 0 and turns[step.moment] == turn
    return is_there and step.op in _FROM_PSUM and step.values.get("engine") != Engine.POOL
