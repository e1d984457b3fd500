"""Tiles that begin at a partition where no engine can begin: they move by DMA to one where it can."""

from npuviz.targets.neuroncore.nki.record.recording import Recording
from npuviz.targets.neuroncore.nki.record.steps import Step
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Tensor

_BY_DMA = frozenset(("load", "store", "dma_copy", "gather", "scatter"))
_READING_TARGET = frozenset(("copy_predicated", "stream_shuffle"))
NOTE = (
    "tiles that begin where engines cannot begin (up to 32 partitions: at 0, 32, 64, 96; up to 64: 0, "
    "64; more: 0) are copied by DMA (assumed)"
)


def can_begin(start: int, count: int) -> bool:
    """Whether an engine takes `count` partitions from `start`. Ref: NC 1.4."""
    return start % (32 if count <= 32 else 64 if count <= 64 else 128) == 0


def with_copies(recording: Recording) -> list[Step]:
    """The steps, with those copies that generation 1 leaves to the compiler; generation 2 has none."""
    if recording.version > 1 or all(_fits(each) for each in recording.steps):
        return recording.steps
    recording.note(NOTE)
    made: list[Step] = []
    for step in recording.steps:
        made += [step] if _fits(step) else _moved(recording, step)
    return made


def _wrong(step: Step, tensor: Tensor | None) -> bool:
    return (
        tensor is not None
        and tensor.storage.space == SBUF
        and step.op not in _BY_DMA
        and not can_begin(tensor.start, tensor.shape[0])
    )


def _fits(step: Step) -> bool:
    return not any(_wrong(step, each) for each in (step.target, *step.sources, *step.more))


def _moved(recording: Recording, step: Step) -> list[Step]:
    """The step on tiles that begin at partition 0, between copies."""
    before: list[Step] = []
    after: list[Step] = []
    twins: dict[int, Tensor] = {}

    def twin(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or not _wrong(step, tensor):
            return tensor
        found = twins.get(id(tensor))
        if found is None:
            found = twins[id(tensor)] = recording.new(tensor.shape, tensor.dtype, SBUF)
        return found

    for source in step.sources:
        if source is not None and _wrong(step, source) and id(source) not in twins:
            before.append(Step("dma_copy", twin(source), (source,), {}, step.place, moment=step.moment))
    for target in (step.target, *step.more):
        if target is not None and _wrong(step, target):
            copy = twin(target)
            if step.op in _READING_TARGET:
                before.append(Step("dma_copy", copy, (target,), {}, step.place, moment=step.moment))
            after.append(Step("dma_copy", target, (copy,), {}, step.place, moment=step.moment))
    sources = tuple(twin(each) for each in step.sources)
    more = tuple(each for each in (twin(every) for every in step.more) if each is not None)
    changed = Step(step.op, twin(step.target), sources, step.values, step.place, step.box, more, step.moment)
    return [*before, changed, *after]
