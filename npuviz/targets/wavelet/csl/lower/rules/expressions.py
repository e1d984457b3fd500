"""Lower operators, conditions and choices as values."""

from __future__ import annotations

from collections.abc import Callable

from npuviz.targets.wavelet.csl.comptime import operators
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import Scalar, Value
from npuviz.targets.wavelet.csl.lower.dispatch import expression, lower, lower_as, lower_held, lower_statement
from npuviz.targets.wavelet.csl.lower.emitter import Label
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, Target, is_aggregate
from npuviz.targets.wavelet.csl.lower.operands import (
    VOID_HELD,
    Held,
    Known,
    Local,
    Operand,
    Parts,
    Place,
    Span,
)
from npuviz.targets.wavelet.csl.lower.rules.negations import is_negation, without_negation
from npuviz.targets.wavelet.csl.lower.trial import probe_type
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa

_ARITHMETIC = {
    "+": isa.OP_ADD,
    "-": isa.OP_SUB,
    "*": isa.OP_MUL,
    "/": isa.OP_DIV,
    "%": isa.OP_REM,
    "&": isa.OP_AND,
    "|": isa.OP_OR,
    "^": isa.OP_XOR,
    "<<": isa.OP_SHL,
    ">>": isa.OP_SHR,
}
_COMPARE = {
    "==": isa.OP_EQ,
    "!=": isa.OP_NE,
    "<": isa.OP_LT,
    "<=": isa.OP_LE,
    ">": isa.OP_GT,
    ">=": isa.OP_GE,
}
_MIRROR = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMMUTES = frozenset("+*&|^")
_WRAPS = frozenset(("+", "-", "*", "<<"))


@expression(tree.Binary)
def _binary(f: FunctionLowering, node: tree.Binary, want: t.Type | None, into: int) -> Operand:
    if node.operator in ("and", "or"):
        return condition_value(f, node, into)
    mark = f.registers.next
    result = f.target(into)
    left = lower(f, node.left)
    right = lower(f, node.right)
    symbol, right = without_negation(f, node.operator, right, mark)
    operand = operate(f, symbol, left, right, node.at, result, want)
    if isinstance(operand, Held):
        f.registers.release(max(mark, operand.register + 1) if operand.register >= mark else mark)
    return operand


def operate(
    f: FunctionLowering,
    symbol: str,
    left: Operand,
    right: Operand,
    at: tree.Span,
    into: int,
    want: t.Type | None = None,
) -> Operand:
    """Lower `left symbol right` (not `and`, `or`); at least one operand exists at run time."""
    if isinstance(left, Known) and isinstance(right, Known):
        return Known(operators.binary(symbol, left.value, right.value, at))
    if symbol in ("<<", ">>"):
        return _shift(f, symbol, left, right, at, into, want)
    kind = _operand_type(symbol, left, right, at)
    if isinstance(left, Known) and (symbol in _COMMUTES or symbol in _COMPARE):
        left, right, symbol = right, left, _MIRROR.get(symbol, symbol)
    a = f.hold(f.coerce(left, kind, at), at)
    right = f.coerce(right, kind, at)
    register, imm = -1, 0
    if isinstance(right, Known) and isinstance(right.value, Scalar):
        imm = f.pe.word_of(right.value, at)
    else:
        register = f.hold(right, at).register
    f.emitter.line = f.pe.tables.place(at)
    if symbol in _COMPARE:
        f.emitter.emit(_COMPARE[symbol], into, a.register, register, imm, 0, kind.value_type)
        return Held(t.BOOL, into)
    code = isa.OP_NEG if is_negation(symbol, register, imm, kind) else _ARITHMETIC[symbol]
    f.emitter.emit(code, into, a.register, register, imm, 0, kind.value_type)
    _fit(f, symbol, kind, into)
    return Held(kind, into)


def _fit(f: FunctionLowering, symbol: str, kind: t.Type, register: int) -> None:
    if isinstance(kind, t.IntegerType) and kind.bits != kind.size * 8 and symbol in _WRAPS:
        f.wrap(register, kind)


