"""The syntax tree of CSL: one frozen node class per construct, as written in the text.

Nothing is resolved here: a type is an expression, a name is only a text, an untaken branch is
still present. Nodes compare and hash by identity, so a node can be the key of a dictionary.

Node
 +-- Expression
 |    +-- IntegerLiteral FloatLiteral BooleanLiteral StringLiteral VoidLiteral
 |    +-- Name Member Index Dereference AddressOf Call BuiltinCall
 |    +-- Unary Binary ComptimeExpression TensorAccess
 |    +-- IfExpression SwitchExpression BlockExpression
 |    +-- ArrayLiteral StructLiteral TupleLiteral
 |    +-- ArrayType PointerType FunctionType StructType EnumType
 +-- Statement
 |    +-- Block ExpressionStatement Assignment Return Break Continue
 |    +-- IfStatement While For SwitchStatement ComptimeBlock Variable
 +-- Declaration: Variable Function Layout ComptimeBlock
 +-- parts: Parameter FieldDeclaration EnumMember FieldValue Prong
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


class Span(NamedTuple):
    """The place of a node: `file` indexes `SourceFile.index`; counted from 1, the end is exclusive."""

    file: int
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A part of the syntax tree with a place in the text."""

    at: Span


class Expression(Node):
    """A node that has a value (types are values)."""

    __slots__ = ()


class Statement(Node):
    """A node that is executed for its effect."""

    __slots__ = ()


# ---- literals and names ----


@dataclass(frozen=True, slots=True, eq=False)
class IntegerLiteral(Expression):
    """`12`, `0x1F`, `0b01`, `1_000`, `'a'`: an unbounded `comptime_int`."""

    value: int


@dataclass(frozen=True, slots=True, eq=False)
class FloatLiteral(Expression):
    """`1.5`, `2.0e-3`: a `comptime_float`."""

    value: float


@dataclass(frozen=True, slots=True, eq=False)
class BooleanLiteral(Expression):
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class StringLiteral(Expression):
    """A `comptime_string`; escapes are already replaced, so `value` is bytes."""

    value: bytes


@dataclass(frozen=True, slots=True, eq=False)
class VoidLiteral(Expression):
    """`{}` where a value is expected."""


@dataclass(frozen=True, slots=True, eq=False)
class Name(Expression):
    """A plain name, also of a predefined type (`u16`) or value (`RAMP`, `NORTH`)."""

    text: str


# ---- access ----


@dataclass(frozen=True, slots=True, eq=False)
class Member(Expression):
    """`base.name`."""

    base: Expression
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(Expression):
    """`base[i]` or `base[i, j]`; also `tuple[k]`."""

    base: Expression
    indices: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Dereference(Expression):
    """`base.*`."""

    base: Expression


