"""Lower `@map`: a loop that reads an element of every vector, calls a function, and writes its result."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import FunctionValue
from npuviz.targets.wavelet.csl.lower.dispatch import builtin, lower
from npuviz.targets.wavelet.csl.lower.emitter import Label
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, is_aggregate
from npuviz.targets.wavelet.csl.lower.operands import VOID_HELD, Held, Operand, Place
from npuviz.targets.wavelet.csl.lower.rules.calls import callee_of, note_call
from npuviz.targets.wavelet.csl.lower.specialisation import Passed
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa


def _is_vector(kind: t.Type) -> bool:
    return kind in t.DSD_KINDS or kind in t.DSR_FILES


@builtin("map")
def _map(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    if len(node.arguments) < 2:
        raise CslError(node.at, "@map takes a function, its inputs and an output")
    callee = callee_of(f, node.arguments[0])
    if not isinstance(callee, FunctionValue) or callee.is_task:
        raise CslError(node.arguments[0].at, "the first argument of @map must name a function")
    special = f.pe.plain_call(callee)
    lowered = f.pe.function(callee, special)
    note_call(f, node.arguments[0], special, lowered.index, lowered.result)
    kinds = [binding.kind for binding in special if isinstance(binding, Passed)]
    gives = lowered.result is not t.VOID
    sources = node.arguments[1:-1] if gives else node.arguments[1:]
    if len(sources) != len(kinds):
        output = " and an output" if gives else ""
        raise CslError(node.at, f"@map needs {len(kinds)} inputs for {callee.node.name}{output}")
    if is_aggregate(lowered.result) or any(map(is_aggregate, kinds)):
        raise CslError(node.at, "@map works on functions of scalars")
    mark = f.registers.next
    inputs = [_input(f, source, kind) for source, kind in zip(sources, kinds, strict=True)]
    output = _output(f, node.arguments[-1], lowered.result) if gives else None
    cursors = _open(f, inputs, kinds, output, lowered.result, node)
    _loop(f, inputs, kinds, output, cursors, (lowered.index, lowered.result), node)
    f.registers.release(mark)
    return VOID_HELD


def _input(f: FunctionLowering, node: tree.Expression, kind: t.Type) -> Held:
    operand = lower(f, node)
    if not _is_vector(operand.type):
        return f.hold(f.coerce(operand, kind, node.at), node.at, f.take())
    if operand.type in (t.FABOUT, t.FIFO, t.CIRCBUF, t.DSR_DEST, t.DSR_SRC0):
        raise CslError(node.at, f"a {operand.type} cannot be an input of @map")
    return f.hold(operand, node.at)


def _output(f: FunctionLowering, node: tree.Expression, kind: t.Type) -> Held:
    operand = lower(f, node)
    have = operand.type
    if isinstance(have, t.PointerType):
        if have.element is not kind or have.const:
            raise CslError(
                node.at, f"the output of @map must point to a variable of type {kind}, found {have}"
            )
        return f.hold(operand, node.at)
    if not _is_vector(have) or have in (t.FABIN, t.FIFO, t.CIRCBUF, t.DSR_SRC1):
        raise CslError(node.at, f"a {have} cannot be the output of @map")
    return f.hold(operand, node.at)


def _open(
    f: FunctionLowering,
    inputs: list[Held],
    kinds: list[t.Type],
    output: Held | None,
    result: t.Type,
    node: tree.BuiltinCall,
) -> int:
    cursors = 0
    for held, kind in zip(inputs, kinds, strict=True):
        if _is_vector(held.kind):
            f.emitter.emit(isa.OP_MAP_OPEN, cursors, held.register, kind=kind.value_type)
            cursors += 1
    if output is not None and _is_vector(output.kind):
        f.emitter.emit(isa.OP_MAP_OPEN, cursors, output.register, kind=result.value_type)
        cursors += 1
    if cursors == 0:
        raise CslError(node.at, "@map needs at least one DSD or DSR")
    return cursors


def _loop(
    f: FunctionLowering,
    inputs: list[Held],
    kinds: list[t.Type],
    output: Held | None,
    cursors: int,
    callee: tuple[int, t.Type],
    node: tree.BuiltinCall,
) -> None:
    index, result = callee
    again, end = Label(), Label()
    f.emitter.set_label(again)
    f.emitter.jump(end, isa.OP_MAP_TEST, cursors)
    value = f.take()
    first = f.registers.take(len(inputs)) if inputs else value + 1
    cursor = 0
    for slot, (held, kind) in enumerate(zip(inputs, kinds, strict=True), first):
        if _is_vector(held.kind):
            f.emitter.emit(isa.OP_MAP_READ, slot, cursor, kind=kind.value_type)
            cursor += 1
        else:
            f.emitter.emit(isa.OP_MOV, slot, held.register)
    f.at(node)
    # The hardware jumps to the function as it runs the loop: the call itself costs nothing.
    f.emitter.emit(isa.OP_CALL, value if output is not None else -1, first, len(inputs), index, 1)
    if output is not None and _is_vector(output.kind):
        f.emitter.emit(isa.OP_MAP_WRITE, value, cursor, kind=result.value_type)
    elif output is not None:
        f.store(Place(result, output.register), Held(result, value), node.at)
    f.emitter.jump(again)
    f.emitter.set_label(end)
