"""One step of a kernel, and where it comes from."""

from dataclasses import dataclass
from typing import Any

from npuviz.targets.neuroncore.nki.record.index import Box, Boxes
from npuviz.targets.neuroncore.nki.record.tensors import Storage, Tensor


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Where a step comes from: file and line of the call in the user's text, and the function."""

    file: str
    line: int
    function: str


@dataclass(slots=True)
class Step:
    """One instruction to be.

    op       a method of `lowering.Lowering`
    target   what it writes, None if nothing;  sources  what it reads
    values   everything else, by name
    is_fixed  whether it stays where it is in the kernel's order
    moment   index in `Recording.moments`
    box      the part that a mask leaves of all operands, None without one
    key      what steps that wait for it call it, 0 if the kernel asks none to
    after    keys of steps that the kernel asks it to wait for, beside those whose data it needs
    """

    op: str
    target: Tensor | None
    sources: tuple[Tensor | None, ...]
    values: dict[str, Any]
    place: int
    box: Box | Boxes | None = None
    more: tuple[Tensor, ...] = ()
    moment: int = -1
    is_fixed: bool = False
    key: int = 0
    after: tuple[int, ...] = ()


def storages_of(step: Step) -> list[Storage]:
    """What a step touches, those of row indices too."""
    found: list[Storage] = []
    for each in (step.target, *step.sources, *step.more):
        if each is not None:
            found.append(each.storage)
            if each.row_index is not None:
                found.append(each.row_index[0].storage)
    return found