def _operand_type(symbol: str, left: Operand, right: Operand, at: tree.Span) -> t.Type:
    kind = operators.common_type(left.type, right.type)
    if kind is None:
        hint = "convert one with @as" if t.is_number(left.type) and t.is_number(right.type) else ""
        raise CslError(at, f"operands of {symbol} have types {left.type} and {right.type}", hint)
    if t.is_number(kind):
        if isinstance(kind, t.FloatType) and symbol in ("%", "&", "|", "^"):
            raise CslError(at, f"{symbol} does not work on {kind}")
        return kind
    if symbol in ("==", "!=") and kind.value_type >= 0 and kind.size <= 4:
        return kind
    if kind is t.BOOL and symbol in ("&", "|", "^"):
        return kind
    if symbol in _COMPARE and isinstance(kind, t.EnumType):
        return kind
    raise CslError(at, f"{symbol} does not work on {kind}")


def _shift(
    f: FunctionLowering,
    symbol: str,
    left: Operand,
    right: Operand,
    at: tree.Span,
    into: int,
    want: t.Type | None,
) -> Operand:
    kind = left.type
    if kind is t.COMPTIME_INT and isinstance(want, t.IntegerType):
        left, kind = f.coerce(left, want, at), want
    if not isinstance(kind, t.IntegerType) or kind.is_unbounded:
        raise CslError(at, f"{symbol} needs a sized integer on its left side, found {kind}")
    amount = right.type
    if not isinstance(amount, t.IntegerType) or (amount.signed and not amount.is_unbounded):
        raise CslError(at, f"the amount of {symbol} must be unsigned, found {amount}")
    a = f.hold(left, at)
    register, imm = -1, 0
    if isinstance(right, Known) and isinstance(right.value, Scalar):
        imm = right.value.integer
        if imm < 0:
            raise CslError(at, f"the amount of {symbol} must not be negative, found {imm}")
    else:
        register = f.hold(right, at).register
    f.emitter.emit(_ARITHMETIC[symbol], into, a.register, register, imm, 0, kind.value_type)
    _fit(f, symbol, kind, into)
    return Held(kind, into)


@expression(tree.Unary)
def _unary(f: FunctionLowering, node: tree.Unary, want: t.Type | None, into: int) -> Operand:
    if node.operator == "!":
        held = lower_held(f, node.operand, t.BOOL)
        register = f.target(into)
        f.emitter.emit(isa.OP_NOT, register, held.register, kind=isa.T_U8)
        return Held(t.BOOL, register)
    operand = lower(f, node.operand)
    if isinstance(operand, Known):
        return Known(operators.unary(node.operator, operand.value, node.at))
    kind = operand.type
    if node.operator == "~" and not isinstance(kind, t.IntegerType):
        raise CslError(node.at, f"~ works on integers, found {kind}")
    if not t.is_number(kind):
        raise CslError(node.at, f"{node.operator} works on numbers, found {kind}")
    held = f.hold(operand, node.at)
    register = f.target(into)
    code = isa.OP_NEG if node.operator == "-" else isa.OP_INV
    f.emitter.emit(code, register, held.register, kind=kind.value_type)
    if isinstance(kind, t.IntegerType) and kind.bits != kind.size * 8:
        f.wrap(register, kind)
    return Held(kind, register)


# ---- conditions ----


def decided(f: FunctionLowering, node: tree.Expression) -> bool | None:
    """Return the value of a condition if its left parts decide it: the rest is not even checked then."""
    if isinstance(node, tree.Unary) and node.operator == "!":
        inner = decided(f, node.operand)
        return None if inner is None else not inner
    if isinstance(node, tree.Binary) and node.operator in ("and", "or"):
        left = decided(f, node.left)
        if left is None or left == (node.operator == "or"):
            return left
        return decided(f, node.right)
    value = f.known(node, t.BOOL)
    return bool(value.number) if isinstance(value, Scalar) else None