@dataclass(frozen=True, slots=True, eq=False)
class AddressOf(Expression):
    """`&operand`."""

    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """`callee(arguments)`."""

    callee: Expression
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BuiltinCall(Expression):
    """`@name(arguments)`; `name` is without the `@`."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TensorAccess(Expression):
    """`|variables|{lengths} -> base[indices]`."""

    variables: tuple[str, ...]
    lengths: tuple[Expression, ...]
    base: Expression
    indices: tuple[Expression, ...]


# ---- operators ----


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Expression):
    """`operator operand` with operator `-`, `~` or `!`."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Expression):
    """`left operator right`: `+ - * / % << >> & | ^ == != < <= > >= and or`."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True, eq=False)
class ComptimeExpression(Expression):
    """`comptime operand`: must be evaluated at compile time."""

    operand: Expression


# ---- control flow as a value ----


@dataclass(frozen=True, slots=True, eq=False)
class IfExpression(Expression):
    """`if (condition) then else otherwise` as a value; without `else` the other value is void."""

    condition: Expression
    then: Expression
    otherwise: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class BlockExpression(Expression):
    """`label: { .. break :label value; .. }` as a value."""

    block: Block


@dataclass(frozen=True, slots=True, eq=False)
class SwitchExpression(Expression):
    """`switch (subject) {..}` as a value; the body of every prong is an `Expression`."""

    subject: Expression
    prongs: tuple[Prong, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Prong(Node):
    """One arm of a switch; `values` is empty for `else =>`. The body is an expression or a statement."""

    values: tuple[Expression, ...]
    body: Expression | Statement


# ---- aggregates ----


@dataclass(frozen=True, slots=True, eq=False)
class ArrayLiteral(Expression):
    """`[3]i16 {1, 2, 3}`; elements of a tensor of higher rank are given flat, last index fastest."""

    type: ArrayType
    elements: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FieldValue(Node):
    """`.name = value` in a struct literal."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class StructLiteral(Expression):
    """`.{.a = 1}` (`type` is None) or `T {.a = 1}`. `.{}` is one without fields."""

    type: Expression | None
    fields: tuple[FieldValue, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TupleLiteral(Expression):
    """`.{1, x}`: an anonymous struct whose fields are numbered."""

    elements: tuple[Expression, ...]


# ---- types as expressions ----


@dataclass(frozen=True, slots=True, eq=False)
class ArrayType(Expression):
    """`[n]T` or `[n, m]T`."""

    dimensions: tuple[Expression, ...]
    element: Expression


@dataclass(frozen=True, slots=True, eq=False)
class PointerType(Expression):
    """`*T`, `*const T` (`many` False), `[*]T`, `[*]const T` (`many` True)."""

    pointee: Expression
    many: bool
    const: bool


@dataclass(frozen=True, slots=True, eq=False)
class FunctionType(Expression):
    """`fn(T, U) R` (`kind` "fn") or `task (T) R` (`kind` "task")."""

    kind: Literal["fn", "task"]
    parameters: tuple[Expression, ...]
    result: Expression


@dataclass(frozen=True, slots=True, eq=False)
class FieldDeclaration(Node):
    """`name: type [= default]` in a struct type."""

    name: str
    type: Expression
    default: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class StructType(Expression):
    """`struct {..}` or `union {..}`; `layout_kind` is "" or the prefix `packed` / `extern`."""

    fields: tuple[FieldDeclaration, ...]
    layout_kind: Literal["", "packed", "extern"]
    is_union: bool


@dataclass(frozen=True, slots=True, eq=False)
class EnumMember(Node):
    """`name [= value]` in an enum type."""

    name: str
    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class EnumType(Expression):
    """`enum(u16) {..}`; `backing` is None when no type is written."""

    backing: Expression | None
    members: tuple[EnumMember, ...]


# ---- statements ----


@dataclass(frozen=True, slots=True, eq=False)
class Block(Statement):
    """`[label:] { statements }`: a scope."""

    statements: tuple[Statement, ...]
    label: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionStatement(Statement):
    """`expression;`: a call, normally."""

    expression: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Assignment(Statement):
    """`target = value` (`operator` "") or a compound one (`operator` "+", "<<", ..); target `_` discards."""

    target: Expression
    operator: str
    value: Expression


@dataclass(frozen=True, slots=True, eq=False)
class IfStatement(Statement):
    """`if (condition) then [else otherwise]`."""

    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(frozen=True, slots=True, eq=False)
class While(Statement):
    """`[label:] [inline] while (condition) [: (step)] body`; the step also runs after `continue`."""

    condition: Expression
    step: Assignment | ExpressionStatement | None
    body: Statement
    label: str = ""
    inline: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class For(Statement):
    """`[label:] [inline] for (iterable) |element[, index]| body`; names may be `_`, `index` "" when absent.

    inline  each round is compiled by itself, with a known element
    """

    iterable: Expression
    element: str
    index: str
    body: Statement
    label: str = ""
    inline: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SwitchStatement(Statement):
    """`switch (subject) {..}` as a statement; prong bodies are statements (an expression is wrapped)."""

    subject: Expression
    prongs: tuple[Prong, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Return(Statement):
    """`return [value];`."""

    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Break(Statement):
    """`break [:label] [value];`."""

    label: str
    value: Expression | None


@dataclass(frozen=True, slots=True, eq=False)
class Continue(Statement):
    """`continue [:label];`."""

    label: str


@dataclass(frozen=True, slots=True, eq=False)
class ComptimeBlock(Statement):
    """`comptime { .. }`, at the top level of a file or among statements."""

    body: Block


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Statement):
    """`[export|extern] [comptime] const|var|param name[: type] [align(n)] .. [= value];`, global or local.

    The old form `color name;` is a `param` with `type` the name `color` and `old_color` True.
    """

    kind: Literal["const", "var", "param"]
    name: str
    type: Expression | None
    value: Expression | None
    comptime: bool = False
    linkage: Literal["", "export", "extern"] = ""
    align: Expression | None = None
    linksection: Expression | None = None
    linkname: Expression | None = None
    old_color: bool = False


# ---- declarations of a file ----


@dataclass(frozen=True, slots=True, eq=False)
class Parameter(Node):
    """`[comptime] name: type`; `type` is None for `anytype`."""

    name: str
    type: Expression | None
    comptime: bool


@dataclass(frozen=True, slots=True, eq=False)
class Function(Node):
    """`[export|extern] [inline] fn|task name(parameters) result body`; `body` is None for `extern`."""

    kind: Literal["fn", "task"]
    name: str
    parameters: tuple[Parameter, ...]
    result: Expression
    body: Block | None
    linkage: Literal["", "export", "extern"] = ""
    inline: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Layout(Node):
    """`layout { .. }`: places code and routes on the rectangle."""

    body: Block


Declaration = Variable | Function | Layout | ComptimeBlock


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """One parsed file: `index` is what `Span.file` holds, `path` the path as opened, `text` its source."""

    index: int
    path: str
    text: str
    declarations: tuple[Declaration, ...]

    def line(self, number: int) -> str:
        """Return source line `number` (from 1) without its end, "" outside the file."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""
