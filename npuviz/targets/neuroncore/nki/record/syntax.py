"""What the tracer of generation 1 reads otherwise than Python does, in the text of a kernel.

* `and` inside of `mask=` joins two masks, which no object can see both sides of;
* `tile: nt.tensor[128, 512] = ...` checks the shape;
* `for ... in range(...)` is a loop of sequential_range, in the kernel itself, not in what it calls.
  # Ref: aws-neuron-sdk 49ee15c5, general/nki/api/nki/language/__init__.py, sequential_range; that helpers
  # keep Python's: nki-samples, rmsnorm_quant.py, the comment on NKI-917.
"""

import ast
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.tensors import Tensor

_RANGE = "__npuviz_range__"
_ANNOTATED = "__npuviz_annotated__"


def as_traced(function: Callable[..., Any], loop_range: Callable[..., Any]) -> Callable[..., Any]:
    """The function, changed in place to mean what the tracer reads; one without source text stays.

    loop_range  what `range` of a loop becomes
    """
    if not isinstance(function, FunctionType):
        return function
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return function
    text = "".join(lines)
    if not (" and " in text and "mask" in text) and " range(" not in text and "tensor[" not in text:
        return function
    try:
        tree = ast.parse(f"if True:\n{text}" if text[:1].isspace() else text)  # columns stay as they are
    except SyntaxError:
        return function
    block = tree.body[0]
    made = block.body[0] if isinstance(block, ast.If) else block
    if not isinstance(made, ast.FunctionDef):
        return function
    reader = _Reader()
    made.body = [reader.visit(each) for each in made.body]
    if not reader.count:
        return function
    code = _compiled(made, first - 1 - isinstance(block, ast.If), function.__code__)
    if code is not None:
        function.__globals__[_RANGE] = loop_range
        function.__globals__[_ANNOTATED] = annotated
        function.__code__ = code
    return function


def annotated(value: Any, annotation: Any) -> Any:
    """A value, whose shape an annotation of its variable says. Raises KernelError."""
    wanted = getattr(annotation, "shape", None)
    if wanted is not None and isinstance(value, Tensor) and tuple(value.shape) != wanted:
        raise KernelError(
            f"{value!r} does not have the shape of its annotation, {list(wanted)}: change one of them",
            "err_annotation_shape_mismatch",
        )
    return value


def _compiled(made: ast.FunctionDef, lines: int, before: CodeType) -> CodeType | None:
    """The code of a function, which `lines` stand above; None if it has other outer variables than before."""
    made.decorator_list = []
    made.args.defaults = [ast.Constant(None) for _ in made.args.defaults]
    made.args.kw_defaults = [each and ast.Constant(None) for each in made.args.kw_defaults]
    around = ast.parse("def around():\n    pass").body[0]
    assert isinstance(around, ast.FunctionDef)
    around.args.args = [ast.arg(name) for name in before.co_freevars]
    around.body = [made]
    ast.increment_lineno(made, lines)
    module = ast.fix_missing_locations(ast.Module([around], []))
    found = _code_named(compile(module, before.co_filename, "exec"), "around")
    inner = _code_named(found, made.name)
    return inner if inner.co_freevars == before.co_freevars else None


def _code_named(code: CodeType, name: str) -> CodeType:
    return next(each for each in code.co_consts if isinstance(each, CodeType) and each.co_name == name)


class _Reader(ast.NodeTransformer):
    """Rewrites the statements of a kernel; functions inside of it keep their `range`."""

    def __init__(self) -> None:
        self.count = 0
        self._inside = False
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function inside of the kernel."""
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """`for i in range(n)`."""
        self.generic_visit(node)
        call = node.iter
        if self._depth or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            return node
        if call.func.id == "range":
            self.count += 1
            call.func = ast.copy_location(ast.Name(_RANGE, ast.Load()), call.func)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """`tile: nt.tensor[128, 512] = ...`."""
        self.generic_visit(node)
        shape = node.annotation
        name = shape.value if isinstance(shape, ast.Subscript) else None
        called = (
            name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
        )
        if node.value is not None and called == "tensor":
            self.count += 1
            function = ast.copy_location(ast.Name(_ANNOTATED, ast.Load()), node.value)
            node.value = ast.copy_location(ast.Call(function, [node.value, shape], []), node.value)
        return node

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
