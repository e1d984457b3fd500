"""Build nodes from grammar rules: what each rule of csl.lark becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from lark import Token

from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.tree import Expression, Span, Statement

Children = list[Any]
"""Tokens and results of inner rules, in order of the text."""

_ESCAPES = {"n": 10, "t": 9, "r": 13, "0": 0, "\\": 92, '"': 34, "'": 39}


def _nodes(children: Children) -> tuple[Any, ...]:
    """Return the children that are not tokens."""
    return tuple(child for child in children if not isinstance(child, Token))


def _first_list(children: Children) -> tuple[Any, ...]:
    """Return the elements of the first list among the children, () if there is none."""
    for child in children:
        if isinstance(child, tuple) and not isinstance(child, Span):
            return cast("tuple[Any, ...]", child)
    return ()


def _unescape(text: str) -> bytes:
    """Return the bytes of a literal without its quotes."""
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


def _linkage(children: Children) -> Literal["", "export", "extern"]:
    first: Any = children[0]
    if isinstance(first, tuple):
        word: Any = cast("tuple[Any, ...]", first)[0]
        return "export" if word == "export" else "extern"
    return ""


PARTS: dict[str, Callable[[Children], Any]] = {
    "start": tuple,
    "inline_first": lambda c: c[0],
    "linkage": lambda c: (str(c[0]), c[0]),
    "type_mark": lambda c: (":", c[1]),
    "attribute": lambda c: (str(c[0]), c[2]),
    "label": lambda c: ("label", c[0]),
    "break_label": lambda c: ("label", c[1]),
    "while_step": lambda c: ("step", c[2]),
    "names": lambda c: tuple(str(name) for name in c[::2]),
    "parenthesized": lambda c: c[1],
    "backing": lambda c: c[1],
    **dict.fromkeys(("parameters", "prongs", "values", "exprs", "types"), _nodes),
    **dict.fromkeys(("field_declarations", "enum_members"), _nodes),
}
"""Rules that do not make a node: rule name -> function of the children."""

NODES: dict[str, Callable[[Span, Children], tree.Node]] = {
    # ---- declarations, statements
    "layout": lambda at, c: tree.Layout(at, c[1]),
    "comptime_block": lambda at, c: tree.ComptimeBlock(at, c[1]),
    "block": lambda at, c: tree.Block(at, tuple(c[1:-1])),
    "labelled_block": lambda at, c: tree.Block(at, c[2].statements, str(c[0])),
    "expression_statement": lambda at, c: tree.ExpressionStatement(at, c[0]),
    "assignment": lambda at, c: tree.Assignment(at, c[0], str(c[1])[:-1], c[2]),
    "return_statement": lambda at, c: tree.Return(at, c[1] if len(c) == 3 else None),
    "bare_return": lambda at, c: tree.Return(at, c[1] if len(c) == 2 else None),
    "if_statement": lambda at, c: tree.IfStatement(at, c[2], c[4], c[6] if len(c) > 5 else None),
    # ---- expressions
    "name": lambda at, c: tree.Name(at, str(c[0])),
    "float": lambda at, c: tree.FloatLiteral(at, float(str(c[0]).replace("_", ""))),
    "string": lambda at, c: tree.StringLiteral(at, _unescape(str(c[0])[1:-1])),
    "true": lambda at, c: tree.BooleanLiteral(at, True),
    "false": lambda at, c: tree.BooleanLiteral(at, False),
    "void_literal": lambda at, c: tree.VoidLiteral(at),
    "binary": lambda at, c: tree.Binary(at, str(c[1]), c[0], c[2]),
    "unary": lambda at, c: tree.Unary(at, str(c[0]), c[1]),
    "address_of": lambda at, c: tree.AddressOf(at, c[1]),
    "comptime_expression": lambda at, c: tree.ComptimeExpression(at, c[1]),
    "member": lambda at, c: tree.Member(at, c[0], str(c[2])),
    "dereference": lambda at, c: tree.Dereference(at, c[0]),
    "index": lambda at, c: tree.Index(at, c[0], c[2]),
    "call": lambda at, c: tree.Call(at, c[0], c[2] if len(c) == 4 else ()),
    "builtin": lambda at, c: tree.BuiltinCall(at, str(c[0])[1:], c[2] if len(c) == 4 else ()),
    "if_expression": lambda at, c: tree.IfExpression(at, c[2], c[4], c[6] if len(c) > 5 else None),
    "block_expression": lambda at, c: tree.BlockExpression(at, tree.Block(at, c[2].statements, str(c[0]))),
    "empty_struct": lambda at, c: tree.StructLiteral(at, None, ()),
    "struct_literal": lambda at, c: tree.StructLiteral(at, None, c[1]),
    "typed_struct": lambda at, c: tree.StructLiteral(at, c[0], c[2] if len(c) == 4 else ()),
    "tuple_literal": lambda at, c: tree.TupleLiteral(at, c[1]),
    "array_literal": lambda at, c: tree.ArrayLiteral(at, c[0], c[2] if len(c) == 4 else ()),
    # ---- types
    "array_type": lambda at, c: tree.ArrayType(at, c[1], c[3]),
    "pointer_type": lambda at, c: tree.PointerType(at, c[-1], c[0] == "[*]", len(c) == 3),
    "function_type": lambda at, c: tree.FunctionType(
        at, cast(Any, str(c[0])), c[2] if len(c) == 5 else (), c[-1]
    ),
    "named_type": lambda _at, c: c[2],
    "struct_type": lambda at, c: tree.StructType(
        at, _first_list(c), cast(Any, "" if c[0] in ("struct", "union") else str(c[0])), "union" in c[:2]
    ),
    "enum_type": lambda at, c: tree.EnumType(
        at, c[1] if isinstance(c[1], Expression) else None, _first_list(c)
    ),
}
"""Rules that take one line: rule name -> function that makes a node from a place and children."""


class TreeBuilder:
    """Build nodes: Lark calls the method of a rule's name. `file` is the index that goes into every span."""

    def __init__(self) -> None:
        self.file = 0

    def __getattr__(self, rule: str) -> Callable[[Children], Any]:
        """Return the function of a rule in the tables. Raises AttributeError for other names."""
        part = PARTS.get(rule)
        if part is not None:
            return part
        node = NODES.get(rule)
        if node is None:
            raise AttributeError(rule)
        return lambda c: node(self.span(c), c)

    def span(self, children: Children) -> Span:
        """Return the span from the start of the first child to the end of the last."""
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
        """Return the place of one token."""
        return self.span([token])

    # ---- declarations ----

    def old_color(self, c: Children) -> tree.Variable:
        """Build the node of `color name;`."""
        at = self.token_span(c[0])
        if str(c[0]) != "color":
            raise CslError(at, f"a declaration cannot start with {str(c[0])!r}")
        kind = tree.Name(at, "color")
        return tree.Variable(self.span(c), "param", str(c[1]), kind, None, old_color=True)

    def initial(self, c: Children) -> tuple[str, Expression]:
        """Return "=" and the value of `= value`."""
        if c[0] != "=":
            raise CslError(self.token_span(c[0]), f"expected = before the initial value, found {c[0]}")
        return ("=", c[1])

    def variable(self, c: Children) -> tree.Variable:
        """Build the node of a `const`, `var` or `param`."""
        parts: dict[str, Any] = {}
        tokens: list[Token] = []
        for child in c:
            if isinstance(child, Token):
                tokens.append(child)
            else:
                parts[child[0]] = child[1]
        linkage: Literal["", "export", "extern"] = ""
        first = tokens[0]
        for word in ("export", "extern"):
            if word in parts:
                linkage = "export" if word == "export" else "extern"
                first = parts[word]
        is_comptime = tokens[0] == "comptime"
        kind, name = tokens[1:3] if is_comptime else tokens[0:2]
        return tree.Variable(
            self.span([first, tokens[-1]]),
            cast(Any, str(kind)),
            str(name),
            parts.get(":"),
            parts.get("="),
            is_comptime,
            linkage,
            parts.get("align"),
            parts.get("linksection"),
            parts.get("linkname"),
        )

    def function(self, c: Children) -> tree.Function:
        """Build the node of a `fn` or `task`."""
        linkage = _linkage(c)
        rest = c[1:] if linkage else c
        inline = rest[0] == "inline"
        if inline:
            rest = rest[1:]
        kind, name = rest[0], rest[1]
        close = next(i for i, child in enumerate(rest) if isinstance(child, Token) and child == ")")
        parameters: tuple[tree.Parameter, ...] = rest[3] if close == 4 else ()
        body = None if isinstance(rest[-1], Token) else rest[-1]
        # Where its code lies (`linksection`) changes nothing here.
        result = next(child for child in rest[close + 1 :] if not isinstance(child, tuple))
        return tree.Function(
            self.span([kind, name]),
            cast(Any, str(kind)),
            str(name),
            parameters,
            result,
            body,
            linkage,
            inline,
        )

    def parameter(self, c: Children) -> tree.Parameter:
        """Build the node of `name: type`."""
        is_comptime = len(c) == 4
        name, kind = c[-3], c[-1]
        if isinstance(kind, tree.Name) and kind.text == "anytype":
            kind = None
        return tree.Parameter(self.span([c[0], name]), str(name), kind, is_comptime)

    # ---- statements ----

    def _loop(self, c: Children) -> tuple[str, bool, Children]:
        """Return the label of a loop ("" if none), whether it is inline, and the children after that."""
        first, label = c[0], ""
        if isinstance(first, tuple):
            label, c = str(cast("tuple[Any, ...]", first)[1]), c[1:]
        is_inline = str(c[0]) == "inline"
        return label, is_inline, c[is_inline:]

    def while_statement(self, c: Children) -> tree.While:
        """Build the node of `while (..) ..`."""
        label, is_inline, rest = self._loop(c)
        step = rest[4][1] if len(rest) == 6 else None
        return tree.While(self.span([rest[0], rest[-1]]), rest[2], step, rest[-1], label, is_inline)

    def for_statement(self, c: Children) -> tree.For:
        """Build the node of `for (..) |..| ..`."""
        label, is_inline, rest = self._loop(c)
        names: list[str] = list(rest[5])
        at = self.span([rest[0], rest[-1]])
        if len(names) > 2:
            raise CslError(at, "a for loop has one or two names between the bars: element and index")
        return tree.For(at, rest[2], names[0], names[1] if len(names) > 1 else "", rest[-1], label, is_inline)

    def switch_statement(self, c: Children) -> tree.SwitchStatement:
        """Build the node of a `switch` statement."""
        prongs: list[tree.Prong] = []
        for prong in _first_list(c):
            body = prong.body
            if isinstance(body, Expression):
                body = tree.ExpressionStatement(body.at, body)
            prongs.append(tree.Prong(prong.at, prong.values, body))
        return tree.SwitchStatement(self.span(c), c[2], tuple(prongs))

    def _jump(self, c: Children) -> tuple[Span, str, Expression | None]:
        label, value, tokens = "", None, [c[0]]
        for child in c[1:]:
            if isinstance(child, tuple):
                label = str(cast("tuple[Any, ...]", child)[1])
                tokens.append(cast("tuple[Any, ...]", child)[1])
            elif isinstance(child, Token):
                tokens.append(child)
            else:
                value = child
                tokens.append(child)
        return self.span(tokens), label, value

    def break_statement(self, c: Children) -> tree.Break:
        """Build the node of `break ..;`."""
        return tree.Break(*self._jump(c))

    bare_break = break_statement

    def continue_statement(self, c: Children) -> tree.Continue:
        """Build the node of `continue ..;`."""
        at, label, _ = self._jump(c)
        return tree.Continue(at, label)

    bare_continue = continue_statement

    def prong_values(self, c: Children) -> tuple[Any, ...]:
        """Return the values before `=>`."""
        values: tuple[Expression, ...] = () if isinstance(c[0], Token) else c[0]
        return ("values", values, c[0] if not values else values[0])

    def prong(self, c: Children) -> tree.Prong:
        """Build the node of one prong of a switch."""
        _, values, first = c[0]
        return tree.Prong(self.span([first, c[2]]), values, c[2])

    # ---- expressions, types ----

    def switch_expression(self, c: Children) -> tree.SwitchExpression:
        """Build the node of a `switch` used as a value."""
        prongs: list[tree.Prong] = []
        for prong in _first_list(c):
            body = prong.body
            if isinstance(body, tree.Block) and not body.statements:
                body = tree.VoidLiteral(body.at)
            elif isinstance(body, Statement):
                block = body if isinstance(body, tree.Block) else tree.Block(body.at, (body,))
                body = tree.BlockExpression(body.at, block)
            prongs.append(tree.Prong(prong.at, prong.values, body))
        return tree.SwitchExpression(self.span(c), c[2], tuple(prongs))

    def tensor_access(self, c: Children) -> tree.TensorAccess:
        """Build the node of `|i|{n} -> A[i]`."""
        access = c[-1]
        at = self.span(c)
        if not isinstance(access, tree.Index):
            raise CslError(access.at, "a tensor access ends with indices, as in |i|{4} -> A[i]")
        names: tuple[str, ...] = c[1]
        lengths: tuple[Expression, ...] = c[4]
        if len(names) != len(lengths):
            raise CslError(at, f"{len(names)} variables between the bars, but {len(lengths)} lengths")
        return tree.TensorAccess(at, names, lengths, access.base, access.indices)

    def integer(self, c: Children) -> tree.IntegerLiteral:
        """Build the node of an integer literal."""
        text = str(c[0]).replace("_", "")
        base = {"0x": 16, "0b": 2, "0o": 8}.get(text[:2], 10)
        try:
            return tree.IntegerLiteral(self.token_span(c[0]), int(text, base))
        except ValueError:
            raise CslError(self.token_span(c[0]), "this number has too many digits or none") from None

    def character(self, c: Children) -> tree.IntegerLiteral:
        """Build the node of a character literal."""
        text = _unescape(str(c[0])[1:-1])
        if len(text) != 1:
            raise CslError(self.token_span(c[0]), "a character literal holds one byte")
        return tree.IntegerLiteral(self.token_span(c[0]), text[0])

    def struct_fields(self, c: Children) -> tuple[tree.FieldValue, ...]:
        """Return the fields of a struct literal, whose names must differ."""
        fields = _nodes(c)
        seen: set[str] = set()
        for field in fields:
            if field.name in seen:
                raise CslError(field.at, f"field .{field.name} is given twice")
            seen.add(field.name)
        return fields

    def field_value(self, c: Children) -> tree.FieldValue:
        """Build the node of `.name = value`."""
        self._expect_equal(c[2])
        return tree.FieldValue(self.span(c), str(c[1]), c[3])

    def field_declaration(self, c: Children) -> tree.FieldDeclaration:
        """Build the node of `name: type`, with or without a default."""
        if len(c) == 5:
            self._expect_equal(c[3])
        return tree.FieldDeclaration(self.span(c), str(c[0]), c[2], c[4] if len(c) == 5 else None)

    def enum_member(self, c: Children) -> tree.EnumMember:
        """Build the node of `name` or `name = value`."""
        if len(c) == 3:
            self._expect_equal(c[1])
        return tree.EnumMember(self.span(c), str(c[0]), c[2] if len(c) == 3 else None)

    def _expect_equal(self, token: Token) -> None:
        if token != "=":
            raise CslError(self.token_span(token), f"expected =, found {token}")
