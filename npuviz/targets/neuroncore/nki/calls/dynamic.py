"""Loops and registers of the second generation: their values are known while the kernel is recorded."""

import ast
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from npuviz.targets.neuroncore.nki.record.endless import endless_condition, has_exit, unlikely_end
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import whole
from npuviz.targets.neuroncore.nki.record.loops import turns
from npuviz.targets.neuroncore.nki.record.recording import current, is_recording
from npuviz.targets.neuroncore.nki.record.tensors import Tensor
from npuviz.targets.neuroncore.nki.record.variable_names import running_statement, users_frame

__all__ = ["NKIObject", "NkiTensor", "dynamic_range", "fori_loop", "while_loop"]
NkiTensor = Tensor
_PLAIN = (type(None), bool, int, float, str, tuple, Tensor, np.dtype)
_UNROLLED = (
    "loops of the hardware are unrolled: their bounds are known (assumed: without the cost of a branch)"
)


class NKIObject:
    """What kernels derive their own classes from: attributes of the class are fields, which calls give.

    A field without a value of its own is None, with and without @dataclass.
    # Ref: aws-neuron-sdk 81ce03ae, nki/get-started/nki-language-guide.rst, Class Support
    """

    def __init_subclass__(cls) -> None:
        annotations = cls.__annotations__ = inspect.get_annotations(cls)
        for name, value in list(vars(cls).items()):
            is_field = not name.startswith("_") and isinstance(value, _PLAIN)
            if is_field and name not in annotations:
                annotations[name] = Any
        for name, kind in annotations.items():
            if name not in vars(cls) and "ClassVar" not in str(kind):
                setattr(cls, name, None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = [name for each in reversed(type(self).__mro__) for name in inspect.get_annotations(each)]
        if len(args) > len(names) or not set(kwargs) <= set(names):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(names) or 'none'}")
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            setattr(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Follow the fields."""


class VirtualRegister:
    """A register: an integer that is known while the kernel is recorded.

    source  what it was loaded from: another object as soon as its value could be another one
    """

    def __init__(self, value: int, source: object = None) -> None:
        self.value = value
        self.source = source
        if is_recording():
            current().has_offsets = True

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        if is_recording():
            _check_loop(self)
        return self.value != 0

    __int__ = __index__


def _check_loop(register: VirtualRegister) -> None:
    """Raise KernelError if the register is the condition of a `while` that cannot end."""
    frame, loop = users_frame(), running_statement()
    if (
        frame is None
        or not isinstance(loop, ast.While)
        or not isinstance(loop.test, ast.Name | ast.Attribute)
    ):
        return
    key, conditions = (frame, loop.lineno), current().conditions
    current().begin_turn(frame, loop.lineno, register.value)
    if conditions.is_same(key, register.value, register.source) and not has_exit(loop):
        raise endless_condition(register.value)
    if conditions.moves_away(key, register.value):
        raise unlikely_end(register.value)


def _source_of(value: object) -> object:
    """What a condition's value comes from: another object as soon as it could be another one."""
    if isinstance(value, VirtualRegister):
        return value.source
    return value.recording.observed(value) if isinstance(value, Tensor) else None


class TurnRegister(VirtualRegister):
    """The register of a loop's turn, which kernels calculate with as with an integer."""

    def __add__(self, other: object) -> int:
        return self.value + whole(other)

    def __sub__(self, other: object) -> int:
        return self.value - whole(other)

    def __rsub__(self, other: object) -> int:
        return whole(other) - self.value

    def __mul__(self, other: object) -> int:
        return self.value * whole(other)

    def __floordiv__(self, other: object) -> int:
        return self.value // whole(other)

    def __mod__(self, other: object) -> int:
        return self.value % whole(other)

    __radd__, __rmul__ = __add__, __mul__


def _known(value: object) -> int:
    """An integer, also one of a register or of a tensor with one element. Raises KernelError."""
    return whole(int(value) if isinstance(value, bool | np.bool_) else value)


def dynamic_range(*bounds: object) -> Iterator[int]:
    """The iterations of a loop of the hardware. Raises KernelError."""
    if not 1 <= len(bounds) <= 3:
        raise KernelError(f"nl.dynamic_range takes start, stop and step, found {len(bounds)} values")
    steps = [whole(each) for each in bounds]
    if len(steps) == 3 and steps[2] <= 0:
        raise KernelError(f"nl.dynamic_range: step {steps[2]} is not above 0")
    current().note(_UNROLLED)
    yield from map(int, turns(range(*steps)))


def fori_loop(
    lower: object, upper: object, body_fun: Callable[[VirtualRegister], object], step: int = 1
) -> None:
    """body_fun(i) for i from lower to below upper; i is a register of its own in each turn."""
    for index in dynamic_range(lower, upper, step):
        body_fun(TurnRegister(index))


def while_loop(init: object, body_fun: Callable[[VirtualRegister], object]) -> None:
    """body_fun(r) for as long as r, first `init` and then what it returned last, is not 0; r is a register
    with that value.

    # Ref: aws-neuron-sdk 81ce03ae, nki/api/nki/language/__init__.py, while_loop
    """
    current().note(_UNROLLED)
    condition, loop, turn = init, object(), (0, -1)
    while value := _known(condition):
        source, turn = _source_of(condition), (value, turn[1] + 1)  # `turn` is read by call stacks
        if current().conditions.is_same(loop, value, source):
            raise endless_condition(value)
        if current().conditions.moves_away(loop, value):
            raise unlikely_end(value)
        condition = body_fun(TurnRegister(value, source))
        if condition is None:
            raise KernelError("nl.while_loop: body_fun returned nothing, it returns the next condition")


def register_alloc(x: object = None) -> VirtualRegister:
    """A register with the value of an integer, another register or one element."""
    return VirtualRegister(0 if x is None else whole(x), _source_of(x))


def register_move(dst: object, src: object) -> None:
    """dst = src, an integer or another register."""
    if not isinstance(dst, VirtualRegister):
        raise KernelError(f"register_move: {dst!r} is no register")
    dst.value, dst.source = whole(src), src.source if isinstance(src, VirtualRegister) else None


def register_load(dst: object, src: object) -> None:
    """dst = the only element of a tensor. Raises KernelError."""
    if not isinstance(dst, VirtualRegister) or not isinstance(src, Tensor):
        raise KernelError(f"register_load of {src!r} to {dst!r}: expected a tensor and a register")
    dst.value, dst.source = src.known_integer(), _source_of(src)


def register_store(dst: object, src: object) -> None:
    """One element of a tensor = a register's known value."""
    if not isinstance(dst, Tensor) or not dst.is_on_chip or dst.size != 1:
        raise KernelError(f"register_store: {dst!r} is no tile of one element")
    current().step("memset", dst, (), value=whole(src))
