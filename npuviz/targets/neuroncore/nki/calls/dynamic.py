"""Loops and registers of the second generation whose values are known while the kernel is recorded."""

from collections.abc import Callable, Iterator

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import whole
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import Tensor

__all__ = ["NKIObject", "NkiTensor", "dynamic_range", "fori_loop", "while_loop"]
NkiTensor = Tensor
_UNROLLED = (
    "loops of the hardware are unrolled: their bounds are known (assumed: without the cost of a branch)"
)


class NKIObject:
    """What kernels derive their own classes from."""


class VirtualRegister:
    """A register whose value is known. Used as an integer."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value

    __int__ = __index__


def dynamic_range(*bounds: object) -> Iterator[int]:
    """The iterations of a loop of the hardware with known bounds. Raises KernelError."""
    if not 1 <= len(bounds) <= 3:
        raise KernelError(f"nl.dynamic_range takes start, stop and step, found {len(bounds)} values")
    steps = [whole(each) for each in bounds]
    if len(steps) == 3 and steps[2] <= 0:
        raise KernelError(f"nl.dynamic_range: step {steps[2]} is not above 0")
    current().note(_UNROLLED)
    yield from range(*steps)


def fori_loop(lower: object, upper: object, body: Callable[[int], object], step: int = 1) -> None:
    """body(i) for i from lower to below upper."""
    for index in dynamic_range(lower, upper, step):
        body(index)


def while_loop(init: object, body: object) -> None:
    """A loop whose end depends on values of the chip. Raises KernelError."""
    raise KernelError("nl.while_loop ends by a value of the chip, which is not simulated yet")


def register_alloc(x: object = None) -> VirtualRegister:
    """A register with a known value."""
    return VirtualRegister(0 if x is None else whole(x))


def register_move(dst: object, src: object) -> None:
    """dst = src, an integer or another register."""
    if not isinstance(dst, VirtualRegister):
        raise KernelError(f"register_move: {dst!r} is no register")
    dst.value = whole(src)


def register_load(dst: object, src: object) -> None:
    """A value of the chip in a register. Raises KernelError."""
    raise KernelError(f"register_load of {src!r}: registers with values of the chip are not simulated yet")


def register_store(dst: object, src: object) -> None:
    """One element of a tensor = a register's known value."""
    if not isinstance(dst, Tensor) or not dst.is_on_chip or dst.size != 1:
        raise KernelError(f"register_store: {dst!r} is no tile of one element")
    current().step("memset", dst, (), value=whole(src))
