"""Masks that a kernel joins with Python's `and`, which no object can see both sides of."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any


def joins_masks(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with `a and b` inside of `mask=` arguments meaning that both hold.

    It is changed in place; one without source text, or with variables of an outer function, stays.
    """
    if not isinstance(function, FunctionType) or function.__code__.co_freevars:
        return function
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return function
    text = "".join(lines)
    if " and " not in text or "mask" not in text:
        return function
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return function
    joining = _Joining()
    tree = joining.visit(tree)
    made = tree.body[0]
    if not joining.count or not isinstance(made, ast.FunctionDef):
        return function
    made.decorator_list = []
    made.args.defaults = [ast.Constant(None) for _ in made.args.defaults]
    made.args.kw_defaults = [each and ast.Constant(None) for each in made.args.kw_defaults]
    ast.increment_lineno(tree, first - 1)
    outer = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec")
    inner = next(each for each in outer.co_consts if isinstance(each, CodeType) and each.co_name == made.name)
    function.__code__ = inner
    return function


class _Joining(ast.NodeTransformer):
    """`and` becomes `&` in values of `mask=`."""

    def __init__(self) -> None:
        self.count = 0
        self._inside = False

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """An argument by name."""
        before, self._inside = self._inside, self._inside or node.arg == "mask"
        self.generic_visit(node)
        self._inside = before
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`a and b`."""
        self.generic_visit(node)
        if not self._inside or not isinstance(node.op, ast.And):
            return node
        self.count += 1
        joined = node.values[0]
        for each in node.values[1:]:
            joined = ast.BinOp(joined, ast.BitAnd(), each)
        return ast.copy_location(joined, node)