def branch(f: FunctionLowering, node: tree.Expression, label: Label, when: bool) -> None:
    """Jump to `label` if the condition equals `when`; otherwise continue."""
    value = decided(f, node)
    if value is not None:
        if value == when:
            f.emitter.jump(label)
        return
    if isinstance(node, tree.Unary) and node.operator == "!":
        branch(f, node.operand, label, not when)
        return
    if isinstance(node, tree.Binary) and node.operator in ("and", "or"):
        if (node.operator == "and") == when:
            over = Label()
            branch(f, node.left, over, not when)
            branch(f, node.right, label, when)
            f.emitter.set_label(over)
        else:
            branch(f, node.left, label, when)
            branch(f, node.right, label, when)
        return
    mark = f.registers.next
    operand = lower(f, node, t.BOOL)
    if operand.type is not t.BOOL:
        raise CslError(
            node.at, f"a condition must be bool, found {operand.type}", "compare it, as in `x != 0`"
        )
    if isinstance(operand, Known):
        branch_known(f, operand.value, node, label, when)
        return
    held = f.hold(operand, node.at)
    f.emitter.jump(label, isa.OP_JNZ if when else isa.OP_JZ, held.register)
    f.registers.release(mark)


def branch_known(f: FunctionLowering, value: Value, node: tree.Expression, label: Label, when: bool) -> None:
    """Lower a branch on a condition that is known: a jump or nothing."""
    if not isinstance(value, Scalar) or value.kind is not t.BOOL:
        raise CslError(node.at, f"a condition must be bool, found {value.type}", "compare it, as in `x != 0`")
    if bool(value.number) == when:
        f.emitter.jump(label)


def condition_value(f: FunctionLowering, node: tree.Expression, into: int) -> Operand:
    """Lower `a and b` or `a or b` to a bool in a register."""
    register = f.target(into)
    false, end = Label(), Label()
    branch(f, node, false, when=False)
    f.load_number(t.BOOL, 1, register)
    f.emitter.jump(end)
    f.emitter.set_label(false)
    f.load_number(t.BOOL, 0, register)
    f.emitter.set_label(end)
    return Held(t.BOOL, register)


# ---- choices ----


@expression(tree.IfExpression)
def _if(f: FunctionLowering, node: tree.IfExpression, want: t.Type | None, into: int) -> Operand:
    value = decided(f, node.condition)
    if value is not None:
        chosen = node.then if value else node.otherwise
        return VOID_HELD if chosen is None else lower(f, chosen, want, into)
    if node.otherwise is None:
        raise CslError(node.at, "an if as a value needs an else")
    kind = merged_type(f, [node.then, node.otherwise], want, node.at)
    result = result_operand(f, kind, into)
    if (
        isinstance(result, Held)
        and result.register >= 0
        and _is_ready(f, node.then)
        and _is_ready(f, node.otherwise)
    ):
        return _select(f, node, node.otherwise, kind, result)
    otherwise, end = Label(), Label()
    branch(f, node.condition, otherwise, when=False)
    f.control_depth += 1
    give(f, node.then, kind, result)
    f.emitter.jump(end)
    f.emitter.set_label(otherwise)
    give(f, node.otherwise, kind, result)
    f.emitter.set_label(end)
    f.control_depth -= 1
    return result


def _is_ready(f: FunctionLowering, node: tree.Expression) -> bool:
    """Return whether a value needs no instruction with a cost: constants and variables in registers."""
    if isinstance(node, tree.Name):
        entry = f.scope.find(node.text)
        if isinstance(entry, Local):
            return isinstance(entry.operand, Held)
    return f.known(node) is not None


def _select(
    f: FunctionLowering, node: tree.IfExpression, otherwise: tree.Expression, kind: t.Type, result: Held
) -> Operand:
    """Lower a choice without a jump: short ones become predicated moves (FAB)."""
    mark = f.registers.next
    test = lower_held(f, node.condition, t.BOOL)
    then = lower_held(f, node.then, kind)
    other = lower_held(f, otherwise, kind)
    f.at(node)
    f.emitter.emit(isa.OP_SELECT, result.register, then.register, other.register, 0, test.register)
    f.registers.release(mark)
    return result


