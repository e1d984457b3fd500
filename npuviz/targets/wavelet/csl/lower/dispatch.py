"""Find the rule that lowers a node by its class: expressions, builtins and statements register here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.values import TypeValue
from npuviz.targets.wavelet.csl.lower.function import FunctionLowering
from npuviz.targets.wavelet.csl.lower.operands import Bits, Held, Known, Operand
from npuviz.targets.wavelet.csl.rules import Rules
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError

ExpressionRule = Callable[[FunctionLowering, Any, "t.Type | None", int], Operand]
"""(function, node, wanted type or None, wanted register or -1) -> operand."""
BuiltinRule = Callable[[FunctionLowering, tree.BuiltinCall, int], Operand]
StatementRule = Callable[[FunctionLowering, Any], None]

EXPRESSIONS = Rules[type[tree.Node], ExpressionRule]()
BUILTINS = Rules[str, BuiltinRule]()
STATEMENTS = Rules[type[tree.Node], StatementRule]()
expression, builtin, statement = EXPRESSIONS.rule, BUILTINS.rule, STATEMENTS.rule


def lower(f: FunctionLowering, node: tree.Expression, want: t.Type | None = None, into: int = -1) -> Operand:
    """Lower an expression; `want` helps untyped parts find a type, a result may go to register `into`."""
    value = f.known(node, want)
    if value is not None:
        return Known(value)
    rule = EXPRESSIONS.get(type(node))
    if rule is None:
        # This kind of expression exists at compile time only: let the evaluator say why it does not work.
        return Known(f.require_known(node, "this", want))
    f.at(node)
    operand = rule(f, node, want, into)
    return f.read_bits(operand, node.at, into) if isinstance(operand, Bits) else operand


def lower_as(f: FunctionLowering, node: tree.Expression, kind: t.Type, into: int = -1) -> Operand:
    """Lower an expression and convert it implicitly to `kind`."""
    return f.coerce(lower(f, node, kind, into), kind, node.at, into)


def lower_held(f: FunctionLowering, node: tree.Expression, kind: t.Type, into: int = -1) -> Held:
    """Lower an expression of type `kind` into a register."""
    return f.hold(lower_as(f, node, kind, into), node.at, into)


def lower_typed(f: FunctionLowering, node: tree.Expression, into: int = -1) -> Held:
    """Lower an expression of any type that a register can hold."""
    return f.hold(lower(f, node, None, into), node.at, into)


def lower_statement(f: FunctionLowering, node: tree.Statement) -> None:
    """Lower a statement."""
    rule = STATEMENTS.get(type(node))
    if rule is None:
        raise CslError(node.at, f"{type(node).__name__} is not supported at run time")
    mark = f.registers.next
    f.at(node)
    rule(f, node)
    if not isinstance(node, tree.Variable):
        f.registers.release(mark)


def type_of(f: FunctionLowering, node: tree.Expression) -> t.Type:
    """Return the type that an expression denotes."""
    if isinstance(node, tree.Call):
        # A type is always made at compile time, also by a call.
        node = tree.ComptimeExpression(node.at, node)
    value = f.require_known(node, "a type", t.TYPE)
    if not isinstance(value, TypeValue):
        raise CslError(node.at, f"expected a type, found a value of type {value.type}")
    return value.denotes


def arguments(node: tree.BuiltinCall, least: int, most: int | None = None) -> tuple[tree.Expression, ...]:
    """Return the arguments of a builtin, checked for their number."""
    most = least if most is None else most
    found = len(node.arguments)
    if not least <= found <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise CslError(node.at, f"@{node.name} takes {wanted} arguments, found {found}")
    return node.arguments
