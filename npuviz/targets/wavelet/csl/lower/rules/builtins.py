"""Lower builtins at run time: conversions, ids, tasks, configuration, the library's own instructions."""

from __future__ import annotations

from collections.abc import Callable

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import Global
from npuviz.targets.wavelet.csl.comptime.values import StringValue, TypeValue, Value
from npuviz.targets.wavelet.csl.lower.dispatch import (
    BUILTINS,
    arguments,
    builtin,
    expression,
    lower,
    lower_as,
    lower_held,
    lower_typed,
    type_of,
)
from npuviz.targets.wavelet.csl.lower.emitter import Label
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, is_aggregate
from npuviz.targets.wavelet.csl.lower.operands import VOID_HELD, Held, Known, Operand, Span
from npuviz.targets.wavelet.csl.lower.rules.access import base_of, member_of
from npuviz.targets.wavelet.csl.lower.rules.calls import can_activate, id_operand
from npuviz.targets.wavelet.csl.lower.rules.expressions import branch
from npuviz.targets.wavelet.csl.lower.trial import probe_type
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa

_SYSTEM_RESULTS: dict[int, t.Type] = {
    isa.S_RANDOM16: t.U16,
    isa.S_X: t.U16,
    isa.S_Y: t.U16,
    isa.S_FABRIC_X: t.U16,
    isa.S_FABRIC_Y: t.U16,
    isa.S_QUEUE_STATUS: t.U16,
    isa.S_CONFIG_GET: t.U16,
    isa.S_FILTER_COLOR: t.U16,
    isa.S_FILTER_GET: t.U16,
    isa.S_QUEUE_STATES: t.U16,
    isa.S_FLUSHED: t.U16,
    isa.S_TEARDOWN_PENDING: t.U32,
}


@expression(tree.BuiltinCall)
def _builtin(f: FunctionLowering, node: tree.BuiltinCall, want: t.Type | None, into: int) -> Operand:
    rule = BUILTINS.get(node.name)
    if rule is None:
        # This builtin exists at compile time only: the evaluator says what is wrong.
        return Known(f.require_known(node, f"@{node.name}", want))
    return rule(f, node, into)


# ---- conversions ----


