"""Lower functions of one element that are no single table: with the DPU's arithmetic, tables and bits of
fp32.

Exp and Log take a number apart: the whole part of a logarithm to base 2 is the exponent of fp32, which an
integer shifted by 23 bits makes (and the bits of a number taken as an integer give back), the rest is looked
up between 0 and 1. Sin and Cos look up a turn. Roots are those of normalisations. Assumed: the DPU rounds
fp32 to int32 as it rounds to int8, and its fp32 has numbers down to 2^-126.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import MULTIPLY, Requantisation, Stages
from npuviz.targets.rk3588.compiler.dpu_task import emit, homes
from npuviz.targets.rk3588.compiler.layers import Layer, Planner
from npuviz.targets.rk3588.compiler.operators.normalising import inverse_root
from npuviz.targets.rk3588.compiler.steps import HALF, WHOLE, Steps, bits, half_bits
from npuviz.targets.rk3588.tables import Buffer

_MINUS = 4
"""Code of EW_CFG. Ref: XML."""
_BIAS = 127
"""Bias of an exponent in fp32."""
_FRACTION = 23
"""Bits of fp32 below the exponent."""
_LEAST, _MOST = -120.0, 100.0
"""Arguments of Exp that reach 0 and infinity of fp16, and stay within fp32."""
_TINY = 2.0**-25
"""Half of the smallest number of fp16."""

Function = Callable[[Steps, Buffer, Buffer], None]
"""A function that adds the tasks from a source in fp16 to a target in fp16."""


def exponential(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute e^x: 2 to the whole part by the exponent of fp32, times 2 to the rest by the tables."""
    limited = steps.with_constant(source, dpu.ALU_MIN, _MOST)
    power = steps.scaled(limited, float(np.log2(np.e)), at_least=_LEAST)
    whole = steps.with_constant(power, dpu.FLOOR)
    rest = steps.pair(power, _MINUS, whole)
    part = steps.looked_up(rest, np.exp2, (0, 2))
    shifted = Stages(
        bias_constant=bits(_BIAS),
        main_factor=half_bits(2.0**15),
        relu=True,
        limit=bits(255 * 2.0**15),
        out=Requantisation(1 << (_FRACTION - 15)),
    )
    exponent = steps.run(whole, shifted, dtype=WHOLE)
    steps.pair(part, MULTIPLY, replace(exponent, dtype="float32"), target)