@expression(tree.SwitchExpression)
def _switch(f: FunctionLowering, node: tree.SwitchExpression, want: t.Type | None, into: int) -> Operand:
    bodies = [prong.body for prong in node.prongs if isinstance(prong.body, tree.Expression)]
    value = f.known(node.subject)
    if value is not None:
        chosen = known_prong(f, node.prongs, value, node.at)
        if not isinstance(chosen.body, tree.Expression):
            raise CslError(chosen.at, "a switch as a value needs an expression here")
        return lower(f, chosen.body, want, into)
    kind = merged_type(f, bodies, want, node.at)
    result = result_operand(f, kind, into)

    def body(prong: tree.Prong) -> None:
        if isinstance(prong.body, tree.Expression):
            give(f, prong.body, kind, result)

    switch(f, node.subject, node.prongs, node.at, body)
    return result


def known_prong(
    f: FunctionLowering, prongs: tuple[tree.Prong, ...], value: Value, at: tree.Span
) -> tree.Prong:
    """Return the prong that a switch on a known value takes."""
    last: tree.Prong | None = None
    for prong in prongs:
        if not prong.values:
            last = prong
        for node in prong.values:
            case = f.comptime.coerce(f.require_known(node, "a switch value", value.type), value.type, node.at)
            if isinstance(case, Scalar) and isinstance(value, Scalar) and case.number == value.number:
                return prong
    if last is None:
        raise CslError(at, "no arm of this switch takes the value", "add `else => ..`")
    return last


def switch(
    f: FunctionLowering,
    subject: tree.Expression,
    prongs: tuple[tree.Prong, ...],
    at: tree.Span,
    body: Callable[[tree.Prong], None],
) -> None:
    """Lower a switch to comparisons and jumps: one test per value, then the prongs."""
    held = f.hold(lower(f, subject), subject.at)
    kind = held.kind
    if not isinstance(kind, t.IntegerType | t.EnumType):
        raise CslError(subject.at, f"a switch works on integers and enums, found {kind}")
    mark = f.registers.next
    labels = [Label() for _ in prongs]
    test = f.take()
    seen: set[int] = set()
    fallback: Label | None = None
    for prong, label in zip(prongs, labels, strict=True):
        if not prong.values:
            fallback = label
        for node in prong.values:
            case = f.comptime.coerce(f.require_known(node, "a switch value", kind), kind, node.at)
            if not isinstance(case, Scalar) or case.integer in seen:
                raise CslError(node.at, "this switch value occurs twice")
            seen.add(case.integer)
            f.emitter.emit(isa.OP_EQ, test, held.register, -1, case.integer, 0, kind.value_type)
            f.emitter.jump(label, isa.OP_JNZ, test)
    _check_exhaustive(kind, seen, fallback, at)
    end = Label()
    f.registers.release(mark)
    # An exhaustive switch without `else` never passes its last test: its last prong takes the rest.
    f.emitter.jump(fallback or labels[-1])
    f.control_depth += 1
    for prong, label in zip(prongs, labels, strict=True):
        f.emitter.set_label(label)
        with f.block():
            body(prong)
        f.emitter.jump(end)
    f.control_depth -= 1
    f.emitter.set_label(end)


def _check_exhaustive(kind: t.Type, seen: set[int], fallback: Label | None, at: tree.Span) -> None:
    if fallback is not None:
        return
    if isinstance(kind, t.EnumType):
        missing = [name for name, number in kind.members.items() if number not in seen]
        if missing:
            raise CslError(at, f"this switch does not handle {', '.join(missing)}", "add `else => ..`")
    elif not (isinstance(kind, t.IntegerType) and not kind.is_unbounded and len(seen) == 1 << kind.bits):
        raise CslError(at, f"this switch does not handle every value of {kind}", "add `else => ..`")


