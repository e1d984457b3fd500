"""Formulas of arithmetic, rounding, comparison and selection, on floats and on integers."""

from collections.abc import Callable, Sequence

from npuviz.onnx.errors import CannotLower
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.elementwise.primitives import (
    INFINITY,
    INTEGERS,
    UNSIGNED,
    WIDE,
    Operand,
    as_tile,
    binary,
    column_of,
    floored,
    rounded,
    scalar,
    sign_of,
    temporary,
    truncated,
    where,
)
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import Activation, Alu

Operands = Sequence[Operand | None]
Formula = Callable[[Builder, Node, Operands, View], None]


def given(operands: Operands, index: int) -> Operand:
    """Return operand `index`. Raises CannotLower if it is missing."""
    found = operands[index] if index < len(operands) else None
    if found is None:
        raise CannotLower(f"input {index} is missing")
    return found


def tile(b: Builder, operands: Operands, index: int, dst: View) -> View:
    """Return operand `index` as a tile of the shape of `dst`."""
    return as_tile(b, given(operands, index), dst)


def _is_integer(operands: Operands) -> bool:
    dtypes = [x.dtype for x in operands if isinstance(x, View)]
    return bool(dtypes) and all(dtype in INTEGERS for dtype in dtypes)


def _is_wide(operands: Operands) -> bool:
    """Return whether the operands have integers that fp32 cannot hold exactly."""
    return any(isinstance(x, View) and x.dtype in WIDE for x in operands) or any(
        isinstance(x, int) and abs(x) >= 1 << 24 for x in operands
    )


def _chain(op: Alu, wraps: bool) -> Formula:
    """Make the formula x0 op x1 op x2 ...; in 32-bit integers if it may wrap or fp32 is too narrow."""

    def emit(b: Builder, node: Node, operands: Operands, dst: View) -> None:
        values = [x for x in operands if x is not None]
        integer = _is_integer(values) and (wraps or _is_wide(values))
        if len(values) == 1:
            b.isa.copy(dst, as_tile(b, values[0], dst))
            return
        total = values[0]
        for index, value in enumerate(values[1:], 1):
            last = index == len(values) - 1
            target = dst if last else temporary(b, dst, dst.dtype if integer else "float32")
            binary(b, target, total, value, op, integer=integer)
            total = target

    return emit


