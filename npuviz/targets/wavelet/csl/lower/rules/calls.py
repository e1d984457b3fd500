"""Lower calls: arguments in registers, specialisation for compile-time arguments, function pointers; task
ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue, Global, RuntimeLocal, Scope
from npuviz.targets.wavelet.csl.comptime.values import StructValue, Value
from npuviz.targets.wavelet.csl.lower.dispatch import expression, lower, lower_as
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, is_aggregate
from npuviz.targets.wavelet.csl.lower.memo import CALL, TASK, Read
from npuviz.targets.wavelet.csl.lower.operands import VOID_HELD, Held, Known, Operand, Parts, Place
from npuviz.targets.wavelet.csl.lower.rules.access import base_of
from npuviz.targets.wavelet.csl.lower.specialisation import (
    Binding,
    Fixed,
    Passed,
    Pieces,
    Specialisation,
    registers,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.kernels import isa

PURE_MODULES = ("control.csl",)
"""Library files whose functions depend on their arguments only and have no effects."""
MAX_PIECES = 64
"""Most run-time parts of an anonymous struct that is one argument."""


@expression(tree.Call)
def _call(f: FunctionLowering, node: tree.Call, want: t.Type | None, into: int) -> Operand:
    callee = callee_of(f, node.callee)
    if isinstance(callee, FunctionValue):
        return call(f, node, callee, into)
    operand = base_of(f, node.callee)
    kind = operand.type
    if isinstance(kind, t.PointerType) and isinstance(kind.pointee, t.FunctionType):
        kind = kind.pointee
    if not isinstance(kind, t.FunctionType) or kind.kind != "fn":
        raise CslError(node.callee.at, f"a value of type {operand.type} cannot be called")
    return _call_pointer(f, node, kind, operand, into)


def callee_of(f: FunctionLowering, node: tree.Expression) -> object:
    """Return the function that an expression names, or something else."""
    if not isinstance(node, tree.Name | tree.Member):
        return None
    try:
        entry: object = f.pe.resolve(node, f.scope)
    except NotComptime:
        return None
    if isinstance(entry, Global) and not entry.is_var:
        entry = f.comptime.global_value(entry)
    return entry


def call(f: FunctionLowering, node: tree.Call, callee: FunctionValue, into: int) -> Operand:
    """Lower a call of a known function."""
    if callee.is_task:
        if f.pe.arch != "wse2":
            raise CslError(node.at, f"{callee.node.name} is a task", "tasks are activated, not called")
        f.comptime.session.note_old(node.at, "a call of a task", "a function that the task calls")
    parameters = callee.node.parameters
    if len(parameters) != len(node.arguments):
        raise CslError(
            node.at, f"{callee.node.name} takes {len(parameters)} arguments, found {len(node.arguments)}"
        )
    outer = f.registers.next
    result = f.target(into)
    mark = f.registers.next
    special, operands = _evaluate_arguments(f, callee, node.arguments)
    if is_pure(callee) and all(isinstance(operand, Known) for operand in operands):
        known = _call_constant(f, callee, special, operands, node)
        if known is not None:
            f.registers.release(outer)
            return known
    if all(isinstance(binding, Fixed) for binding in special):
        folded = _call_now(f, callee, special, node)
        if folded is not None:
            f.registers.release(outer)
            return Known(folded)
    lowered = f.pe.function(callee, special)
    note_call(f, node.callee, special, lowered.index, lowered.result)
    slot = _place_arguments(f, operands, node.at)
    count = registers(special)
    return _emit_call(f, lowered.result, lowered.index, -1, (slot, count), result, mark, node.at)


def note_call(
    f: FunctionLowering, node: tree.Expression, special: Specialisation, index: int, result: t.Type
) -> None:
    """Remember that the code depends on which function `node` names."""
    if index in f.pe.under_way:
        f.can_share = False
    if f.can_share:
        f.note_read(Read.of(CALL, node, f.scope, special=special), ("call", index, result))


def is_pure(callee: FunctionValue) -> bool:
    """Return whether a call only computes: the functions of <control>, which touch nothing but their
    arguments."""
    instance = callee.instance
    return instance.is_library and Path(instance.file.path).name in PURE_MODULES


def _call_constant(
    f: FunctionLowering,
    callee: FunctionValue,
    special: Specialisation,
    operands: list[Operand],
    node: tree.Call,
) -> Known | None:
    """Return the result of a call that only computes, if all its arguments are constants; compilers fold
    it."""
    given = iter(operands)
    values: list[Value] = []
    for binding in special:
        if isinstance(binding, Fixed):
            values.append(binding.value)
        elif isinstance(binding, Passed):
            operand = next(given)
            assert isinstance(operand, Known)
            values.append(operand.value)
        else:
            return None
    f.can_share = False
    return Known(f.comptime.call(callee, values, node.at))


def _call_now(
    f: FunctionLowering, callee: FunctionValue, special: Specialisation, node: tree.Call
) -> Value | None:
    """Return the result of a call whose arguments are known, if its type exists only at compile time."""
    values = [binding.value for binding in special if isinstance(binding, Fixed)]
    scope = Scope(callee.instance, callee.instance.scope, runtime=True)
    for parameter, value in zip(callee.node.parameters, values, strict=True):
        scope.declare(parameter.name, value)
    kind = f.comptime.type_expression(callee.node.result, scope)
    if not t.is_comptime_only(kind):
        return None
    f.can_share = False
    return f.comptime.call(callee, values, node.at)


def _evaluate_arguments(
    f: FunctionLowering, callee: FunctionValue, nodes: tuple[tree.Expression, ...]
) -> tuple[Specialisation, list[Operand]]:
    """Return how each parameter is bound, and the operands that need registers, in order."""
    scope = Scope(callee.instance, callee.instance.scope, runtime=True)
    bindings: list[Binding] = []
    operands: list[Operand] = []
    for parameter, node in zip(callee.node.parameters, nodes, strict=True):
        kind = t.ANYTYPE
        if parameter.type is not None:
            kind = f.comptime.type_expression(parameter.type, scope)
        operand = lower_as(f, node, kind) if kind is not t.ANYTYPE else lower(f, node)
        binding = _binding(f, operand, must_be_known(parameter, kind), parameter.name, node.at)
        if isinstance(binding, Fixed):
            scope.declare(parameter.name, binding.value)
        else:
            _leaves(operand, binding, operands)
            scope.declare(parameter.name, RuntimeLocal(parameter.name, operand.type, mutable=False))
        bindings.append(binding)
    return tuple(bindings), operands


def must_be_known(parameter: tree.Parameter, kind: t.Type) -> bool:
    """Return whether a parameter exists only at compile time."""
    if parameter.comptime or isinstance(kind, t.FunctionType):
        return True
    return t.is_comptime_only(kind) and kind not in (t.ANYTYPE, t.COMPTIME_STRUCT)


def _binding(f: FunctionLowering, operand: Operand, is_fixed: bool, name: str, at: tree.Span) -> Binding:
    kind = operand.type
    if isinstance(operand, Known):
        value = operand.value
        if isinstance(value, FunctionValue):
            return Fixed(value, ("function", id(value)))
        if is_fixed or t.is_comptime_only(kind) or kind is t.VOID:
            return Fixed(value, f.pe.key(value))
        if isinstance(value, StructValue) and value.kind.is_anonymous:
            return Fixed(value, f.pe.key(value))
    if is_fixed:
        raise CslError(at, f"argument {name} must be known at compile time")
    if isinstance(operand, Parts) and operand.kind.is_anonymous:
        parts = tuple(_binding(f, part, False, name, at) for part in operand.fields.values())
        if registers(parts) > MAX_PIECES:
            raise CslError(
                at, f"argument {name} has {registers(parts)} parts, at most {MAX_PIECES} can be passed"
            )
        return Pieces(operand.kind, parts)
    return Passed(kind)


def _leaves(operand: Operand, binding: Binding, operands: list[Operand]) -> None:
    """Append the operands that are passed in registers."""
    if isinstance(binding, Pieces) and isinstance(operand, Parts):
        for part, inner in zip(operand.fields.values(), binding.parts, strict=True):
            _leaves(part, inner, operands)
    elif isinstance(binding, Passed) and binding.kind is not t.VOID:
        operands.append(operand)


def _place_arguments(f: FunctionLowering, operands: list[Operand], at: tree.Span) -> int:
    """Move operands into consecutive registers behind a free one, and return the free one."""
    ready = [
        _argument_place(f, operand, at) if is_aggregate(operand.type) else operand for operand in operands
    ]
    slot = f.registers.take(1 + len(ready))
    for number, operand in enumerate(ready, slot + 1):
        if isinstance(operand, Place) and is_aggregate(operand.kind):
            base = f.address(operand, number)
            if base != number:
                f.emitter.emit(isa.OP_MOV, number, base)
        else:
            f.hold(operand, at, number)
    return slot


def _argument_place(f: FunctionLowering, operand: Operand, at: tree.Span) -> Place:
    """Return where an aggregate argument lies; mutable ones are copied because parameters are values."""
    if isinstance(operand, Place) and operand.is_stable:
        return operand
    place = f.frame_place(operand.type)
    f.store(place, operand, at)
    return place


def _emit_call(
    f: FunctionLowering,
    kind: t.Type,
    index: int,
    pointer: int,
    slots: tuple[int, int],
    result: int,
    mark: int,
    at: tree.Span,
) -> Operand:
    """Emit the call itself; `slots` is (register before the arguments, number of arguments)."""
    slot, count = slots
    f.emitter.line = f.pe.tables.place(at)
    code = isa.OP_CALL if pointer < 0 else isa.OP_CALLI
    if is_aggregate(kind):
        place = f.frame_place(kind)
        f.address(place, slot)
        f.emitter.emit(code, -1, slot, count + 1, index, max(pointer, 0))
        f.registers.release(mark)
        # Nothing else refers to this memory, so the value can be used where it is.
        return replace(place, is_mutable=False, is_stable=True)
    returns = kind is not t.VOID and kind is not t.NORETURN
    f.emitter.emit(code, result if returns else -1, slot + 1, count, index, max(pointer, 0))
    f.registers.release(mark)
    return Held(kind, result) if returns else VOID_HELD


def _call_pointer(
    f: FunctionLowering, node: tree.Call, kind: t.FunctionType, operand: Operand, into: int
) -> Operand:
    if len(kind.parameters) != len(node.arguments):
        raise CslError(node.at, f"{kind} takes {len(kind.parameters)} arguments, found {len(node.arguments)}")
    result = f.target(into)
    mark = f.registers.next
    pointer = f.hold(operand, node.callee.at).register
    operands = [
        lower_as(f, argument, parameter)
        for parameter, argument in zip(kind.parameters, node.arguments, strict=True)
    ]
    slot = _place_arguments(f, operands, node.at)
    return _emit_call(f, kind.result, 0, pointer, (slot, len(operands)), result, mark, node.at)


# ---- tasks and ids ----


def id_operand(f: FunctionLowering, node: tree.Expression) -> tuple[int, int]:
    """Return (register with the number, isa.ID_...) of a color, queue or id, or of a task named by an
    expression."""
    entry = callee_of(f, node)
    if isinstance(entry, FunctionValue):
        number, kind = f.pe.task_id(entry, node.at)
        if f.can_share:
            f.note_read(Read.of(TASK, node, f.scope), ("task", number, kind))
        return f.load_number(t.U16, number).register, kind
    return id_of(f, lower(f, node), node.at)


def can_activate(f: FunctionLowering, kind: int) -> bool:
    """Return whether an id of this kind starts a task: a local one, or a color where colors are bound to
    tasks."""
    if kind == isa.ID_COLOR:
        return any(binding.is_old for binding in f.pe.registry.tasks)
    return kind == isa.ID_LOCAL


def id_of(f: FunctionLowering, operand: Operand, at: tree.Span) -> tuple[int, int]:
    """Return (register with the number, isa.ID_...) of an operand that is a color, queue, id or task."""
    if isinstance(operand, Known) and isinstance(operand.value, FunctionValue):
        number, kind = f.pe.task_id(operand.value, at)
        return f.load_number(t.U16, number).register, kind
    kind = t.ID_KINDS.get(operand.type, isa.ID_NONE)
    if kind == isa.ID_NONE:
        raise CslError(at, f"expected a color, queue, id or task, found {operand.type}")
    return f.hold(operand, at).register, kind
