"""Evaluate at compile time what is known before the program runs, in scopes of three phases.

Other files enter the rules that evaluate each class of expressions and statements here.

A scope says in which phase its text is:
  load      (`runtime` and `forced` False) global initialisers, comptime blocks, the layout block and what
            they call: everything is executed; assignments change variables, builtins register things
  runtime   (`runtime` True) function bodies while they are lowered: the evaluator only finds what is known.
            Function calls, global variables, RuntimeLocals and builtins with an effect raise `NotComptime`
  forced    (`forced` True) `comptime` code inside a function: executed, but global variables are unknown

The lowering asks `try_evaluate` for every expression and lowers those that are not known. Evaluating in a
runtime scope has no side effects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from npuviz.targets.wavelet.csl.comptime import coercion
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.call_memo import CallMemo
from npuviz.targets.wavelet.csl.comptime.route_calls import Configured, Passing, Repeats, RouteCalls
from npuviz.targets.wavelet.csl.comptime.scope import (
    PREDEFINED_VALUES,
    Cell,
    Entry,
    FunctionValue,
    Global,
    ModuleInstance,
    Scope,
)
from npuviz.targets.wavelet.csl.comptime.session import Session
from npuviz.targets.wavelet.csl.comptime.values import (
    VOID,
    StringValue,
    TypeValue,
    Value,
    VoidValue,
    integer_of,
    weight_of,
)
from npuviz.targets.wavelet.csl.rules import Rules
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime, similar
from npuviz.targets.wavelet.csl.syntax.tree import Block, Expression, Node, Span, Statement, Variable

Linked = TypeVar("Linked", Global, FunctionValue)
"""A declaration that may have the prefix `extern`."""

MAX_CALL_DEPTH = 128
MAX_STEPS = 2_000_000
"""Most calls and loop rounds of a layout block, or of the compile-time part of one PE program."""
MAX_WORK = 4_000_000
"""Most work of one of these: calls, rounds, statements, operators, copies and comparisons of large values."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A statement that left its block; `label` "" is the innermost loop."""

    kind: Literal["return", "break", "continue"]
    label: str
    value: Value
    at: Span


ExpressionRule = Callable[["Comptime", Any, Scope], Value]
StatementRule = Callable[["Comptime", Any, Scope], Jump | None]
EXPRESSIONS = Rules[type[Node], ExpressionRule]()
STATEMENTS = Rules[type[Node], StatementRule]()
expression, statement = EXPRESSIONS.rule, STATEMENTS.rule