def logarithm(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute ln x: the bits of fp32 as an integer are a logarithm that is straight between powers of 2."""
    wide = steps.wide(source)
    straight = Stages(out=Requantisation(1, _FRACTION, -_BIAS))
    power = steps.run(replace(wide, dtype=WHOLE), straight)
    whole = steps.with_constant(power, dpu.FLOOR)
    rest = steps.pair(power, _MINUS, whole)
    bent = steps.looked_up(rest, lambda x: np.log2(1 + np.clip(x, 0, 1)) - np.clip(x, 0, 1), (0, 2))
    factor = round(float(np.log(2)) * (1 << 15))
    made = steps.cube(source)
    steps_out = Requantisation(factor, 15)
    _joined(steps, (power, bent, made), steps_out)
    # Subtract 2^-40 / max(x, 0): infinity at 0, NaN below 0, too small to matter elsewhere.
    kept = steps.run(wide, Stages(relu=True))
    inverse = steps.pair(one_or_none(steps, wide), dpu.DIVIDE, kept)
    less = Stages(main_factor=half_bits(-(2.0**-24)))
    smaller = steps.run(inverse, less)
    smaller = steps.run(smaller, Stages(main_factor=half_bits(2.0**-16)))
    steps.pair(made, dpu.ALU_ADD, smaller, target)


def _joined(steps: Steps, cubes: tuple[Buffer, Buffer, Buffer], out: Requantisation) -> None:
    one, two, target = cubes
    emit(
        steps.b, steps.layer, one, target, two, lambda operand: Stages(operand=operand, out=out), dpu.ALU_ADD
    )
    steps.b.begin_layer()


def one_or_none(steps: Steps, source: Buffer) -> Buffer:
    """Return 1 where a number is not below 0, else NaN: its positive part divided by itself."""
    kept = steps.run(source, Stages(bias_constant=bits(_TINY), relu=True))
    return steps.pair(kept, dpu.DIVIDE, kept)


def root(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute sqrt x = x / sqrt x; NaN below 0."""
    wide = steps.wide(source)
    steps.pair(root_of(steps, wide), MULTIPLY, one_or_none(steps, wide), target)


def root_of(steps: Steps, wide: Buffer) -> Buffer:
    """Return the root of numbers of fp32 that are not below 0."""
    return steps.pair(wide, MULTIPLY, inverse_root(steps.b, steps.layer, wide, "float32"))


def reciprocal(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute 1 / x."""
    steps.pair(steps.number(source, 1.0), dpu.DIVIDE, source, target)


def _turn(steps: Steps, source: Buffer) -> Buffer:
    """Return the fraction of a turn in an angle."""
    turns = steps.scaled(source, 1 / (2 * np.pi))
    return steps.pair(turns, _MINUS, steps.with_constant(turns, dpu.FLOOR))


def _wave(function: Callable[[np.ndarray], np.ndarray]) -> Function:
    def make(steps: Steps, source: Buffer, target: Buffer) -> None:
        steps.looked_up(_turn(steps, source), lambda x: function(2 * np.pi * x), (0, 2), target)

    return make


def hyperbolic_cosine(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute half of the sum of e^x and e^-x. (Their difference would lose small numbers.)"""
    grown = steps.cube(source)
    exponential(steps, source, grown)
    falling = steps.pair(steps.number(grown, 1.0), dpu.DIVIDE, grown)
    steps.scaled(steps.pair(grown, dpu.ALU_ADD, falling), 0.5, target)


def softsign(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute x / (1 + |x|)."""
    size = steps.with_constant(source, dpu.ABSOLUTE, dtype=HALF)
    steps.pair(source, dpu.DIVIDE, steps.run(size, Stages(bias_constant=bits(1.0)), dtype=HALF), target)


def sign(steps: Steps, source: Buffer, target: Buffer) -> None:
    """Compute -1, 0 or 1."""
    above = steps.is_positive(source)
    below = steps.is_positive(steps.with_constant(source, dpu.NEGATIVE, dtype=HALF))
    steps.pair(above, _MINUS, below, target)


FUNCTIONS: Mapping[str, Function] = {
    "Exp": exponential,
    "Log": logarithm,
    "Sqrt": root,
    "Reciprocal": reciprocal,
    "Sin": _wave(np.sin),
    "Cos": _wave(np.cos),
    "Cosh": hyperbolic_cosine,
    "Softsign": softsign,
    "Sign": sign,
}
"""Operator -> function that makes its tasks."""


def lowering_of(function: Function) -> Callable[[Builder, Layer, Planner], None]:
    """Return a lowering that computes a function of each element, in fp16."""

    def lower(b: Builder, layer: Layer, planner: Planner) -> None:
        if layer.is_quantised:
            raise CannotLower(f"{layer.head.op_type} in int8", change="fp16 around it")
        source, target = homes(b, layer)
        function(Steps(b, layer), source, target)

    return lower


def lower_threshold(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower ThresholdedRelu and Shrink: a kept value, times whether it is beyond a limit."""
    if layer.is_quantised:
        raise CannotLower(f"{layer.head.op_type} in int8", change="fp16 around it")
    source, target = homes(b, layer)
    steps, attributes = Steps(b, layer), attributes_of(layer.head)
    if layer.head.op_type == "ThresholdedRelu":
        steps.pair(steps.is_positive(source, attributes.real("alpha")), MULTIPLY, source, target)
        return
    limit, bias = attributes.real("lambd"), attributes.real("bias")
    below = steps.with_constant(source, dpu.NEGATIVE, dtype=HALF)
    parts = [
        steps.pair(
            steps.run(source, Stages(bias_constant=bits(change)), dtype=HALF),
            MULTIPLY,
            steps.is_positive(side, limit),
            dtype=HALF,
        )
        for side, change in ((source, -bias), (below, bias))
    ]
    steps.pair(parts[0], dpu.ALU_ADD, parts[1], target)


def lower_power(b: Builder, layer: Layer, planner: Planner) -> None:
    """Lower Pow with a constant exponent for which a few products, a quotient or a root suffice."""
    if layer.is_quantised:
        raise CannotLower("Pow in int8", change="fp16 around it")
    exponent = b.graph.constants.get(layer.head.inputs[1])
    if exponent is None or np.size(exponent) != 1:
        raise CannotLower("an exponent that is no constant number", change="a constant exponent")
    source, target = homes(b, layer)
    power, steps = float(np.reshape(exponent, -1)[0]), Steps(b, layer)
    if power in (2, 3, 4):
        found = source
        if power > 2:
            found = steps.pair(source, MULTIPLY, source, dtype=HALF)
        steps.pair(found, MULTIPLY, found if power == 4 else source, target)
    elif power == 0.5:
        root(steps, source, target)
    elif power == -1:
        reciprocal(steps, source, target)
    else:
        raise CannotLower("an exponent", f"{power:g}", "an exponent of 2, 3, 4, 0.5 or -1")


LOWERINGS: Mapping[str, Callable[[Builder, Layer, Planner], None]] = {
    **{name: lowering_of(function) for name, function in FUNCTIONS.items()},
    **dict.fromkeys(("ThresholdedRelu", "Shrink"), lower_threshold),
    "Pow": lower_power,
}
