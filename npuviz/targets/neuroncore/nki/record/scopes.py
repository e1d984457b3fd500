"""Rules about where a kernel of generation 1 may make and use tensors: loops are scopes, unlike in Python."""

from pathlib import Path

from npuviz.targets.neuroncore.nki.record.call_stacks import Moment
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.tensors import Scope, Tensor

_SCOPES = frozenset(("affine_range", "sequential_range", "range"))


def scope_of(moment: Moment) -> Scope:
    """The loops around a moment whose bodies are scopes; those of helpers count where NKI has made them."""
    found: list[tuple[str, int, str, int]] = []
    for depth, call in enumerate(reversed(moment.calls)):
        for loop in call.loops:
            if loop.over in _SCOPES and (depth == 0 or loop.over != "range"):
                found.append((call.file, loop.line, loop.over, loop.value))
    return tuple(found)


def check_scope(tensor: Tensor, now: Scope) -> None:
    """Raise KernelError for a tile that is used outside of the loop, or the turn, that has made it."""
    made = tensor.storage.scope
    if made and now[: len(made)] != made:
        file, line, over, _ = next(
            a for a, b in zip(made, (*now, *made), strict=False) if a != b or a not in now
        )
        raise KernelError(
            f"{tensor!r} is made in the body of the loop of {over} at {Path(file).name}:{line} and used "
            "outside of it: make it before the loop and write [...] of it there",
            "err_local_variable_used_out_of_scope",
        )


def shared_memory_text(moment: Moment, where: str, name: str) -> str:
    """What newer compilers say to shared memory that is made at this moment, "" if nothing."""
    if len(moment.calls) <= 1 and not any(call.loops for call in moment.calls):
        return ""
    what = "in a function that the kernel calls" if len(moment.calls) > 1 else "in a loop"
    return (
        f"err_shared_hbm_must_in_kernel_level: {where}: {name or 'a tensor'} in nl.shared_hbm is made "
        f"{what}; newer compilers refuse that"
    )
