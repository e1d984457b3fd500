"""What the documentation of nki.isa says about operands, generation 2: a call that breaks it is told so.

# Ref: aws-neuron-sdk 81ce03ae, nki/api/nki/isa/__init__.py, the sections of each function; release-notes
# components/nki.rst (memset: 0.3.0, dma_transpose: 0.4.0, partitions: 0.6.0)
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from math import prod
from types import FunctionType
from typing import Any

from npuviz.targets.neuroncore.nki.record.element_types import packed_name
from npuviz.targets.neuroncore.nki.record.errors import REFUSED, KernelError
from npuviz.targets.neuroncore.nki.record.machine_in_use import spec_in_use
from npuviz.targets.neuroncore.nki.record.names import name_of
from npuviz.targets.neuroncore.nki.record.recording import current, is_recording
from npuviz.targets.neuroncore.nki.record.tensors import PSUM, Tensor

NAME = "NkiValidationError"
"""Name of the errors."""
Given = Mapping[str, Any]
"""Arguments of a call by name; those that it leaves out are not there."""
Rule = Callable[[str, Given], None]
"""Raises KernelError where the arguments of a function break it."""
ENGINE_NAMES = ("unknown", "tensor", "scalar", "gpsimd", "dma", "vector", "sync")
CORES = {2: "trn1", 3: "trn2", 4: "trn3"}
"""The first chip with each generation of the core."""
TENSOR, SCALAR, GPSIMD, VECTOR, SYNC = 1, 2, 3, 5, 6
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
FLOAT8 = ("float8_e4m3", "float8_e5m2", "float8_e4m3fn")
PRODUCTS = ("float32", "bfloat16", "float16", *FLOAT8)
PACKED_BY_FOUR = ("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4")
BITWISE = frozenset(
    ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "invert", "left_shift", "right_shift")
)
COMPARISONS = frozenset(("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"))
UNARY = frozenset(
    ("abs", "absolute", "square", "relu", "rsqrt", "reciprocal", "invert", "bitwise_not", "logical_not")
)
"""Operators that take one operand."""


def warn(call: str, text: str) -> None:
    """Tell, once for each line, that the vendor's compiler refuses a call."""
    if is_recording():
        recording = current()
        recording.note(f"{REFUSED}: {recording.where(recording.place())}: {call}: {text}")


def wrong(call: str, text: str) -> KernelError:
    """The error of a call."""
    return KernelError(f"{call}: {text}", NAME)


def type_name(tensor: Tensor) -> str:
    """The name of a tensor's element type."""
    return packed_name(tensor.dtype) or tensor.dtype.name


def elements(tensor: Tensor) -> int:
    """Elements of one partition."""
    return prod(tensor.shape[1:])


# --- rules of single operands ------------------------------------------------------------------------


def of_types(allowed: tuple[str, ...], *operands: str) -> Rule:
    """Operands that are tiles have one of these element types."""

    def check(call: str, given: Given) -> None:
        for what in operands:
            tensor = given.get(what)
            if isinstance(tensor, Tensor) and type_name(tensor) not in allowed:
                raise wrong(
                    call,
                    f"{what} {tensor!r} must be {listed(allowed)}; tensor_copy it to a tile of such a type",
                )

    return check


def lies_in(memories: tuple[str, ...], *operands: str) -> Rule:
    """Operands that are tensors lie in one of these memories."""

    def check(call: str, given: Given) -> None:
        for what in operands:
            tensor = given.get(what)
            if isinstance(tensor, Tensor) and tensor.buffer not in memories:
                raise wrong(call, f"{what} {tensor!r} must lie in {listed([m.upper() for m in memories])}")

    return check


def has_elements(operand: str, least: int, most: int = 0) -> Rule:
    """An operand has that many elements in each partition."""
    wanted = f"{least} to {most}" if most else str(least)

    def check(call: str, given: Given) -> None:
        tensor = given.get(operand)
        if isinstance(tensor, Tensor) and not least <= elements(tensor) <= (most or least):
            raise wrong(
                call,
                f"{operand} {tensor!r} has {elements(tensor)} elements in each partition, must be {wanted}",
            )

    return check


def one_of(parameter: str, *allowed: str) -> Rule:
    """A parameter that is an operator is one of these."""

    def check(call: str, given: Given) -> None:
        op = given.get(parameter)
        if op is not None and name_of(op) not in allowed:
            raise wrong(call, f"{parameter} {name_of(op)} must be {listed(allowed)}")

    return check


def none_of(parameters: tuple[str, ...], names: frozenset[str], what: str) -> Rule:
    """Parameters that are operators are none of these."""

    def check(call: str, given: Given) -> None:
        for parameter in parameters:
            op = given.get(parameter)
            if op is not None and name_of(op) in names:
                raise wrong(call, f"{parameter} {name_of(op)}: {what}")

    return check


def equals(parameter: str, value: object, reason: str) -> Rule:
    """A parameter has the only value that it may have."""

    def check(call: str, given: Given) -> None:
        if parameter in given and given[parameter] is not None and given[parameter] != value:
            raise wrong(call, f"{parameter}={given[parameter]!r}: {reason}")

    return check