@builtin("as")
def _as(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    kind_node, source = arguments(node, 2)
    kind = type_of(f, kind_node)
    operand = lower(f, source, None)
    have = operand.type
    if have is kind:
        return operand
    if isinstance(operand, Known):
        value = f.fold(
            lambda names: tree.BuiltinCall(node.at, "as", (kind_node, names[0])), node.at, operand.value
        )
        return Known(value)
    if kind is t.BOOL and (t.is_number(have)):
        held = f.hold(operand, source.at)
        register = f.target(into)
        f.emitter.emit(isa.OP_NE, register, held.register, -1, 0, 0, have.value_type)
        return Held(t.BOOL, register)
    if have is t.BOOL and isinstance(kind, t.IntegerType) and kind.size:
        held = f.hold(operand, source.at, into)
        return Held(kind, held.register, held.is_local)
    if have is t.BOOL and isinstance(kind, t.FloatType):
        return f.convert(Held(t.U16, f.hold(operand, source.at).register), kind, into)
    if isinstance(have, t.EnumType) and isinstance(kind, t.IntegerType):
        held = f.hold(operand, source.at)
        return f.convert(Held(have.backing, held.register, held.is_local), kind, into)
    if isinstance(kind, t.EnumType) and isinstance(have, t.IntegerType):
        held = f.convert(f.hold(operand, source.at), kind.backing, into)
        return Held(kind, held.register, held.is_local)
    if t.is_number(have) and t.is_number(kind) and kind.size and kind.value_type >= 0:
        return f.convert(f.hold(operand, source.at), kind, into)
    return f.coerce(operand, kind, node.at, into)


@builtin("bitcast")
def _bitcast(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    kind_node, source = arguments(node, 2)
    kind = type_of(f, kind_node)
    operand = lower(f, source)
    if isinstance(kind, t.PointerType) and isinstance(operand.type, t.IntegerType):
        operand = f.hold(f.coerce(operand, t.U16, source.at), source.at)
    have = operand.type
    if isinstance(operand, Known):
        value = f.fold(
            lambda names: tree.BuiltinCall(node.at, "bitcast", (kind_node, names[0])), node.at, operand.value
        )
        return Known(value)
    if have.value_type < 0 or kind.value_type < 0 or _bits(have) != _bits(kind):
        raise CslError(node.at, f"@bitcast needs types of equal width, found {have} and {kind}")
    if isinstance(have, t.PointerType) != isinstance(kind, t.PointerType) and isinstance(have, t.PointerType):
        raise CslError(node.at, "@bitcast does not take pointers", "use @ptrcast")
    held = f.hold(operand, source.at)
    # A signed integer in a register is extended by its sign; a float or unsigned number is not.
    if _is_signed(have) == _is_signed(kind) or _bits(kind) in (0, 64):
        return Held(kind, held.register, held.is_local)
    register = f.target(into)
    f.emitter.emit(isa.OP_WRAP, register, held.register, imm=_bits(kind), aux=int(_is_signed(kind)))
    return Held(kind, register)


def _bits(kind: t.Type) -> int:
    if isinstance(kind, t.IntegerType):
        return kind.bits
    if isinstance(kind, t.EnumType):
        return kind.backing.bits
    return kind.size * 8


def _is_signed(kind: t.Type) -> bool:
    if isinstance(kind, t.EnumType):
        return kind.backing.signed
    return isinstance(kind, t.IntegerType) and kind.signed


@builtin("ptrcast")
def _ptrcast(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    kind_node, source = arguments(node, 2)
    kind = type_of(f, kind_node)
    held = f.hold(lower(f, source), source.at, into)
    if not isinstance(kind, t.PointerType) or not isinstance(held.kind, t.PointerType):
        raise CslError(node.at, f"@ptrcast works on pointers, found {held.kind} to {kind}")
    return Held(kind, held.register, held.is_local)


@builtin("get_int")
def _get_int(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (source,) = arguments(node, 1)
    held = lower_typed(f, source, into)
    kind = held.kind
    if isinstance(kind, t.EnumType):
        return Held(kind.backing, held.register, held.is_local)
    if isinstance(kind, t.IntegerType):
        return held
    if kind not in t.ID_KINDS:
        raise CslError(node.at, f"@get_int takes a color, queue, id, enum or integer, found {kind}")
    return Held(t.U16, held.register, held.is_local)


_ID_BUILTINS: dict[str, t.Type] = {
    "get_color": t.COLOR,
    "get_local_task_id": t.LOCAL_TASK_ID,
    "get_control_task_id": t.CONTROL_TASK_ID,
    "get_ut_id": t.UT_ID,
}


@builtin("get_color_id")
def _get_color_id(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    return _get_int(f, node, into)


@builtin(*_ID_BUILTINS)
def _get_id(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (source,) = arguments(node, 1)
    held = lower_held(f, source, t.U16, into)
    return Held(_ID_BUILTINS[node.name], held.register, held.is_local)


@builtin("get_data_task_id")
def _get_data_id(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (source,) = arguments(node, 1)
    held = lower_typed(f, source, into)
    wanted = t.COLOR if f.pe.arch == "wse2" else t.INPUT_QUEUE
    if held.kind is not wanted:
        raise CslError(node.at, f"@get_data_task_id takes a value of type {wanted} on this architecture")
    return Held(t.DATA_TASK_ID, held.register, held.is_local)


# ---- types, ranges, arrays ----


@builtin("type_of")
def _type_of(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (source,) = arguments(node, 1)
    kind = probe_type(f, lambda: lower(f, source))
    return Known(TypeValue(kind or t.VOID))


@builtin("range")
def _range(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    parts = arguments(node, 2, 4)
    kind = type_of(f, parts[0])
    if len(parts) == 3:
        raise CslError(node.at, "@range takes a type and a stop, or a type, start, stop and step")
    bounds: list[Operand] = []
    for part in parts[1:]:
        operand = f.coerce(lower(f, part, kind), kind, part.at)
        bounds.append(operand if isinstance(operand, Known) else f.hold(operand, part.at))
    if len(bounds) == 1:
        zero, one = (f.known(tree.IntegerLiteral(node.at, number), kind) for number in (0, 1))
        assert zero is not None
        assert one is not None
        bounds = [Known(zero), bounds[0], Known(one)]
    return Span(kind, bounds[0], bounds[1], bounds[2])


@builtin("range_start", "range_stop", "range_step")
def _range_part(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    span = lower(f, arguments(node, 1)[0])
    if not isinstance(span, Span):
        return Known(f.require_known(node, f"@{node.name}"))
    return {"range_start": span.start, "range_stop": span.stop, "range_step": span.step}[node.name]


@builtin("constants")
def _constants(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    kind_node, source = arguments(node, 2)
    kind = type_of(f, kind_node)
    if not isinstance(kind, t.ArrayType):
        raise CslError(kind_node.at, f"@constants needs an array type, found {kind}")
    held = lower_held(f, source, kind.element)
    place = f.frame_place(kind)
    if kind.count:
        f.emitter.emit(
            isa.OP_FILL, f.address(place), held.register, aux=kind.count, kind=kind.element.value_type
        )
    return place


@builtin("field")
def _field(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    subject, name = arguments(node, 2)
    value = f.require_known(name, "the name of a field")
    if not isinstance(value, StringValue):
        raise CslError(name.at, "the name of a field must be a string")
    return member_of(f, base_of(f, subject), value.text.decode("latin-1"), node.at)


# ---- tasks ----


@builtin("activate")
def _activate(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (subject,) = arguments(node, 1)
    register, kind = id_operand(f, subject)
    if not can_activate(f, kind):
        raise CslError(subject.at, "@activate takes a local_task_id or a local task")
    f.emitter.emit(isa.OP_ACTIVATE, register)
    return VOID_HELD


@builtin("block", "unblock")
def _block(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (subject,) = arguments(node, 1)
    register, kind = id_operand(f, subject)
    allowed = {isa.ID_LOCAL, isa.ID_DATA, isa.ID_COLOR if f.pe.arch == "wse2" else isa.ID_INPUT_QUEUE}
    if f.pe.arch != "wse2":
        allowed.add(isa.ID_UT)
    if kind not in allowed:
        what = "a color" if f.pe.arch == "wse2" else "an input queue, a ut_id"
        raise CslError(
            subject.at, f"@{node.name} takes a data or local task id or {what} on this architecture"
        )
    f.emitter.emit(isa.OP_BLOCK if node.name == "block" else isa.OP_UNBLOCK, register, aux=kind)
    return VOID_HELD


@builtin("assert")
def _assert(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    condition = arguments(node, 1, 2)[0]
    place = f.pe.tables.source_place(node.at)
    message = f.pe.tables.message(f"@assert failed at {f.pe.files[place.file].path}:{place.line}")
    passed = Label()
    branch(f, condition, passed, when=True)
    zero = f.load_number(t.BOOL, 0)
    f.emitter.emit(isa.OP_ASSERT, zero.register, imm=message)
    f.emitter.set_label(passed)
    return VOID_HELD


# ---- the machine ----


def system(f: FunctionLowering, number: int, operands: list[int], into: int = -1) -> Operand:
    """Call a system function on register words."""
    kind = _SYSTEM_RESULTS.get(number, t.VOID)
    register = -1 if kind is t.VOID else f.target(into)
    b, c, aux = (*operands, -1, -1, -1)[:3]
    f.emitter.emit(isa.OP_SYS, register, b, c, number, aux, max(kind.value_type, 0))
    return VOID_HELD if kind is t.VOID else Held(kind, register)


@builtin("system")
def _system(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    name, *sources = arguments(node, 1, 4)
    number = _constant_of(f, name, "S_")
    return system(f, number, [_word(f, source) for source in sources], into)


def _word(f: FunctionLowering, node: tree.Expression) -> int:
    operand = lower(f, node)
    if isinstance(operand, Known) and operand.type is t.COMPTIME_INT:
        operand = f.coerce(operand, t.I32, node.at)
    if is_aggregate(operand.type):
        raise CslError(node.at, f"a value of type {operand.type} does not fit a register")
    return f.hold(operand, node.at).register


def _constant_of(f: FunctionLowering, node: tree.Expression, prefix: str) -> int:
    value: Value = f.require_known(node, "the name of an instruction")
    name = value.text.decode("latin-1") if isinstance(value, StringValue) else ""
    number = getattr(isa, name, None) if name.startswith(prefix) else None
    if not isinstance(number, int):
        raise CslError(node.at, f"there is no instruction {name}")
    return number


@builtin("math")
def _math(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    name, *sources = arguments(node, 2, 3)
    number = _constant_of(f, name, "M_")
    operand = lower(f, sources[0])
    if isinstance(operand, Known) and t.is_comptime_only(operand.type):
        operand = f.coerce(operand, t.F32, sources[0].at)
    held = f.hold(operand, sources[0].at)
    second = -1
    if len(sources) == 2:
        kind = t.I16 if number == isa.M_LDEXP else held.kind
        second = f.hold(lower_as(f, sources[1], kind), sources[1].at).register
    if not t.is_number(held.kind):
        raise CslError(node.at, f"@math works on numbers, found {held.kind}")
    register = f.target(into)
    f.emitter.emit(isa.OP_MATH, register, held.register, second, number, 0, held.kind.value_type)
    return Held(held.kind, register)


@builtin("random16")
def _random(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    arguments(node, 0)
    return system(f, isa.S_RANDOM16, [], into)


@builtin("set_active_prng")
def _set_prng(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (source,) = arguments(node, 1)
    return system(f, isa.S_PRNG, [lower_held(f, source, t.U16).register])


@builtin("queue_flush")
def _queue_flush(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (source,) = arguments(node, 1)
    if f.pe.arch == "wse2":
        raise CslError(node.at, "@queue_flush exists on WSE-3 only")
    held = lower_typed(f, source)
    if held.kind not in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        raise CslError(source.at, f"@queue_flush takes a queue, found {held.kind}")
    kind = f.integer(t.ID_KINDS[held.kind])
    return system(f, isa.S_QUEUE_FLUSH, [held.register, kind])


@builtin("set_fifo_read_length", "set_fifo_write_length")
def _fifo_length(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    fifo, length = arguments(node, 2)
    value = f.require_known(fifo, "a FIFO")
    if value.type is not t.FIFO:
        raise CslError(fifo.at, f"expected a FIFO, found {value.type}")
    word = f.hold(Known(value), fifo.at).register
    number = isa.S_FIFO_READ_LENGTH if "read" in node.name else isa.S_FIFO_WRITE_LENGTH
    return system(f, number, [word, lower_held(f, length, t.U16).register])


@builtin("get_config", "get_config_unchecked")
def _get_config(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    address = arguments(node, 1, 2)[0]
    return system(f, isa.S_CONFIG_GET, [lower_held(f, address, t.U16).register], into)


@builtin("set_config", "set_config_unchecked")
def _set_config(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    address, value = arguments(node, 2, 3)[:2]
    words = [lower_held(f, address, t.U16).register, lower_held(f, value, t.U16).register]
    return system(f, isa.S_CONFIG_SET, words)


@builtin("get_tensor_ptr")
def _get_tensor_ptr(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    (number,) = arguments(node, 1)
    kind = t.pointer(t.U16, True)
    held = _exported(f, node, lower_held(f, number, t.U16), lambda found: isinstance(found, t.PointerType))
    return Held(kind, held)


@builtin("get_symbol_value")
def _get_symbol_value(f: FunctionLowering, node: tree.BuiltinCall, into: int) -> Operand:
    kind_node, number = arguments(node, 2)
    kind = type_of(f, kind_node)
    return Held(kind, _exported(f, node, lower_held(f, number, t.U16), lambda found: found is kind))


def _exported(
    f: FunctionLowering, node: tree.BuiltinCall, number: Held, is_meant: Callable[[t.Type], bool]
) -> int:
    """Return a register with the value of the exported variable of a given number; of any of them for an
    unknown number."""
    layout = f.comptime.session.layout
    declared = list(layout.exported) if layout is not None else []
    f.can_share = False
    result = -1
    for export in f.pe.registry.exports:
        subject = export.subject
        if not isinstance(subject, Global) or export.name not in declared:
            continue
        kind = f.comptime.global_type(subject)
        if not is_meant(kind):
            continue
        value = f.hold(f.global_place(subject, node), node.at, f.take()).register
        if result >= 0:
            test = f.take()
            index = declared.index(export.name)
            f.emitter.emit(isa.OP_EQ, test, number.register, -1, index, 0, isa.T_U16)
            f.emitter.emit(isa.OP_SELECT, result, value, result, 0, test)
        else:
            result = value
    if result < 0:
        raise CslError(node.at, f"@{node.name}: nothing of this type is exported", "call @export_symbol")
    return result
