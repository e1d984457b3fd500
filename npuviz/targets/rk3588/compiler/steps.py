"""Compute element by element with tasks of the DPU, one after the other, with cubes in between.

Every method adds a task and returns the cube that it writes. In between, numbers are fp32 unless said: the
DPU calculates in it anyway, and reads and writes it (Ref: TRM, precisions of the DPU).
"""

from dataclasses import dataclass

import numpy as np

from npuviz.targets.rk3588.compiler import dpu
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Operand, Requantisation, Stages
from npuviz.targets.rk3588.compiler.dpu_task import emit
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.lookup_table import Function, half_table
from npuviz.targets.rk3588.tables import Buffer

HALF, SINGLE, WHOLE = "float16", "float32", "int32"
NO_STAGES = Stages()
_MANTISSA = 14
"""Bits of a factor of OUT_CVT below its highest set bit. Ref: TRM, 16 bits signed."""


def bits(value: float) -> int:
    """Return the bits of fp32 as a register of 32 bits holds them."""
    return int(np.array([value], np.float32).view(np.int32)[0])


def unsigned_bits(value: float) -> int:
    """Return the bits of fp32 unsigned, for registers that take them so: EW's constant."""
    return int(np.array([value], np.float32).view(np.uint32)[0])


def half_bits(value: float) -> int:
    """Return the bits of fp16 as a register of 16 bits holds them, signed."""
    return int(np.array([value], np.float16).view(np.int16)[0])


@dataclass(frozen=True)
class Steps:
    """Arithmetic of one layer. target  where the very last task may write, instead of a new cube"""

    b: Builder
    layer: Layer

    def cube(self, like: Buffer, dtype: str = SINGLE) -> Buffer:
        """Make a new cube in the shape of another."""
        name = self.layer.head.name or self.layer.head.op_type
        return self.b.scratch(f"{name} step", like.shape, dtype)

    def run(
        self, source: Buffer, stages: Stages, target: Buffer | None = None, dtype: str = SINGLE
    ) -> Buffer:
        """Run the stages of the DPU, to a target or to a new cube of a type."""
        target = target or self.cube(source, dtype)
        emit(self.b, self.layer, source, target, None, lambda _: stages)
        self.b.begin_layer()
        return target

    def pair(
        self, one: Buffer, alu: int, two: Buffer, target: Buffer | None = None, dtype: str = SINGLE
    ) -> Buffer:
        """Run an operation of EW on two cubes of one type. alu  its code, or MULTIPLY"""
        target = target or self.cube(one, dtype)
        emit(self.b, self.layer, one, target, two, lambda operand: Stages(operand=operand), alu)
        self.b.begin_layer()
        return target

    def with_constant(
        self, source: Buffer, alu: int, value: float = 0.0, target: Buffer | None = None, dtype: str = SINGLE
    ) -> Buffer:
        """Run an operation of EW with one number, or with none (ABSOLUTE and the like)."""
        operand = Operand(0, alu, 0, 2, constant=unsigned_bits(value))
        return self.run(source, Stages(operand=operand), target, dtype)

    def wide(self, source: Buffer) -> Buffer:
        """Convert to fp32."""
        return source if source.dtype == SINGLE else self.run(source, NO_STAGES)

    def narrow(self, source: Buffer, target: Buffer) -> Buffer:
        """Convert to the type of the target."""
        return self.run(source, NO_STAGES, target)

    def scaled(
        self, source: Buffer, factor: float, target: Buffer | None = None, *, at_least: float | None = None
    ) -> Buffer:
        """Multiply by a positive factor, exact to 2e-5: OUT_CVT has 15 bits of it. at_least  limit applied
        first"""
        exponent = int(np.floor(np.log2(factor)))
        shift = _MANTISSA - exponent
        scale = round(factor * 2.0**shift)
        operand = (
            None if at_least is None else Operand(0, dpu.ALU_MAX, 0, 2, constant=unsigned_bits(at_least))
        )
        return self.run(source, Stages(operand=operand, out=Requantisation(scale, shift)), target)

    def plus(self, source: Buffer, summand: float, target: Buffer | None = None) -> Buffer:
        """Add a number."""
        return self.run(source, Stages(bias_constant=bits(summand)), target)

    def looked_up(
        self,
        source: Buffer,
        function: Function,
        span: tuple[int, int],
        target: Buffer | None = None,
        stages: Stages = NO_STAGES,
    ) -> Buffer:
        """Apply a function by the tables, over a span whose width is a power of two. stages  applied
        before"""
        target = target or self.cube(source)
        table = half_table(function, *span)
        emit(self.b, self.layer, source, target, None, lambda _: stages, table=table)
        self.b.begin_layer()
        return target

    def number(self, like: Buffer, value: float) -> Buffer:
        """Make a cube with one number everywhere, in the shape and type of another (except where that holds
        NaN)."""
        limit = max(value, 0.0)
        operand = Operand(0, dpu.ALU_MAX if value >= 0 else dpu.ALU_MIN, 0, 2, constant=unsigned_bits(value))
        stages = Stages(relu=True, limit=max(1, bits(limit)), operand=operand)
        return self.run(like, stages, dtype=like.dtype)

    def is_positive(
        self, source: Buffer, less: float = 0.0, target: Buffer | None = None, *, dtype: str = HALF
    ) -> Buffer:
        """Return 1 where a number is larger than `less`, else 0; NaN stays.

        BS multiplies by 2^15 and cuts off at 2^-14, so that the smallest number of fp16 is enough; OUT_CVT
        makes 1 of that.
        """
        stages = Stages(
            bias_constant=bits(-less) if less else 0,
            main_factor=half_bits(2.0**15),
            relu=True,
            limit=bits(2.0**-14),
            out=Requantisation(1 << 14),
        )
        return self.run(source, stages, target, dtype)