# --- rules between operands --------------------------------------------------------------------------


def same_type(first: str, second: str) -> Rule:
    """Two tensors have the same element type."""
    return _between(
        first,
        second,
        lambda a, b: type_name(a) != type_name(b),
        lambda a, b: f"{first} {a!r} and {second} {b!r} must have the same element type",
    )


def same_elements(first: str, second: str) -> Rule:
    """Two tensors have as many elements in each partition."""
    return _between(
        first,
        second,
        lambda a, b: elements(a) != elements(b),
        lambda a, b: f"{first} {a!r} and {second} {b!r}: {elements(a)} and {elements(b)} elements",
    )


def not_both_in_psum(first: str, second: str) -> Rule:
    """Vector reads one operand from PSUM, not two."""
    return _between(
        first,
        second,
        lambda a, b: a.buffer == b.buffer == PSUM,
        lambda a, b: f"{first} {a!r} and {second} {b!r} lie both in PSUM; copy one of them to SBUF",
    )


def _between(
    first: str,
    second: str,
    is_wrong: Callable[[Tensor, Tensor], bool],
    text: Callable[[Tensor, Tensor], str],
) -> Rule:
    """A rule about two operands, where both are tensors."""

    def check(call: str, given: Given) -> None:
        a, b = given.get(first), given.get(second)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and is_wrong(a, b):
            raise wrong(call, text(a, b))

    return check


def one_value(operand: str, data: str) -> Rule:
    """An operand that is a tile has one element in each partition of another one."""

    def check(call: str, given: Given) -> None:
        a, b = given.get(operand), given.get(data)
        if isinstance(a, Tensor) and isinstance(b, Tensor) and (a.shape[0], a.size) != (b.shape[0],) * 2:
            raise wrong(call, f"{operand} {a!r} must be [{b.shape[0]}, 1], one value for each partition")

    return check


# --- rules of engines and chips ----------------------------------------------------------------------


def from_version(version: int) -> Rule:
    """The function is there from a generation of the core on."""

    def check(call: str, _: Given) -> None:
        if spec_in_use().version < version:
            raise wrong(
                call,
                f"NeuronCore-v{version} ({CORES[version]}) or newer only, this one is "
                f"v{spec_in_use().version}; --preset {CORES[version]}",
            )

    return check


def on_engines(*allowed: int) -> Rule:
    """The engine that a call asks for is one of these; GpSimd reaches no PSUM."""

    def check(call: str, given: Given) -> None:
        engine = int(given.get("engine") or 0)
        if engine and engine not in allowed:
            raise wrong(
                call,
                f"engine {ENGINE_NAMES[engine] if engine < len(ENGINE_NAMES) else engine} must be "
                f"{listed([ENGINE_NAMES[each] for each in allowed])}",
            )
        if engine == GPSIMD:
            for what, tensor in given.items():
                if isinstance(tensor, Tensor) and tensor.buffer == PSUM:
                    raise wrong(
                        call,
                        f"{what} {tensor!r} lies in PSUM, which the gpsimd engine does not reach; use vector",
                    )

    return check


def bits_need_integers(*operators: str, operands: tuple[str, ...]) -> Rule:
    """Bitwise operators take and give integers, and go together with their like only, on Vector."""

    def check(call: str, given: Given) -> None:
        names = [name_of(given[each]) for each in operators if given.get(each) is not None]
        bitwise = [name in BITWISE for name in names]
        if not any(bitwise):
            return
        if not all(bitwise):
            raise wrong(call, f"{' and '.join(names)}: both operators must be bitwise, or both arithmetic")
        if int(given.get("engine") or 0) not in (0, VECTOR):
            raise wrong(call, f"{names[0]} must run on the vector engine")
        of_types((*INTEGERS, "bool"), *operands)(f"{call} with {names[0]}", given)

    return check


def listed(names: Any) -> str:
    """Names as a choice: "a, b or c"."""
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else str(last)


# --- applying ----------------------------------------------------------------------------------------


def check_operands(
    names: dict[str, Any],
    rules: Mapping[str, tuple[Rule, ...]],
    general: Callable[[FunctionType], tuple[Rule, ...]],
    prefix: str = "",
) -> None:
    """Make the functions among these that have rules look at their operands before they run;
    errors name them with a prefix.

    rules    those of single functions
    general  gives those that a function has because of its parameters; they come first
    """
    for name, function in list(names.items()):
        if isinstance(function, FunctionType) and not name.startswith("_"):
            found = (*general(function), *rules.get(name, ()))
            if found:
                names[name] = _checked(function, found, f"{prefix}{name}")


def _checked(function: FunctionType, rules: tuple[Rule, ...], name: str) -> Any:
    parameters = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(parameters, args, strict=False))
        given.update(kwargs)
        for rule in rules:
            rule(name, given)
        return function(*args, **kwargs)

    return call
