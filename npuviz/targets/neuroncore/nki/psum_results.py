"""Results of Scalar that lie in PSUM although the kernel says SBUF, because Vector reads them faster there.

A TENSOR_TENSOR of fp32 takes two cycles an element when both inputs are in SBUF, one when one of them is in
PSUM. The vendor's compiler of generation 1 uses that where a kernel leaves PSUM free.
# Assumed, from counters: the profile of adamw on trn1 (BENCH) has 9 results that no TENSOR_TENSOR computes,
# of which 3 are written to PSUM though the kernel has all of them in nl.sbuf, and less Vector time than six
# TENSOR_TENSOR in SBUF take; silu and rope, whose results no TENSOR_TENSOR reads alone, write none.
"""

from collections.abc import Sequence

from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.nki.engine_choice import engine_for
from npuviz.targets.neuroncore.nki.record.element_types import FLOAT32
from npuviz.targets.neuroncore.nki.record.steps import Step
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, SBUF, Site, Storage
from npuviz.targets.neuroncore.spec import NeuronSpec


def move_results_to_psum(steps: Sequence[Step], spec: NeuronSpec, per_tile: int) -> int:
    """Change the space of results of Scalar that one TENSOR_TENSOR reads; how many tiles that were.

    per_tile  buffers that a tile of a loop has: so many banks go to what one line makes. Kernels that use
              PSUM themselves keep it for their products.
    """
    if any(
        each is not None and each.buffer == PSUM for step in steps for each in (step.target, *step.sources)
    ):
        return 0
    writers: dict[int, list[Step]] = {}
    readers: dict[int, list[Step]] = {}
    for step in steps:
        for each in (step.target, *step.more):
            if each is not None:
                writers.setdefault(each.storage.id, []).append(step)
        for each in step.sources:
            if each is not None:
                readers.setdefault(each.storage.id, []).append(step)
    free = spec.num_psum_banks // max(1, per_tile)
    chosen: set[Site] = set()
    refused: set[int] = set()
    moved = 0
    for step in steps:
        target = step.target
        if target is None or target.storage.space != SBUF or target.storage.id in refused:
            continue
        storage, site = target.storage, target.storage.site
        reads = readers.get(storage.id, [])
        if site is None or len(writers[storage.id]) != 1 or len(reads) != 1:
            continue
        if not (_fits(storage, spec) and _is_on_scalar(step, spec) and reads[0].op == "tensor_tensor"):
            continue
        if site not in chosen and len(chosen) >= free:
            continue
        chosen.add(site)
        refused |= {each.storage.id for each in reads[0].sources if each is not None}
        storage.space = PSUM
        moved += 1
    return moved


def _fits(storage: Storage, spec: NeuronSpec) -> bool:
    """Whether a tile is fp32 and no larger than a bank."""
    return storage.dtype == FLOAT32 and storage.shape[1] * storage.dtype.itemsize <= spec.psum_bank_bytes


def _is_on_scalar(step: Step, spec: NeuronSpec) -> bool:
    """Whether Scalar runs a step."""
    if step.op == "activation":
        return True
    return step.op in ("tensor_scalar", "tensor_copy") and engine_for(step, spec)[:1] == (Engine.ACTIVATION,)
