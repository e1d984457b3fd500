"""Lower loops: `while`, `for` over ranges and arrays, and loops that run at compile time."""

from __future__ import annotations

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.scope import Cell
from npuviz.targets.wavelet.csl.comptime.values import ArrayValue, RangeValue, Scalar, StructValue, Value
from npuviz.targets.wavelet.csl.lower import free_names
from npuviz.targets.wavelet.csl.lower.dispatch import lower, lower_statement, statement
from npuviz.targets.wavelet.csl.lower.emitter import Label
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering, Target, is_aggregate
from npuviz.targets.wavelet.csl.lower.operands import Held, Known, Parts, Place, Span
from npuviz.targets.wavelet.csl.lower.rules.expressions import branch, settled
from npuviz.targets.wavelet.csl.lower.rules.unrolling import LARGEST, Counter, counter_of, lower_loop
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.kernels import isa

MAX_UNROLLED = 10_000
"""Most rounds of a compile-time loop in a function body."""


def _mentions_cell(f: FunctionLowering, node: tree.Expression) -> bool:
    return any(isinstance(f.scope.find(name), Cell) for name in free_names.all_names(node))


@statement(tree.While)
def _while(f: FunctionLowering, node: tree.While) -> None:
    if node.inline or (_mentions_cell(f, node.condition) and f.known(node.condition, t.BOOL) is not None):
        _unroll_while(f, node)
        return
    lower_loop(f, node.body, counter_of(f, node), lambda: _rolled_while(f, node), node.label)


def _rolled_while(f: FunctionLowering, node: tree.While) -> int:
    """Lower a while loop that is not unrolled; return where its body begins."""
    body, again, test = Label(), Label(), Label()
    target = Target(node.label, Label(), again, is_loop=True)
    f.control_depth += 1
    # The test stands at the end, so that a round costs one branch.
    branch(f, node.condition, target.end, when=False)
    f.emitter.set_label(body)
    with f.inside(target):
        lower_statement(f, node.body)
    f.emitter.set_label(again)
    if node.step is not None:
        lower_statement(f, node.step)
    f.emitter.set_label(test)
    f.at(node.condition)
    branch(f, node.condition, body, when=True)
    f.control_depth -= 1
    f.emitter.set_label(target.end)
    return max(body.position, 0)


def _unroll_while(f: FunctionLowering, node: tree.While) -> None:
    end = Label()
    for _ in range(MAX_UNROLLED):
        value = f.require_known(node.condition, "the condition", t.BOOL)
        if isinstance(value, Scalar) and not value.number:
            f.emitter.set_label(end)
            return
        again = Label()
        with f.inside(Target(node.label, end, again, is_loop=True)):
            lower_statement(f, node.body)
        f.emitter.set_label(again)
        if node.step is not None:
            lower_statement(f, node.step)
    raise CslError(node.at, f"this compile-time loop runs more than {MAX_UNROLLED:,} times")


@statement(tree.For)
def _for(f: FunctionLowering, node: tree.For) -> None:
    with f.block():
        operand = lower(f, node.iterable)
        if isinstance(operand, Known) and isinstance(operand.value, RangeValue):
            value = operand.value
            kind = value.element
            if node.inline or (isinstance(kind, t.IntegerType) and kind.is_unbounded):
                rounds = range(value.start, value.stop, value.step)
                _check_rounds(node, len(rounds))
                _unroll(f, node, [Scalar(kind, number) for number in rounds])
                return
            start, stop, step = (
                Known(Scalar(kind, number)) for number in (value.start, value.stop, value.step)
            )
            operand = Span(kind, start, stop, step)
        if node.inline and not isinstance(operand, Known):
            raise CslError(node.iterable.at, "an inline loop needs what is known at compile time")
        if isinstance(operand, Span):
            span = operand
            lower_loop(
                f, node.body, _counter_of(f, node, span), lambda: _for_range(f, node, span), node.label
            )
        elif isinstance(operand, Known) and isinstance(operand.value, StructValue):
            _unroll(f, node, list(operand.value.fields.values()))
        elif isinstance(operand, Known) and isinstance(operand.value, ArrayValue):
            _for_known_array(f, node, operand.value)
        elif isinstance(operand, Place) and isinstance(operand.kind, t.ArrayType):
            _for_array(f, node, operand, operand.kind)
        elif isinstance(operand, Parts):
            raise CslError(node.iterable.at, "a loop over a tuple with run-time parts is not supported")
        else:
            raise CslError(node.iterable.at, f"a value of type {operand.type} cannot be looped over")


def _check_rounds(node: tree.For, rounds: int) -> None:
    if rounds > MAX_UNROLLED:
        raise CslError(node.at, f"this compile-time loop runs {rounds:,} times, at most {MAX_UNROLLED:,}")


def _unroll(f: FunctionLowering, node: tree.For, values: list[Value]) -> None:
    _check_rounds(node, len(values))
    end = Label()
    for number, value in enumerate(values):
        again = Label()
        f.types_found.clear()
        with f.inside(Target(node.label, end, again, is_loop=True)):
            f.declare(node.element, Known(value), mutable=False)
            if node.index:
                f.declare(node.index, Known(Scalar(t.U16, number)), mutable=False)
            lower_statement(f, node.body)
        f.emitter.set_label(again)
    f.emitter.set_label(end)


