"""Evaluate a tensor access `|i, j|{n, m} -> A[e1, e2]` to offset, strides and extents, in elements.

Stride rule for several variables [DSD]: with c[0], c[1].. the element coefficients from the innermost
variable outwards and n[0], n[1].. their lengths, stride[0] = c[0] and stride[k] = c[k] minus the sum over m <
k of c[m] * (n[m] - 1): each outer step also undoes the finished inner loops.
"""

from __future__ import annotations

from dataclasses import dataclass

from npuviz.targets.wavelet.csl.comptime import memory
from npuviz.targets.wavelet.csl.comptime import types as t
from npuviz.targets.wavelet.csl.comptime.evaluator import Comptime
from npuviz.targets.wavelet.csl.comptime.scope import Entry, RuntimeLocal, Scope
from npuviz.targets.wavelet.csl.comptime.values import (
    PointerValue,
    Scalar,
    StructValue,
    Value,
    anonymous,
    tuple_of,
)
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.errors import CslError, NotComptime
from npuviz.targets.wavelet.csl.syntax.tree import Expression

MAX_VARIABLES = 4


@dataclass(frozen=True, slots=True)
class _Affine:
    """A sum: constant + coefficient * variable + .."""

    constant: int
    coefficients: dict[str, int]

    def scaled(self, factor: int) -> _Affine:
        return _Affine(
            self.constant * factor, {name: value * factor for name, value in self.coefficients.items()}
        )

    def plus(self, other: _Affine, sign: int) -> _Affine:
        merged = dict(self.coefficients)
        for name, value in other.coefficients.items():
            merged[name] = merged.get(name, 0) + sign * value
        return _Affine(self.constant + sign * other.constant, merged)


def strides(coefficients: list[int], lengths: list[int]) -> tuple[int, ...]:
    """Return strides innermost first, from coefficients and lengths innermost first."""
    found: list[int] = []
    undo = 0
    for coefficient, length in zip(coefficients, lengths, strict=True):
        found.append(coefficient - undo)
        undo += coefficient * (length - 1)
    return tuple(found)


def lowered(
    comptime: Comptime, node: tree.TensorAccess, scope: Scope
) -> tuple[Expression, int, tuple[int, ...], tuple[int, ...]]:
    """Return (base, offset, strides innermost first, extents outermost first), in elements of the base."""
    return _access(comptime, node, scope, _dimensions(comptime, node, scope))


def _dimensions(comptime: Comptime, node: tree.TensorAccess, scope: Scope) -> tuple[int, ...]:
    """Return the dimensions of the tensor; (0,) for a `[*]T` pointer, which takes one index only."""
    kind = memory.static_type(comptime, node.base, scope)
    if isinstance(kind, t.PointerType):
        if kind.many:
            return (0,)
        kind = kind.pointee
    if not isinstance(kind, t.ArrayType):
        raise CslError(node.base.at, f"a tensor access needs an array, found {kind}")
    return kind.dimensions


def _access(
    comptime: Comptime, node: tree.TensorAccess, scope: Scope, dimensions: tuple[int, ...]
) -> tuple[Expression, int, tuple[int, ...], tuple[int, ...]]:
    if len(node.variables) > MAX_VARIABLES:
        raise CslError(node.at, f"a tensor access has at most {MAX_VARIABLES} variables")
    extents = tuple(_length(comptime, length, scope) for length in node.lengths)
    if len(node.indices) != len(dimensions):
        raise CslError(
            node.at, f"the tensor has {len(dimensions)} dimensions, found {len(node.indices)} indices"
        )
    inner = scope.child()
    for name in node.variables:
        inner.names[name] = RuntimeLocal(name, t.I16, False)
    total = _Affine(0, {})
    for index, dimension in zip(node.indices, dimensions, strict=True):
        total = total.scaled(dimension).plus(_affine(comptime, index, inner, node.variables), 1)
    coefficients = [total.coefficients.get(name, 0) for name in reversed(node.variables)]
    return node.base, total.constant, strides(coefficients, list(reversed(extents))), extents


