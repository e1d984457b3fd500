"""From grammar rules to nodes: declarations and statements, one method per rule of csl.lark."""

from __future__ import annotations

from typing import Any, Literal, cast

from lark import Token

from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError
from npuviz.targets.wavelet.csl.syntax.expression_builder import (
    Children,
    ExpressionBuilder,
    first_list,
    nodes,
)
from npuviz.targets.wavelet.csl.syntax.tree import Expression, Span, Statement


def _linkage(children: Children) -> Literal["", "export", "extern"]:
    first: Any = children[0]
    if isinstance(first, tuple):
        word: Any = cast("tuple[Any, ...]", first)[0]
        return "export" if word == "export" else "extern"
    return ""


class TreeBuilder(ExpressionBuilder):
    """Rule name -> node, for all rules; Lark calls it while it parses."""

    # ---- declarations ----

    def start(self, c: Children) -> tuple[tree.Declaration, ...]:
        """All declarations of a file."""
        return tuple(c)

    def inline_first(self, c: Children) -> Any:
        """A rule that is its first child."""
        return c[0]

    def layout(self, c: Children) -> tree.Layout:
        """`layout {..}`."""
        return tree.Layout(self.span(c), c[1])

    def comptime_block(self, c: Children) -> tree.ComptimeBlock:
        """`comptime {..}`."""
        return tree.ComptimeBlock(self.span(c), c[1])

    def old_color(self, c: Children) -> tree.Variable:
        """`color name;`."""
        at = self.token_span(c[0])
        if str(c[0]) != "color":
            raise CslError(at, f"a declaration cannot start with {str(c[0])!r}")
        kind = tree.Name(at, "color")
        return tree.Variable(self.span(c), "param", str(c[1]), kind, None, old_color=True)

    def linkage(self, c: Children) -> tuple[str, Token]:
        """`export` or `extern`."""
        return (str(c[0]), c[0])

    def type_mark(self, c: Children) -> tuple[str, Expression]:
        """`: type`."""
        return (":", c[1])

    def initial(self, c: Children) -> tuple[str, Expression]:
        """`= value`."""
        if c[0] != "=":
            raise CslError(self.token_span(c[0]), f"expected = before the initial value, found {c[0]}")
        return ("=", c[1])

    def attribute(self, c: Children) -> tuple[str, Expression]:
        """`align(n)` and the like."""
        return (str(c[0]), c[2])

    def variable(self, c: Children) -> tree.Variable:
        """A `const`, `var` or `param`."""
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
        """A `fn` or `task`."""
        linkage = _linkage(c)
        rest = c[1:] if linkage else c
        inline = rest[0] == "inline"
        if inline:
            rest = rest[1:]
        kind, name = rest[0], rest[1]
        close = next(i for i, child in enumerate(rest) if isinstance(child, Token) and child == ")")
        parameters: tuple[tree.Parameter, ...] = rest[3] if close == 4 else ()
        body = None if isinstance(rest[-1], Token) else rest[-1]
        return tree.Function(
            self.span([kind, name]),
            cast(Any, str(kind)),
            str(name),
            parameters,
            rest[close + 1],
            body,
            linkage,
            inline,
        )

    def parameters(self, c: Children) -> tuple[tree.Parameter, ...]:
        """A list of parameters."""
        return nodes(c)

    def parameter(self, c: Children) -> tree.Parameter:
        """`name: type`."""
        is_comptime = len(c) == 4
        name, kind = c[-3], c[-1]
        if isinstance(kind, tree.Name) and kind.text == "anytype":
            kind = None
        return tree.Parameter(self.span([c[0], name]), str(name), kind, is_comptime)

    # ---- statements ----

    def block(self, c: Children) -> tree.Block:
        """`{ .. }`."""
        return tree.Block(self.span(c), tuple(c[1:-1]))

    def labelled_block(self, c: Children) -> tree.Block:
        """`label: { .. }`."""
        return tree.Block(self.span(c), c[2].statements, str(c[0]))

    def label(self, c: Children) -> tuple[str, Token]:
        """`label:` before a loop."""
        return ("label", c[0])

    def break_label(self, c: Children) -> tuple[str, Token]:
        """`:label`."""
        return ("label", c[1])

    def _label(self, c: Children) -> tuple[str, Children]:
        """The label of a loop ("" if none) and the children after it."""
        first = c[0]
        if isinstance(first, tuple):
            return str(cast("tuple[Any, ...]", first)[1]), c[1:]
        return "", c

    def while_step(self, c: Children) -> tuple[str, Statement]:
        """`: (step)`."""
        return ("step", c[2])

    def names(self, c: Children) -> tuple[str, ...]:
        """Names between bars."""
        return tuple(str(name) for name in c[::2])

    def expression_statement(self, c: Children) -> tree.ExpressionStatement:
        """An expression as a statement."""
        return tree.ExpressionStatement(c[0].at, c[0])

    def assignment(self, c: Children) -> tree.Assignment:
        """`target = value`."""
        return tree.Assignment(self.span(c), c[0], str(c[1])[:-1], c[2])

    def while_statement(self, c: Children) -> tree.While:
        """`while (..) ..`."""
        label, rest = self._label(c)
        step = rest[4][1] if len(rest) == 6 else None
        return tree.While(self.span([rest[0], rest[-1]]), rest[2], step, rest[-1], label)

    def for_statement(self, c: Children) -> tree.For:
        """`for (..) |..| ..`."""
        label, rest = self._label(c)
        names: list[str] = list(rest[5])
        at = self.span([rest[0], rest[-1]])
        if len(names) > 2:
            raise CslError(at, "a for loop has one or two names between the bars: element and index")
        return tree.For(at, rest[2], names[0], names[1] if len(names) > 1 else "", rest[-1], label)

    def switch_statement(self, c: Children) -> tree.SwitchStatement:
        """`switch` as a statement."""
        prongs: list[tree.Prong] = []
        for prong in first_list(c):
            body = prong.body
            if isinstance(body, Expression):
                body = tree.ExpressionStatement(body.at, body)
            prongs.append(tree.Prong(prong.at, prong.values, body))
        return tree.SwitchStatement(self.span(c), c[2], tuple(prongs))

    def return_statement(self, c: Children) -> tree.Return:
        """`return ..;`."""
        return tree.Return(self.span(c), c[1] if len(c) == 3 else None)

    def bare_return(self, c: Children) -> tree.Return:
        """`return ..` in a prong."""
        return tree.Return(self.span(c), c[1] if len(c) == 2 else None)

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
        """`break ..;`."""
        return tree.Break(*self._jump(c))

    def bare_break(self, c: Children) -> tree.Break:
        """`break ..` in a prong."""
        return tree.Break(*self._jump(c))

    def continue_statement(self, c: Children) -> tree.Continue:
        """`continue ..;`."""
        at, label, _ = self._jump(c)
        return tree.Continue(at, label)

    def bare_continue(self, c: Children) -> tree.Continue:
        """`continue` in a prong."""
        at, label, _ = self._jump(c)
        return tree.Continue(at, label)

    def if_statement(self, c: Children) -> tree.IfStatement:
        """`if` as a statement."""
        return tree.IfStatement(self.span(c), c[2], c[4], c[6] if len(c) > 5 else None)

    def prongs(self, c: Children) -> tuple[tree.Prong, ...]:
        """All prongs of a switch."""
        return nodes(c)

    def prong_values(self, c: Children) -> tuple[Any, ...]:
        """What stands before `=>`."""
        values: tuple[Expression, ...] = () if isinstance(c[0], Token) else c[0]
        return ("values", values, c[0] if not values else values[0])

    def prong(self, c: Children) -> tree.Prong:
        """One prong of a switch."""
        _, values, first = c[0]
        return tree.Prong(self.span([first, c[2]]), values, c[2])