def _counter_of(f: FunctionLowering, node: tree.For, span: Span) -> Counter | None:
    """Return the counter of a loop over a range that is known, None for other loops."""
    numbers = [
        part.value.integer if isinstance(part, Known) and isinstance(part.value, Scalar) else None
        for part in (span.start, span.stop, span.step)
    ]
    start, stop, step = numbers
    if node.index or start is None or stop is None or not step:
        return None
    values = range(start, stop, step)
    if len(values) > LARGEST:
        return None
    return Counter(node.element, Held(span.element, f.take()), values, values[-1] if values else start)


def _for_range(f: FunctionLowering, node: tree.For, span: Span) -> int:
    """Lower a loop over a range; return where its body begins."""
    kind = span.element
    if not isinstance(kind, t.IntegerType) or kind.is_unbounded:
        raise CslError(node.iterable.at, f"a run-time @range needs a sized integer type, found {kind}")
    counter = Held(kind, f.take())
    f.hold(span.start, node.at, counter.register)
    stop = span.stop if isinstance(span.stop, Known) else f.hold(span.stop, node.at, f.take())
    step = span.step
    if not isinstance(step, Known) or not isinstance(step.value, Scalar):
        raise CslError(node.iterable.at, "the step of a loop must be known at compile time")
    index = -1
    if node.index:
        index = f.load_number(t.U16, 0, f.take()).register
    compare = isa.OP_LT if step.value.integer > 0 else isa.OP_GT
    body, again = Label(), Label()
    target = Target(node.label, Label(), again, is_loop=True)
    test = f.take()
    limit, imm = (-1, 0)
    if isinstance(stop, Known) and isinstance(stop.value, Scalar):
        imm = stop.value.integer
    elif isinstance(stop, Held):
        limit = stop.register
    wide = _counted_as(kind, step.value.integer, imm if limit < 0 else None)
    is_known_to_run = (
        isinstance(span.start, Known)
        and isinstance(span.start.value, Scalar)
        and limit < 0
        and (span.start.value.integer < imm if step.value.integer > 0 else span.start.value.integer > imm)
    )
    if not is_known_to_run:
        f.emitter.emit(compare, test, counter.register, limit, imm, 0, wide.value_type)
        f.emitter.jump(target.end, isa.OP_JZ, test)
    f.control_depth += 1
    f.emitter.set_label(body)
    with f.inside(target):
        f.declare(node.element, counter, mutable=False)
        if index >= 0:
            f.declare(node.index, Held(t.U16, index), mutable=False)
        lower_statement(f, node.body)
    f.emitter.set_label(again)
    f.at(node)
    f.emitter.emit(isa.OP_ADD, counter.register, counter.register, -1, step.value.integer, 0, wide.value_type)
    if index >= 0:
        f.emitter.emit(isa.OP_ADD, index, index, -1, 1, 0, t.U16.value_type)
    f.emitter.emit(compare, test, counter.register, limit, imm, 0, wide.value_type)
    f.emitter.jump(body, isa.OP_JNZ, test)
    f.control_depth -= 1
    f.emitter.set_label(target.end)
    return body.position


def _counted_as(kind: t.IntegerType, step: int, stop: int | None) -> t.IntegerType:
    """Return the type in which a counter of `kind` passes `stop` (None: any value of its type) without
    wrapping."""
    if abs(step) == 1:
        return kind  # it ends at `stop`, or never begins
    if stop is not None and kind.low <= stop + step <= kind.high:
        return kind
    return t.I64


def _for_known_array(f: FunctionLowering, node: tree.For, value: ArrayValue) -> None:
    if node.inline or t.is_comptime_only(value.kind):
        _unroll(f, node, [value.element(number) for number in range(value.kind.count)])
        return
    _for_array(f, node, f.constant(value.kind, f.pe.bytes_of(value, node.at), node.at), value.kind)


def _for_array(f: FunctionLowering, node: tree.For, place: Place, kind: t.ArrayType) -> None:
    """Lower a loop over the elements of an array; the element variable is a copy."""
    if len(kind.dimensions) != 1:
        raise CslError(node.iterable.at, f"a loop needs an array with one dimension, found {kind}")
    if kind.count == 0:
        return
    place = f.simple(place)
    index = f.load_number(t.U16, 0, f.take()).register
    body, again = Label(), Label()
    target = Target(node.label, Label(), again, is_loop=True)
    test = f.take()
    f.control_depth += 1
    f.emitter.set_label(body)
    with f.inside(target):
        element = Place(kind.element, place.base, place.offset, index, kind.element.size, False)
        if is_aggregate(kind.element):
            f.declare(
                node.element, settled(f, Place(element.kind, f.address(element)), node.at), mutable=False
            )
        else:
            f.declare(node.element, f.hold(element, node.at, f.take()), mutable=False)
        if node.index:
            f.declare(node.index, Held(t.U16, index), mutable=False)
        lower_statement(f, node.body)
    f.emitter.set_label(again)
    f.at(node)
    f.emitter.emit(isa.OP_ADD, index, index, -1, 1, 0, t.U16.value_type)
    f.emitter.emit(isa.OP_LT, test, index, -1, kind.count, 0, t.U16.value_type)
    f.emitter.jump(body, isa.OP_JNZ, test)
    f.control_depth -= 1
    f.emitter.set_label(target.end)