@expression(tree.BlockExpression)
def _block(f: FunctionLowering, node: tree.BlockExpression, want: t.Type | None, into: int) -> Operand:
    kind = want
    if kind is None:
        if node not in f.types_found:
            f.types_found[node] = probe_type(f, lambda: _block_operand(f, node, None, -1))
        kind = f.types_found[node]
    if kind is None:
        raise CslError(node.at, "the type of this block cannot be found", "give the variable a type")
    return _block_operand(f, node, kind, into)


def _block_operand(
    f: FunctionLowering, node: tree.BlockExpression, kind: t.Type | None, into: int
) -> Operand:
    result = None if kind is None else result_operand(f, kind, into)
    target = Target(node.block.label, Label(), operand=result, want=kind)
    with f.inside(target):
        for inner in node.block.statements:
            lower_statement(f, inner)
    f.emitter.set_label(target.end)
    if target.operand is None:
        raise CslError(node.at, "this block never gives a value", "end it with `break :label value`")
    return target.operand


@expression(tree.ComptimeExpression)
def _comptime(f: FunctionLowering, node: tree.ComptimeExpression, want: t.Type | None, into: int) -> Operand:
    return Known(f.require_known(node, "the operand of comptime", want))


# ---- values from several places ----


def merged_type(
    f: FunctionLowering, nodes: list[tree.Expression], want: t.Type | None, at: tree.Span
) -> t.Type:
    """Return the type of a choice: the wanted one, or the one that all its values fit."""
    if want is not None and not t.is_comptime_only(want) and want is not t.ANYTYPE:
        return want
    merged: t.Type | None = None
    for node in nodes:
        kind = _type_of_choice(f, node)
        if kind is None:
            continue
        common = kind if merged is None else operators.common_type(merged, kind)
        if common is None:
            raise CslError(at, f"the values of this choice have types {merged} and {kind}")
        merged = common
    if merged is None:
        return t.VOID
    if t.is_comptime_only(merged):
        raise CslError(
            at, f"the values of this choice have type {merged}, which a run-time choice cannot give"
        )
    return merged


def _type_of_choice(f: FunctionLowering, node: tree.Expression) -> t.Type | None:
    # Remembered, because choices within choices would be tried again at each level.
    if node not in f.types_found:
        f.types_found[node] = probe_type(f, lambda: lower(f, node))
    return f.types_found[node]


def result_operand(f: FunctionLowering, kind: t.Type, into: int) -> Held | Place:
    """Return the operand that will hold the value of a choice."""
    if kind is t.VOID:
        return VOID_HELD
    if is_aggregate(kind):
        return f.frame_place(kind)
    return Held(kind, f.target(into))


def give(f: FunctionLowering, node: tree.Expression, kind: t.Type, result: Operand) -> None:
    """Lower a value into the place of a choice's result."""
    mark = f.registers.next
    if isinstance(result, Place):
        f.store(result, lower_as(f, node, kind), node.at)
    elif isinstance(result, Held) and result.register >= 0:
        lower_held(f, node, kind, result.register)
    else:
        lower(f, node)
    f.registers.release(mark)


def settled(f: FunctionLowering, operand: Operand, at: tree.Span) -> Operand:
    """Return an operand with its own copy of all that may change later; in registers where possible."""
    if isinstance(operand, Parts):
        return Parts(operand.kind, {name: settled(f, part, at) for name, part in operand.fields.items()})
    if isinstance(operand, Span):
        bounds = (settled(f, bound, at) for bound in (operand.start, operand.stop, operand.step))
        return Span(operand.element, *bounds)
    if isinstance(operand, Held) and operand.is_local:
        return f.hold(operand, at, f.take())
    if isinstance(operand, Place):
        if is_aggregate(operand.kind):
            if operand.is_stable:
                return operand
            place = f.frame_place(operand.kind)
            f.copy(place, operand)
            return place
        return f.hold(operand, at)
    return operand
