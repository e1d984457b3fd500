"""Execute statements at compile time."""

from __future__ import annotations

from collections.abc import Iterator

from npuviz.targets.wavelet.csl.comptime import memory, operators
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime, Jump, statement
from npuviz.targets.wavelet.csl.comptime.scope import Cell, Scope
from npuviz.targets.wavelet.csl.comptime.values import (
    VOID,
    ArrayValue,
    PointerValue,
    RangeValue,
    Scalar,
    StructValue,
    Value,
    boolean_of,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.csl.syntax.tree import Expression, Span, Statement


@statement(tree.Block)
def _block(comptime: Comptime, node: tree.Block, scope: Scope) -> Jump | None:
    jump = comptime.execute_block(node, scope.child() if comptime.declares(node) else scope)
    if jump is not None and jump.kind == "break" and node.label and jump.label == node.label:
        return None
    return jump


def _execute_inside(comptime: Comptime, node: Statement, scope: Scope) -> Jump | None:
    """Execute a statement as if it stood in braces."""
    return comptime.execute(node, scope if node.__class__ is tree.Block else scope.child())


@statement(tree.ExpressionStatement)
def _expression(comptime: Comptime, node: tree.ExpressionStatement, scope: Scope) -> None:
    comptime.evaluate(node.expression, scope)


@statement(tree.Variable)
def _variable(comptime: Comptime, node: tree.Variable, scope: Scope) -> None:
    kind = None if node.type is None else comptime.type_expression(node.type, scope)
    value = None if node.value is None else comptime.evaluate(node.value, scope, kind)
    if node.kind == "param":
        raise CslError(node.at, "a param is declared at the top of a file")
    if node.kind == "const":
        if value is None:
            raise CslError(node.at, f"const {node.name} needs a value")
        scope.declare(node.name, value)
        return
    if kind is None and value is None:
        raise CslError(node.at, f"{node.name} needs a type or a value")
    declared = kind if kind is not None else value.type if value is not None else t.VOID
    scope.declare(node.name, Cell(node.name, declared, value))


@statement(tree.Assignment)
def _assignment(comptime: Comptime, node: tree.Assignment, scope: Scope) -> None:
    target = node.target
    value = comptime.evaluate(node.value, scope)
    if isinstance(target, tree.Name):
        if target.text == "_":
            return
        entry = comptime.lookup(target.text, scope, target.at)
        if isinstance(entry, Cell) and entry.mutable:
            if node.operator:
                value = operators.binary(
                    node.operator, comptime.read(entry, scope, target.at), value, node.at
                )
            entry.value = comptime.coerce(value, entry.kind, node.at)
            return
        if isinstance(entry, Value):
            raise CslError(node.at, f"{target.text} is constant", "declare it var")
    pointer = assigned_place(comptime, target, scope)
    if node.operator:
        old = memory.load(comptime, pointer, scope, target.at)
        value = operators.binary(node.operator, old, value, node.at)
    if scope.forced and not isinstance(pointer.target, Cell):
        raise NotComptime(node.at, "this memory only exists at run time")
    memory.store(comptime, pointer, value, node.at)


def assigned_place(comptime: Comptime, target: Expression, scope: Scope) -> PointerValue:
    """Return the place that an assignment writes; `@field(s, name)` is a place, too."""
    if isinstance(target, tree.BuiltinCall) and target.name == "field" and len(target.arguments) == 2:
        name = comptime.evaluate(target.arguments[1], scope)
        text = getattr(name, "text", None)
        if isinstance(text, bytes):
            member = tree.Member(target.at, target.arguments[0], text.decode(errors="replace"))
            return memory.place(comptime, member, scope)
    return memory.place(comptime, target, scope)


@statement(tree.IfStatement)
def _if(comptime: Comptime, node: tree.IfStatement, scope: Scope) -> Jump | None:
    if boolean_of(comptime.evaluate(node.condition, scope), node.condition.at):
        return _execute_inside(comptime, node.then, scope)
    return None if node.otherwise is None else _execute_inside(comptime, node.otherwise, scope)


def _ends_loop(jump: Jump, label: str) -> bool:
    return jump.kind == "break" and jump.label in ("", label)


def _leaves(jump: Jump | None, label: str) -> bool:
    """Return whether a jump out of the body of a loop does more than begin the next round."""
    return jump is not None and not (jump.kind == "continue" and jump.label in ("", label))


@statement(tree.While)
def _while(comptime: Comptime, node: tree.While, scope: Scope) -> Jump | None:
    while boolean_of(comptime.evaluate(node.condition, scope), node.condition.at):
        comptime.count_step(node.at)
        jump = _execute_inside(comptime, node.body, scope)
        if jump is not None and _leaves(jump, node.label):
            return None if _ends_loop(jump, node.label) else jump
        if node.step is not None:
            comptime.execute(node.step, scope)
    return None


def elements_of(value: Value, at: Span) -> Iterator[Value]:
    """Return the elements of a `for` over `value`. Raises CslError for anything but arrays and ranges."""
    if isinstance(value, RangeValue):
        return (Scalar(value.element, number) for number in range(value.start, value.stop, value.step))
    if isinstance(value, ArrayValue):
        return (value.element(index) for index in range(value.kind.count))
    if isinstance(value, StructValue) and value.kind.is_tuple:
        return iter(value.fields.values())
    raise CslError(at, f"a for loop goes over an array or a @range, found {value.type}")


@statement(tree.For)
def _for(comptime: Comptime, node: tree.For, scope: Scope) -> Jump | None:
    iterable = comptime.evaluate(node.iterable, scope)
    if isinstance(iterable, PointerValue):
        iterable = memory.load(comptime, iterable, scope, node.iterable.at)
    for number, element in enumerate(elements_of(iterable, node.iterable.at)):
        comptime.count_step(node.at)
        inner = scope.child()
        inner.declare(node.element, element)
        if node.index:
            inner.declare(node.index, Scalar(t.U16, number))
        jump = comptime.execute(node.body, inner)
        if jump is not None and _leaves(jump, node.label):
            return None if _ends_loop(jump, node.label) else jump
    return None


def chosen_prong(
    comptime: Comptime, subject: Expression, prongs: tuple[tree.Prong, ...], scope: Scope
) -> tree.Prong | None:
    """Return the prong that applies to a known subject, None if none does."""
    value = comptime.evaluate(subject, scope)
    if not (isinstance(value, Scalar) and isinstance(value.kind, t.IntegerType | t.EnumType)):
        raise CslError(subject.at, f"a switch needs an integer or an enum, found {value.type}")
    fallback: tree.Prong | None = None
    for prong in prongs:
        if not prong.values:
            fallback = prong
        for expression in prong.values:
            candidate = comptime.evaluate(expression, scope, value.kind)
            if isinstance(candidate, Scalar) and candidate.number == value.number:
                return prong
    return fallback


@statement(tree.SwitchStatement)
def _switch(comptime: Comptime, node: tree.SwitchStatement, scope: Scope) -> Jump | None:
    prong = chosen_prong(comptime, node.subject, node.prongs, scope)
    if prong is None:
        raise CslError(node.at, "no prong of the switch applies", "add else =>")
    assert isinstance(prong.body, Statement)
    return _execute_inside(comptime, prong.body, scope)


@statement(tree.Return)
def _return(comptime: Comptime, node: tree.Return, scope: Scope) -> Jump:
    value = VOID if node.value is None else comptime.evaluate(node.value, scope)
    return Jump("return", "", value, node.at)


@statement(tree.Break)
def _break(comptime: Comptime, node: tree.Break, scope: Scope) -> Jump:
    value = VOID if node.value is None else comptime.evaluate(node.value, scope)
    return Jump("break", node.label, value, node.at)


@statement(tree.Continue)
def _continue(comptime: Comptime, node: tree.Continue, scope: Scope) -> Jump:
    return Jump("continue", node.label, VOID, node.at)


@statement(tree.ComptimeBlock)
def _comptime(comptime: Comptime, node: tree.ComptimeBlock, scope: Scope) -> Jump | None:
    return comptime.execute(node.body, scope)