def _division(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, y = given(operands, 0), given(operands, 1)
    if not _is_integer((x, y)):
        binary(b, dst, x, y, Alu.DIVIDE)
    elif _is_wide((x, y)):
        binary(b, dst, x, y, Alu.DIVIDE, integer=True)
    else:
        # fp32 quotients of 16-bit integers never round up to the next whole number.
        quotient = temporary(b, dst)
        binary(b, quotient, x, y, Alu.DIVIDE)
        truncated(b, dst, quotient)


def _modulo(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, y = given(operands, 0), given(operands, 1)
    integer = _is_integer((x, y)) and _is_wide((x, y))
    if not int(node.attributes.get("fmod", 0)):
        binary(b, dst, x, y, Alu.MOD, integer=integer)
        return
    if integer:
        quotient = temporary(b, dst, dst.dtype)
        binary(b, quotient, x, y, Alu.DIVIDE, integer=True)
        binary(b, quotient, quotient, y, Alu.MULTIPLY, integer=True)
        binary(b, dst, x, quotient, Alu.SUBTRACT, integer=True)
        return
    # C's fmod: the remainder of the magnitudes with the sign of the dividend.
    dividend = as_tile(b, x, dst)
    size, divisor, sign = (temporary(b, dst) for _ in range(3))
    scalar(b, size, dividend, Alu.ABS, 0.0)
    scalar(b, divisor, as_tile(b, y, dst), Alu.ABS, 0.0)
    binary(b, size, size, divisor, Alu.MOD)
    sign_of(b, sign, dividend)
    binary(b, dst, size, sign, Alu.MULTIPLY)


def _negated(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    scalar(b, dst, x, Alu.MULTIPLY, -1 if x.dtype in WIDE else -1.0, integer=x.dtype in INTEGERS)


def _absolute(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    if x.dtype in UNSIGNED:
        b.isa.copy(dst, x)
    elif x.dtype in INTEGERS:
        negative = temporary(b, dst, "int32")
        scalar(b, negative, x, Alu.MULTIPLY, -1, integer=True)
        binary(b, dst, x, negative, Alu.MAXIMUM, integer=True)
    else:
        scalar(b, dst, x, Alu.ABS, 0.0)


def _power(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x, y = given(operands, 0), given(operands, 1)
    if _is_integer((x, y)):
        binary(b, dst, x, y, Alu.POWER, integer=True)
    elif dst.dtype in INTEGERS:
        # fp32 powers are off by some units of the last place: widen before the fraction is dropped.
        raised = temporary(b, dst)
        binary(b, raised, x, y, Alu.POWER)
        scalar(b, raised, raised, Alu.MULTIPLY, 1.0 + 2.0**-21)
        truncated(b, dst, raised)
    elif isinstance(x, View) and y == 2:
        x = as_tile(b, x, dst)
        b.isa.activation(dst, x, Activation.SQUARE)
    elif y == 1:
        b.isa.copy(dst, as_tile(b, x, dst))
    else:
        binary(b, dst, x, y, Alu.POWER)


def _mean(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    total = temporary(b, dst)
    _chain(Alu.ADD, wraps=False)(b, node, operands, total)
    scalar(b, dst, total, Alu.MULTIPLY, 1.0 / len(operands))


def _clip(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    low = operands[1] if len(operands) > 1 else node.attributes.get("min")
    high = operands[2] if len(operands) > 2 else node.attributes.get("max")
    integer = x.dtype in WIDE
    if low is None and high is None:
        b.isa.copy(dst, x)
    elif low is None or high is None:
        op = Alu.MAXIMUM if high is None else Alu.MINIMUM
        bound = high if low is None else low
        assert bound is not None
        binary(b, dst, x, bound, op, integer=integer)
    elif not isinstance(low, View) and not isinstance(high, View):
        scalar(b, dst, x, Alu.MAXIMUM, low, Alu.MINIMUM, high, integer=integer)
    else:
        raised = temporary(b, dst, dst.dtype)
        binary(b, raised, x, low, Alu.MAXIMUM, integer=integer)
        binary(b, dst, raised, high, Alu.MINIMUM, integer=integer)


def _sign(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    if x.dtype not in INTEGERS:
        b.isa.activation(dst, x, Activation.SIGN)
        return
    integer = x.dtype in WIDE
    above, below = temporary(b, dst, "int32"), temporary(b, dst, "int32")
    scalar(b, above, x, Alu.GREATER, 0, integer=integer)
    scalar(b, below, x, Alu.LESS, 0, integer=integer)
    binary(b, dst, above, below, Alu.SUBTRACT, integer=integer)


def _unary(function: Callable[[Builder, View, View], None]) -> Formula:
    def emit(b: Builder, node: Node, operands: Operands, dst: View) -> None:
        x = tile(b, operands, 0, dst)
        if x.dtype in INTEGERS:
            b.isa.copy(dst, x)
        else:
            function(b, dst, x)

    return emit


def _ceiled(b: Builder, dst: View, x: View) -> None:
    negative = temporary(b, dst)
    scalar(b, negative, x, Alu.MULTIPLY, -1.0)
    floored(b, negative, negative)
    scalar(b, dst, negative, Alu.MULTIPLY, -1.0)


def _comparison(op: Alu) -> Formula:
    def emit(b: Builder, node: Node, operands: Operands, dst: View) -> None:
        x, y = given(operands, 0), given(operands, 1)
        wide = _is_integer((x, y)) and _is_wide((x, y))
        binary(b, dst, x, y, op, integer=wide)

    return emit


def _logic(op: Alu) -> Formula:
    def emit(b: Builder, node: Node, operands: Operands, dst: View) -> None:
        binary(b, dst, given(operands, 0), given(operands, 1), op)

    return emit


def _not(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    scalar(b, dst, tile(b, operands, 0, dst), Alu.EQUAL, 0.0)


def _where(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    condition, x, y = (given(operands, i) for i in range(3))
    if not isinstance(condition, View):
        b.isa.copy(dst, as_tile(b, x if condition else y, dst))
        return
    if isinstance(y, View):
        b.isa.copy(dst, as_tile(b, y, dst))
    else:
        b.isa.memset(dst, y)
    where(b, dst, condition, x)


def _is_nan(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    binary(b, dst, x, x, Alu.NOT_EQUAL)


def _is_inf(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    x = tile(b, operands, 0, dst)
    positive = bool(node.attributes.get("detect_positive", 1))
    negative = bool(node.attributes.get("detect_negative", 1))
    if positive and negative:
        scalar(b, dst, x, Alu.ABS, 0.0, Alu.EQUAL, INFINITY)
    elif positive or negative:
        scalar(b, dst, x, Alu.EQUAL, INFINITY if positive else -INFINITY)
    else:
        b.isa.memset(dst, 0.0)


def _bit_shift(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    direction = node.attributes.get("direction", "")
    if isinstance(direction, bytes):
        direction = direction.decode()
    x, y = tile(b, operands, 0, dst), tile(b, operands, 1, dst)
    if direction == "LEFT":
        binary(b, dst, x, y, Alu.LEFT_SHIFT)
    elif x.dtype in UNSIGNED:
        binary(b, dst, x, y, Alu.RIGHT_SHIFT)
    else:
        binary(b, dst, x, y, Alu.ARITHMETIC_RIGHT_SHIFT)


def _bitwise_not(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    scalar(b, dst, tile(b, operands, 0, dst), Alu.INVERT, 0)


def _copied(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    b.isa.copy(dst, tile(b, operands, 0, dst))


def _binarized(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    scalar(b, dst, tile(b, operands, 0, dst), Alu.GREATER, float(node.attributes.get("threshold", 0.0)))


def _root(exponent: float) -> Formula:
    # The vector engine's power is valid for all arguments, unlike the activation functions.
    def emit(b: Builder, node: Node, operands: Operands, dst: View) -> None:
        scalar(b, dst, tile(b, operands, 0, dst), Alu.POWER, exponent)

    return emit


def _reciprocal(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    scalar(b, dst, tile(b, operands, 0, dst), Alu.DIVIDE, 1.0, reverse=True)


def _normalised(b: Builder, node: Node, operands: Operands, dst: View) -> None:
    """Compute BatchNormalization at inference; operands 5 and 6 are its slope and offset by channel."""
    x, slope, offset = (given(operands, i) for i in (0, 5, 6))
    columns = [column_of(each, dst) for each in (slope, offset)]
    if columns[0] is not None and columns[1] is not None:
        b.isa.tensor_scalar(dst, as_tile(b, x, dst), Alu.MULTIPLY, columns[0], Alu.ADD, columns[1])
        return
    scaled = temporary(b, dst)
    binary(b, scaled, x, slope, Alu.MULTIPLY)
    binary(b, dst, scaled, offset, Alu.ADD)


ARITHMETIC: dict[str, Formula] = {
    "Add": _chain(Alu.ADD, wraps=True),
    "Sub": _chain(Alu.SUBTRACT, wraps=True),
    "Mul": _chain(Alu.MULTIPLY, wraps=True),
    "Div": _division,
    "Mod": _modulo,
    "Pow": _power,
    "Neg": _negated,
    "Abs": _absolute,
    "Min": _chain(Alu.MINIMUM, wraps=False),
    "Max": _chain(Alu.MAXIMUM, wraps=False),
    "Sum": _chain(Alu.ADD, wraps=True),
    "Mean": _mean,
    "Clip": _clip,
    "Sign": _sign,
    "Floor": _unary(floored),
    "Ceil": _unary(_ceiled),
    "Round": _unary(rounded),
    "Sqrt": _root(0.5),
    "Reciprocal": _reciprocal,
    "And": _logic(Alu.LOGICAL_AND),
    "Or": _logic(Alu.LOGICAL_OR),
    "Xor": _logic(Alu.LOGICAL_XOR),
    "Not": _not,
    "Equal": _comparison(Alu.EQUAL),
    "Greater": _comparison(Alu.GREATER),
    "GreaterOrEqual": _comparison(Alu.GREATER_EQUAL),
    "Less": _comparison(Alu.LESS),
    "LessOrEqual": _comparison(Alu.LESS_EQUAL),
    "Where": _where,
    "IsNaN": _is_nan,
    "IsInf": _is_inf,
    "BitShift": _bit_shift,
    "BitwiseAnd": _logic(Alu.BITWISE_AND),
    "BitwiseOr": _logic(Alu.BITWISE_OR),
    "BitwiseXor": _logic(Alu.BITWISE_XOR),
    "BitwiseNot": _bitwise_not,
    "Identity": _copied,
    "Binarizer": _binarized,
    "BatchNormalization": _normalised,
}
"""{operator: formula}. Integer results have 32 bits; their low bits are written (numpy's wraparound)."""
