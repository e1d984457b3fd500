"""What calls of nki.isa have in common: their operands, and the step that they become."""

import functools
import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from npuviz.targets.neuroncore.isa import Engine, ReduceCmd
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.numbers import is_column, number
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import SBUF, Tensor, boxes_of

ENGINES: dict[int, Engine | None] = {
    0: None, 1: Engine.PE, 2: Engine.ACTIVATION, 3: Engine.POOL, 4: None, 5: Engine.DVE, 6: Engine.SP,
}  # fmt: skip
"""Engine by the number of `nki.isa.engine`."""


def tile(value: object, what: str, memory: str = "") -> Tensor:
    """An operand on the chip, in `memory` if that is given. Raises KernelError."""
    if not isinstance(value, Tensor):
        if hasattr(value, "blocks"):
            raise KernelError(
                f"{what}: {value!r} has block dimensions before the partition dimension; take one tile of it",
                "err_failed_to_infer_tile_from_local_tensor",
            )
        raise KernelError(f"{what}: expected a tile, found {value!r}", "err_unsupported_memory")
    if not value.is_on_chip:
        raise KernelError(f"{what}: {value!r} lies in HBM; load it first", "err_unsupported_memory")
    if memory and value.buffer != memory:
        raise KernelError(f"{what}: {value!r} must lie in {memory.upper()}", "err_unsupported_memory")
    return value


def engine_of(engine: object) -> Engine | None:
    """The engine that a kernel asks for, None if it leaves the choice."""
    return ENGINES.get(int(engine)) if engine is not None else None  # type: ignore[call-overload]


def command_of(value: object) -> ReduceCmd:
    """The command of the accumulators that a kernel gives. Raises KernelError."""
    try:
        return ReduceCmd(int(value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise KernelError(f"reduce_cmd={value!r} is no command") from None


def run(
    kind: str,
    dst: object,
    shape: Sequence[int],
    dtype: object,
    sources: Sequence[Tensor | None],
    mask: object = None,
    space: str = SBUF,
    **values: Any,
) -> Tensor:
    """Append a step that writes `dst`, or a new tile; returns what is written."""
    recording = current()
    box = boxes_of(mask, tuple(shape))
    if dst is None:
        return recording.result(kind, shape, dtype, sources, box, space, **values)
    target = tile(dst, f"{kind} dst")
    recording.step(kind, target, sources, box, **values)
    return target


def refuse(call: str, **given: object) -> None:
    """Raise KernelError for parameters that would change the result and are not simulated."""
    names = [name for name, value in given.items() if value is not None and value is not False]
    if names:
        raise KernelError(f"{call} with {', '.join(f'{name}=' for name in names)} is not simulated yet")


def same_partitions(a: Tensor, b: Tensor, what: str) -> None:
    """Raise KernelError unless both have as many partitions."""
    if a.shape[0] != b.shape[0]:
        raise KernelError(
            f"{what}: partition dimensions {a.shape[0]} and {b.shape[0]} differ: "
            "take as many rows of both, or broadcast_to",
            "err_num_partition_mismatch",
        )


def operand(value: object, data: Tensor, what: str, error: str = "") -> tuple[Tensor | None, float | int]:
    """A number, or one value a partition. Raises KernelError, with a name of NKI's own."""
    found = number(value)
    if found is not None:
        return None, found
    if value is None:
        return None, 0.0
    column = tile(value, what)
    if not is_column(column, (data.shape[0], 2)):
        raise KernelError(f"{what}: {column!r} is no number and no tile [{data.shape[0]}, 1]", error)
    return column, 0.0


_WITHOUT_EFFECT = frozenset(
    (
        "name",
        "buffer",
        "lazy_initialization",
        "max_free_vec_size",
        "experimental_flags",
        "dge_mode",
        "directives",
    )
)
"""Keywords that kernels give beside the documented ones, and that change no result."""


def refuse_unknown(names: dict[str, Any], prefix: str) -> None:
    """Make the functions of a module that swallow keywords raise KernelError for those they do not know."""
    for name, value in list(names.items()):
        is_own = isinstance(value, FunctionType) and value.__module__ == names["__name__"]
        if is_own and not name.startswith("_"):
            parameters = inspect.signature(value).parameters.values()
            if any(each.kind == each.VAR_KEYWORD for each in parameters):
                names[name] = _checked(value, f"{prefix}.{value.__name__}")


def _checked(function: FunctionType, name: str) -> Any:
    known = frozenset(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for given in kwargs:
            if given not in known and given not in _WITHOUT_EFFECT:
                raise KernelError(f"{name} has no parameter {given!r}; it has {', '.join(_named(known))}")
        return function(*args, **kwargs)

    return call


def _named(known: frozenset[str]) -> list[str]:
    return sorted(each for each in known if not each.startswith("_"))