class Comptime:
    """Evaluate expressions and execute statements at compile time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.steps = 0
        self.work = 0
        self.memo = CallMemo()
        self.route_calls = RouteCalls()
        self._declares: dict[Block, bool] = {}
        self.runtime_type: Callable[[Expression, Scope], t.Type] | None = None
        """Set by the lowering: the type of an expression whose value is only known at run time."""

    # ---- evaluation ----

    def evaluate(self, node: Expression, scope: Scope, expected: t.Type | None = None) -> Value:
        """Return the value of an expression, converted to `expected` if given.

        Raises NotComptime if it depends on run-time values, CslError if it is wrong.
        """
        value = EXPRESSIONS[node.__class__](self, node, scope)
        if expected is not None and value.type is not expected:
            return coercion.coerce(value, expected, node.at, self.signature)
        return value

    def try_evaluate(self, node: Expression, scope: Scope) -> Value | None:
        """Evaluate as `evaluate` does, but return None if the value is only known at run time."""
        try:
            return self.evaluate(node, scope)
        except NotComptime:
            return None

    def type_expression(self, node: Expression, scope: Scope) -> t.Type:
        """Return the type that an expression denotes. Raises CslError if it denotes none."""
        value = EXPRESSIONS[node.__class__](self, node, scope)
        if isinstance(value, TypeValue):
            return value.denotes
        raise CslError(node.at, f"expected a type, found a value of type {value.type}")

    def coerce(self, value: Value, target: t.Type, at: Span) -> Value:
        """Convert `value` to `target` implicitly. Raises CslError."""
        if value.type is target:
            return value
        return coercion.coerce(value, target, at, self.signature)

    def execute(self, node: Statement, scope: Scope) -> Jump | None:
        """Execute a statement; return a Jump if it left its block by return, break or continue."""
        if scope.runtime:
            raise NotComptime(node.at, "this is executed at run time")
        return STATEMENTS[node.__class__](self, node, scope)

    def execute_block(self, node: Block, scope: Scope) -> Jump | None:
        """Execute the statements of a block in `scope` itself."""
        self.work += len(node.statements)
        if scope.runtime and node.statements:
            raise NotComptime(node.statements[0].at, "this is executed at run time")
        for inner in node.statements:
            jump = STATEMENTS[inner.__class__](self, inner, scope)
            if jump is not None:
                return jump
        return None

    def declares(self, node: Block) -> bool:
        """Return whether a block declares names."""
        found = self._declares.get(node)
        if found is None:
            found = any(isinstance(inner, Variable) for inner in node.statements)
            self._declares[node] = found
        return found

    def count_step(self, at: Span) -> None:
        """Count one call or loop round. Raises CslError over the limit."""
        self.steps += 1
        self.spend(at, 2)
        if self.steps > MAX_STEPS:
            raise CslError(
                at,
                f"compile-time execution took more than {MAX_STEPS} calls and loop rounds",
                "is there an endless loop?",
            )

    def spend(self, at: Span, work: int) -> None:
        """Count the cost of something, as a number of statements that take as long. Raises CslError over the
        limit."""
        self.work += work
        if self.work > MAX_WORK:
            raise CslError(
                at,
                f"compile-time execution took more work than {MAX_WORK} statements",
                "is there an endless loop, or a large value copied in one?",
            )

    # ---- names ----

    def lookup(self, name: str, scope: Scope, at: Span) -> Entry:
        """Return what a name stands for. Raises CslError if it is not declared."""
        entry = scope.find(name) or scope.instance.member(name)
        if entry is not None:
            return self.linked(entry) if isinstance(entry, FunctionValue) else entry
        kind = t.named_type(name)
        if kind is not None:
            return self.session.type_value(kind)
        value = PREDEFINED_VALUES.get(name)
        if value is not None:
            return value
        raise CslError(at, f"{name} is not declared", similar(name, scope.visible()))

    def linked(self, entry: Linked) -> Linked:
        """Return what an `extern` declaration stands for: the export of that name of a module of the same PE.

        Other declarations, and those that nothing exports so far, stand for themselves. Raises CslError if
        types differ.
        """
        pe = entry.instance.pe
        if entry.node.linkage != "extern" or pe is None:
            return entry
        name = self._link_name(entry)
        for export in pe.declared_exports:
            found = export.subject
            if isinstance(found, type(entry)) and self._link_name(found) == name:
                self._check_linked(entry, found)
                return found
        return entry

    def _link_name(self, entry: Global | FunctionValue) -> str:
        given = entry.node.linkname if isinstance(entry, Global) else None
        value = None if given is None else self.evaluate(given, entry.instance.scope)
        return value.text.decode(errors="replace") if isinstance(value, StringValue) else entry.node.name

    def _check_linked(self, entry: Global | FunctionValue, found: Global | FunctionValue) -> None:
        kinds = [
            self.global_type(each) if isinstance(each, Global) else self.signature(each)
            for each in (entry, found)
        ]
        if kinds[0] is not kinds[1]:
            name = entry.node.name
            where = found.instance.qualified(found.node.name)
            raise CslError(entry.node.at, f"extern {name} is {kinds[0]}, the exported {where} is {kinds[1]}")

    def read(self, entry: Entry, scope: Scope, at: Span) -> Value:
        """Return the value of what a name stands for. Raises NotComptime."""
        if isinstance(entry, Value):
            return entry
        if isinstance(entry, Global):
            return self.read_global(entry, scope, at)
        if isinstance(entry, Cell):
            if entry.value is None:
                raise CslError(at, f"{entry.name} has no value yet")
            return entry.value
        raise NotComptime(at, f"{entry.name} is only known at run time")

    def read_global(self, entry: Global, scope: Scope, at: Span) -> Value:
        """Return the value of a global; of a `var` only in the load phase. Raises NotComptime."""
        if entry.is_var and (scope.runtime or scope.forced):
            raise NotComptime(at, f"{entry.node.name} is a variable: its value is only known at run time")
        value = self.global_value(entry)
        if entry.is_var:
            self.memo.effects += 1
        if value is None:
            raise CslError(at, f"{entry.node.name} has no value", "give it one where it is declared")
        return value

    def global_type(self, entry: Global) -> t.Type:
        """Return the type of a global."""
        if entry.kind is None:
            declared = entry.node.type
            if declared is None:
                self.global_value(entry)
                if entry.kind is None:
                    raise CslError(entry.node.at, f"the type of {entry.node.name} is not known")
            else:
                self._enter(entry, 1)
                try:
                    entry.kind = self.type_expression(declared, entry.instance.scope)
                finally:
                    entry.state = 0
        return entry.kind

    def _enter(self, entry: Global, state: int) -> None:
        if entry.state in (1, 3):
            raise CslError(entry.node.at, f"{entry.node.name} depends on itself")
        entry.state = state

    def global_value(self, entry: Global) -> Value | None:
        """Return the value of a const or param, the initial value of a var; None if it has none."""
        linked = self.linked(entry)
        if linked is not entry:
            return self.global_value(linked)
        if entry.state == 4:
            return entry.value
        try:
            return self._evaluate_global(entry)
        except CslError:
            if entry.state in (1, 3):
                entry.state = 0
            raise

    def _evaluate_global(self, entry: Global) -> Value | None:
        node = entry.node
        kind = self.global_type(entry) if node.type is not None else None
        self._enter(entry, 3)
        if node.align is not None:
            entry.align = self.constant_integer(node.align, entry.instance.scope)
            if entry.align < 1 or entry.align & (entry.align - 1):
                raise CslError(node.align.at, f"an alignment is a power of two, found {entry.align}")
        value = self._initial_value(entry)
        if value is not None:
            at = node.value.at if node.value is not None else node.at
            if kind is not None:
                value = self.coerce(value, kind, at)
            elif entry.is_var and isinstance(value, TypeValue | FunctionValue):
                raise CslError(at, f"a var cannot hold a {value.type}", "declare it const")
            entry.kind = value.type
        elif kind is None:
            raise CslError(node.at, f"{node.name} needs a type or a value")
        entry.value = value
        entry.state = 4
        return value

    def _initial_value(self, entry: Global) -> Value | None:
        node, instance = entry.node, entry.instance
        if node.kind == "param":
            given = instance.params.get(node.name)
            # SDK 1.1 and before give an unused stream a color that no wavelets have; today it is {}.
            is_unused = isinstance(given, VoidValue) and node.type is not None and node.value is not None
            if given is not None and not is_unused:
                return given
            if node.value is None:
                outside = f"give it with --params={node.name}:N (cslc), --set params.{node.name}=N (npuviz)"
                hint = "give it in @set_tile_code or @import_module" if instance.pe else outside
                raise CslError(node.at, f"param {node.name} has no value", hint)
        if node.value is None:
            if node.kind == "const" and node.linkage != "extern":
                raise CslError(node.at, f"const {node.name} needs a value")
            return None
        return self.evaluate(node.value, instance.scope)

    # ---- functions ----

    def signature(self, function: FunctionValue) -> t.FunctionType | None:
        """Return the type of a function; None if it has parameters without a fixed type."""
        if function.signature is None:
            scope = function.instance.scope
            kinds: list[t.Type] = []
            for parameter in function.node.parameters:
                if parameter.type is None or parameter.comptime:
                    return None
                kind = self.type_expression(parameter.type, scope)
                if kind is t.TYPE:
                    return None
                kinds.append(kind)
            result = self.type_expression(function.node.result, scope)
            function.signature = t.function(function.node.kind, tuple(kinds), result)
        return function.signature

    def call(self, function: FunctionValue, arguments: list[Value], at: Span, depth: int = 0) -> Value:
        """Execute a function at compile time. Raises CslError."""
        node = function.node
        if function.is_task:
            raise CslError(at, f"task {node.name} cannot be called", "activate it instead")
        if len(arguments) != len(node.parameters):
            raise CslError(at, f"{node.name} takes {len(node.parameters)} arguments, found {len(arguments)}")
        if node.body is None:
            raise CslError(at, f"extern function {node.name} has no body")
        if depth >= MAX_CALL_DEPTH:
            raise CslError(at, f"calls at compile time are nested deeper than {MAX_CALL_DEPTH}")
        self.count_step(at)
        self.spend(at, sum([weight_of(value) for value in arguments]))
        how = self.route_calls.passing(function)
        if how is not None and (function.signature or self.signature(function)) is not None:
            return self._call_for_routes(function, node.body, how, arguments, at, depth)
        key = self.memo.key(function, arguments)
        known = None if key is None else self.memo.find(key)
        if known is not None:
            return known
        effects = self.memo.effects
        result = self._execute_call(function, node.body, arguments, at, depth)
        if key is not None:
            self.memo.keep(function, key, result, effects)
        return result

    def _call_for_routes(
        self,
        function: FunctionValue,
        body: Block,
        how: Passing,
        arguments: list[Value],
        at: Span,
        depth: int,
    ) -> Value:
        """Call, as `call` does, a function that passes coordinates to `@set_color_config`."""
        others = [value for index, value in enumerate(arguments) if index not in how.passed]
        key = self.memo.key(function, others, give_up=False)
        known = None if key is None else self.route_calls.find(function, key)
        if known is not None:
            self._repeat(function, known, arguments, at)
            return VOID
        outer, made = self.route_calls.recording, list[Configured]()
        effects = self.memo.effects
        self.route_calls.recording = made
        try:
            result = self._execute_call(function, body, arguments, at, depth)
        finally:
            self.route_calls.recording = outer
        # Configurations by functions called from here are not in `made`, but count as effects.
        if key is not None and result is VOID and self.memo.effects - effects == len(made):
            self.route_calls.keep(function, key, how, made)
        return result

    def _repeat(self, function: FunctionValue, known: Repeats, arguments: list[Value], at: Span) -> None:
        self.spend(at, len(known))
        self.memo.effects += len(known)
        signature = function.signature
        assert signature is not None
        try:
            for column, row, one in known:
                x, y = one.place
                if column >= 0:
                    x = integer_of(self.coerce(arguments[column], signature.parameters[column], at), at)
                if row >= 0:
                    y = integer_of(self.coerce(arguments[row], signature.parameters[row], at), at)
                one.repeat((x, y))
        except CslError as error:
            if len(error.notes) < 4:
                error.notes.append((at, f"called as {function.node.name}"))
            raise

    def _execute_call(
        self, function: FunctionValue, body: Block, arguments: list[Value], at: Span, depth: int
    ) -> Value:
        node = function.node
        scope = Scope(function.instance, function.instance.scope, False, depth + 1)
        signature = function.signature or self.signature(function)
        for index, (parameter, value) in enumerate(zip(node.parameters, arguments, strict=True)):
            # Without a signature, a type may need the parameters before it.
            kind = signature.parameters[index] if signature else value.type
            if not signature and parameter.type is not None:
                kind = self.type_expression(parameter.type, scope)
            scope.declare(parameter.name, self.coerce(value, kind, at))
        result = signature.result if signature else self.type_expression(node.result, scope)
        try:
            jump = self.execute_block(body, scope)
        except CslError as error:
            if len(error.notes) < 4:
                error.notes.append((at, f"called as {node.name}"))
            raise
        if jump is None:
            if result is t.VOID:
                return VOID
            raise CslError(at, f"{node.name} ended without returning a {result}")
        if jump.kind != "return":
            raise CslError(jump.at, f"{jump.kind} outside of a loop")
        return self.coerce(jump.value, result, jump.at)

    # ---- helpers ----

    def constant_integer(self, node: Expression, scope: Scope) -> int:
        """Return an integer that must be known at compile time. Raises CslError."""
        return integer_of(self.evaluate(node, scope), node.at)

    def module(self, instance: ModuleInstance, name: str, at: Span) -> Global | FunctionValue:
        """Return a member of a module. Raises CslError if there is none."""
        entry = instance.member(name)
        if entry is None:
            hint = similar(name, instance.declarations)
            raise CslError(at, f"{instance.file.path} declares no {name}", hint)
        return entry