def _length(comptime: Comptime, node: Expression, scope: Scope) -> int:
    length = comptime.constant_integer(node, scope)
    if not 0 <= length <= 0xFFFF:
        raise CslError(node.at, f"a length is 0 to 65535, found {length}")
    return length


def _affine(comptime: Comptime, node: Expression, scope: Scope, names: tuple[str, ...]) -> _Affine:
    """Return an index expression as a sum. Raises CslError if it is not affine in the variables."""
    if isinstance(node, tree.Name) and node.text in names:
        return _Affine(0, {node.text: 1})
    if not _mentions(node, names):
        return _Affine(comptime.constant_integer(node, scope), {})
    if isinstance(node, tree.Unary) and node.operator == "-":
        return _affine(comptime, node.operand, scope, names).scaled(-1)
    if isinstance(node, tree.Binary):
        left = _affine(comptime, node.left, scope, names)
        right = _affine(comptime, node.right, scope, names)
        if node.operator in ("+", "-"):
            return left.plus(right, 1 if node.operator == "+" else -1)
        if node.operator == "*" and not left.coefficients:
            return right.scaled(left.constant)
        if node.operator == "*" and not right.coefficients:
            return left.scaled(right.constant)
    if isinstance(node, tree.BuiltinCall) and node.name == "as" and len(node.arguments) == 2:
        return _affine(comptime, node.arguments[1], scope, names)
    raise CslError(node.at, "an index is a sum of variables times constants", "as in 2 * i + j + 1")


def _mentions(node: object, names: tuple[str, ...]) -> bool:
    if isinstance(node, tree.Name):
        return node.text in names
    if isinstance(node, tree.Binary):
        return _mentions(node.left, names) or _mentions(node.right, names)
    if isinstance(node, tree.Unary):
        return _mentions(node.operand, names)
    if isinstance(node, tree.BuiltinCall | tree.Call):
        return any(_mentions(argument, names) for argument in node.arguments)
    if isinstance(node, tree.Index):
        return _mentions(node.base, names) or any(_mentions(index, names) for index in node.indices)
    return False


def value(comptime: Comptime, node: tree.TensorAccess, scope: Scope) -> Value:
    """Return the value of a tensor access: a struct of base_address, offset, stride and extent."""
    base = _base_pointer(comptime, node.base, scope)
    _, offset, stride, extents = lowered(comptime, node, scope)
    if not -0x8000 <= offset <= 0x7FFF:
        raise CslError(node.at, f"the offset {offset} of the tensor access does not fit in i16")
    stride_kind = t.I8 if len(stride) == 1 else t.I16
    for step in stride:
        if not -0x8000 <= step <= 0x7FFF:
            raise CslError(node.at, f"the stride {step} of the tensor access does not fit in i16")
        if not stride_kind.low <= step <= stride_kind.high:
            stride_kind = t.I16
    return anonymous(
        {
            "base_address": base,
            "offset": Scalar(t.I16, offset),
            "stride": tuple_of([Scalar(stride_kind, step) for step in stride]),
            "extent": tuple_of([Scalar(t.U16, extent) for extent in extents]),
        }
    )


def _base_pointer(comptime: Comptime, node: Expression, scope: Scope) -> PointerValue:
    entry: Entry | None = None
    if isinstance(node, tree.Name):
        entry = comptime.lookup(node.text, scope, node.at)
        if isinstance(entry, RuntimeLocal):
            raise NotComptime(node.at, f"{entry.name} is only known at run time")
    try:
        pointer = memory.place(comptime, node, scope)
        if not isinstance(pointer.kind.pointee, t.PointerType):
            return pointer
    except NotComptime:
        raise
    except CslError:
        pass
    found = comptime.evaluate(node, scope)
    if isinstance(found, PointerValue):
        return found
    if isinstance(found, StructValue):
        raise CslError(node.at, "a struct is no tensor")
    raise CslError(node.at, f"a tensor access needs a tensor variable or a pointer, found {found.type}")
