"""From grammar rules to nodes: expressions and types, one method per rule of csl.lark."""

from __future__ import annotations

from typing import Any, cast

from lark import Token

from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import Expression, Span, Statement

Children = list[Any]
"""Tokens and results of inner rules, in order of the text."""

_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "\\": 92, '"': 34, "'": 39}


def nodes(children: Children) -> tuple[Any, ...]:
    """The children that are not tokens."""
    return tuple(child for child in children if not isinstance(child, Token))


def first_list(children: Children) -> tuple[Any, ...]:
    """The elements of the first list among the children, () if there is none."""
    for child in children:
        if isinstance(child, tuple) and not isinstance(child, Span):
            return cast("tuple[Any, ...]", child)
    return ()


class ExpressionBuilder:
    """Rule name -> node, for expressions and types. `file` is the index that goes into every span."""

    def __init__(self) -> None:
        self.file = 0

    def span(self, children: Children) -> Span:
        """From the start of the first child to the end of the last."""
        first, last = children[0], children[-1]
        if isinstance(first, Token):
            line, column = first.line or 1, first.column or 1
        else:
            place: Span = first.at
            line, column = place.line, place.column
        if isinstance(last, Token):
            return Span(self.file, line, column, last.end_line or line, last.end_column or column)
        end: Span = last.at
        return Span(self.file, line, column, end.end_line, end.end_column)

    def token_span(self, token: Token) -> Span:
        """Place of one token."""
        line, column = token.line or 1, token.column or 1
        return Span(self.file, line, column, token.end_line or line, token.end_column or column)

    # ---- expressions ----

    def void_literal(self, c: Children) -> tree.VoidLiteral:
        """`{}`."""
        return tree.VoidLiteral(self.span(c))

    def block_expression(self, c: Children) -> tree.BlockExpression:
        """A labelled block as a value."""
        at = self.span(c)
        return tree.BlockExpression(at, tree.Block(at, c[2].statements, str(c[0])))

    def if_expression(self, c: Children) -> tree.IfExpression:
        """`if` as a value."""
        return tree.IfExpression(self.span(c), c[2], c[4], c[6] if len(c) > 5 else None)

    def switch_expression(self, c: Children) -> tree.SwitchExpression:
        """`switch` as a value."""
        prongs: list[tree.Prong] = []
        for prong in first_list(c):
            body = prong.body
            if isinstance(body, tree.Block) and not body.statements:
                body = tree.VoidLiteral(body.at)
            elif isinstance(body, Statement):
                block = body if isinstance(body, tree.Block) else tree.Block(body.at, (body,))
                body = tree.BlockExpression(body.at, block)
            prongs.append(tree.Prong(prong.at, prong.values, body))
        return tree.SwitchExpression(self.span(c), c[2], tuple(prongs))

    def tensor_access(self, c: Children) -> tree.TensorAccess:
        """`|i|{n} -> A[i]`."""
        access = c[-1]
        at = self.span(c)
        if not isinstance(access, tree.Index):
            raise CslError(access.at, "a tensor access ends with indices, as in |i|{4} -> A[i]")
        names: tuple[str, ...] = c[1]
        lengths: tuple[Expression, ...] = c[4]
        if len(names) != len(lengths):
            raise CslError(at, f"{len(names)} variables between the bars, but {len(lengths)} lengths")
        return tree.TensorAccess(at, names, lengths, access.base, access.indices)

    def binary(self, c: Children) -> tree.Binary:
        """Two operands."""
        return tree.Binary(self.span(c), str(c[1]), c[0], c[2])

    def unary(self, c: Children) -> tree.Expression:
        """One operand."""
        return tree.Unary(self.span(c), str(c[0]), c[1])

    def address_of(self, c: Children) -> tree.AddressOf:
        """`&x`."""
        return tree.AddressOf(self.span(c), c[1])

    def comptime_expression(self, c: Children) -> tree.ComptimeExpression:
        """`comptime x`."""
        return tree.ComptimeExpression(self.span(c), c[1])

    def member(self, c: Children) -> tree.Member:
        """`x.name`."""
        return tree.Member(self.span(c), c[0], str(c[2]))

    def dereference(self, c: Children) -> tree.Dereference:
        """`x.*`."""
        return tree.Dereference(self.span(c), c[0])

    def index(self, c: Children) -> tree.Index:
        """`x[i]`."""
        return tree.Index(self.span(c), c[0], c[2])

    def call(self, c: Children) -> tree.Call:
        """`f(..)`."""
        return tree.Call(self.span(c), c[0], c[2] if len(c) == 4 else ())

    def typed_struct(self, c: Children) -> tree.StructLiteral:
        """`T {.a = 1}`."""
        return tree.StructLiteral(self.span(c), c[0], c[2] if len(c) == 4 else ())

    def name(self, c: Children) -> tree.Name:
        """A name."""
        return tree.Name(self.token_span(c[0]), str(c[0]))

    def integer(self, c: Children) -> tree.IntegerLiteral:
        """An integer literal."""
        text = str(c[0]).replace("_", "")
        base = {"0x": 16, "0b": 2, "0o": 8}.get(text[:2], 10)
        try:
            return tree.IntegerLiteral(self.token_span(c[0]), int(text, base))
        except ValueError:
            raise CslError(self.token_span(c[0]), "this number has too many digits or none") from None

    def float(self, c: Children) -> tree.FloatLiteral:
        """A float literal."""
        return tree.FloatLiteral(self.token_span(c[0]), float(str(c[0]).replace("_", "")))

    def character(self, c: Children) -> tree.IntegerLiteral:
        """A character literal."""
        text = _unescape(str(c[0])[1:-1])
        if len(text) != 1:
            raise CslError(self.token_span(c[0]), "a character literal holds one byte")
        return tree.IntegerLiteral(self.token_span(c[0]), text[0])

    def string(self, c: Children) -> tree.StringLiteral:
        """A string literal."""
        return tree.StringLiteral(self.token_span(c[0]), _unescape(str(c[0])[1:-1]))

    def true(self, c: Children) -> tree.BooleanLiteral:
        """`true`."""
        return tree.BooleanLiteral(self.token_span(c[0]), True)

    def false(self, c: Children) -> tree.BooleanLiteral:
        """`false`."""
        return tree.BooleanLiteral(self.token_span(c[0]), False)

    def builtin(self, c: Children) -> tree.BuiltinCall:
        """`@name(..)`."""
        return tree.BuiltinCall(self.span(c), str(c[0])[1:], c[2] if len(c) == 4 else ())

    def parenthesized(self, c: Children) -> Expression:
        """`(x)`."""
        return c[1]

    def empty_struct(self, c: Children) -> tree.StructLiteral:
        """`.{}`."""
        return tree.StructLiteral(self.span(c), None, ())

    def struct_literal(self, c: Children) -> tree.StructLiteral:
        """`.{.a = 1}`."""
        return tree.StructLiteral(self.span(c), None, c[1])

    def tuple_literal(self, c: Children) -> tree.TupleLiteral:
        """`.{1, 2}`."""
        return tree.TupleLiteral(self.span(c), c[1])

    def array_literal(self, c: Children) -> tree.ArrayLiteral:
        """`[2]T {1, 2}`."""
        return tree.ArrayLiteral(self.span(c), c[0], c[2] if len(c) == 4 else ())

    def values(self, c: Children) -> tuple[Expression, ...]:
        """A list of values."""
        return nodes(c)

    def exprs(self, c: Children) -> tuple[Expression, ...]:
        """A list of expressions."""
        return nodes(c)

    def struct_fields(self, c: Children) -> tuple[tree.FieldValue, ...]:
        """Fields of a struct literal."""
        fields = nodes(c)
        seen: set[str] = set()
        for field in fields:
            if field.name in seen:
                raise CslError(field.at, f"field .{field.name} is given twice")
            seen.add(field.name)
        return fields

    def field_value(self, c: Children) -> tree.FieldValue:
        """`.name = value`."""
        self._expect_equal(c[2])
        return tree.FieldValue(self.span(c), str(c[1]), c[3])

    def _expect_equal(self, token: Token) -> None:
        if token != "=":
            raise CslError(self.token_span(token), f"expected =, found {token}")

    # ---- types ----

    def array_type(self, c: Children) -> tree.ArrayType:
        """`[n]T`."""
        return tree.ArrayType(self.span(c), c[1], c[3])

    def pointer_type(self, c: Children) -> tree.PointerType:
        """`*T` or `[*]T`."""
        return tree.PointerType(self.span(c), c[-1], c[0] == "[*]", len(c) == 3)

    def function_type(self, c: Children) -> tree.FunctionType:
        """`fn(T) R`."""
        types: tuple[Expression, ...] = c[2] if len(c) == 5 else ()
        return tree.FunctionType(self.span(c), cast(Any, str(c[0])), types, c[-1])

    def types(self, c: Children) -> tuple[Expression, ...]:
        """A list of types."""
        return nodes(c)

    def struct_type(self, c: Children) -> tree.StructType:
        """`struct {..}`."""
        layout = "" if c[0] == "struct" else str(c[0])
        return tree.StructType(self.span(c), first_list(c), cast(Any, layout))

    def field_declarations(self, c: Children) -> tuple[tree.FieldDeclaration, ...]:
        """Fields of a struct type."""
        return nodes(c)

    def field_declaration(self, c: Children) -> tree.FieldDeclaration:
        """`name: type`."""
        if len(c) == 5:
            self._expect_equal(c[3])
        return tree.FieldDeclaration(self.span(c), str(c[0]), c[2], c[4] if len(c) == 5 else None)

    def backing(self, c: Children) -> Expression:
        """`(u16)` of an enum."""
        return c[1]

    def enum_type(self, c: Children) -> tree.EnumType:
        """`enum {..}`."""
        backing = c[1] if isinstance(c[1], Expression) else None
        return tree.EnumType(self.span(c), backing, first_list(c))

    def enum_members(self, c: Children) -> tuple[tree.EnumMember, ...]:
        """Members of an enum."""
        return nodes(c)

    def enum_member(self, c: Children) -> tree.EnumMember:
        """`name = value`."""
        if len(c) == 3:
            self._expect_equal(c[1])
        return tree.EnumMember(self.span(c), str(c[0]), c[2] if len(c) == 3 else None)


def _unescape(text: str) -> bytes:
    """The bytes of a literal without its quotes."""
    if "\\" not in text:
        return text.encode()
    out = bytearray()
    index = 0
    while index < len(text):
        char = text[index]
        if char != "\\" or index + 1 == len(text):
            out += char.encode()
            index += 1
        elif text[index + 1] == "x" and len(text) >= index + 4:
            try:
                out.append(int(text[index + 2 : index + 4], 16))
            except ValueError:
                out += text[index : index + 4].encode()
            index += 4
        else:
            following = text[index + 1]
            out += bytes([_ESCAPES[following]]) if following in _ESCAPES else following.encode()
            index += 2
    return bytes(out)
