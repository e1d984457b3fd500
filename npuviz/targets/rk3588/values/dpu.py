"""Compute the DPU of a task: BS, BN, EW, table, output convert, as registers say.

Integers are held in float64, in which they are exact; floats are calculated in fp32, rounded after every
operation. Sources: TRM for fields, order of scale and offset and roundings; NVDLA for the order of a stage
(ALU, MUL, ReLU) and its rounding. Assumed where said.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from npuviz.targets.rk3588.task.channel_operands import (
    BN,
    BS,
    KINDS,
    calculates_floats,
    data_use,
    wanted_kinds,
)
from npuviz.targets.rk3588.task.main_reader import main_cube
from npuviz.targets.rk3588.task.work import ATOM_BYTES, Elementwise, Output, Stage, bits, signed
from npuviz.targets.rk3588.task.write_dma import write_pitches, written_size
from npuviz.targets.rk3588.values.cubes import MAX_ELEMENTS, Strides, element_type, read_cube
from npuviz.targets.rk3588.values.lookup_table import look_up
from npuviz.targets.rk3588.values.memory import Memory, ValueFault
from npuviz.targets.rk3588.values.operands import read_operands
from npuviz.targets.rk3588.values.rounding import INT32, rounded, shifted

_STAGES = {"BS": (BS, 4), "BN": (BN, 10)}
"""Stage -> its registers, and the lowest bit of the shift of negative values."""
_MAX, _MIN, _ADD, _DIV, _MINUS, _ABS, _NEG, _FLOOR, _CEIL = range(9)


@dataclass(frozen=True, slots=True)
class Context:
    """What the stages of a task share: its registers, memory, output and the tables of its core."""

    registers: Mapping[int, int]
    memory: Memory
    output: Output
    table: np.ndarray | None

    @property
    def is_float(self) -> bool:
        """Whether the DPU calculates in fp32."""
        return calculates_floats(self.registers)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns that go through the stages."""
        return written_size(self.registers, self.output)

    @property
    def strides(self) -> Strides:
        """Atoms between surfaces, rows and positions that are written."""
        return Strides(*write_pitches(self.registers, self.output))


def main_input(context: Context) -> np.ndarray:
    """Return the cube that the main reader fetches (flying mode): (C, H, W), float64 of integers or
    float32."""
    cube = main_cube(context.registers, context.output)
    values = read_cube(
        context.memory,
        context.output.main_address,
        (cube.channels, cube.height, cube.width),
        (cube.surface * ATOM_BYTES, cube.row * ATOM_BYTES),
        element_type(cube.precision, "main input"),
        "main input",
    )
    return values[: cube.channels].astype(np.float32 if context.is_float else np.float64)


def process(context: Context, values: np.ndarray) -> np.ndarray:
    """Run the stages: (C, H, W) in, the same out in the type of the output precision."""
    output = context.output
    height, width = context.size
    if (height, width) != values.shape[1:]:
        raise ValueFault(
            f"the DPU expects {height} x {width} positions and gets {values.shape[1]} x {values.shape[2]}"
        )
    if output.channels * height * width > MAX_ELEMENTS:
        raise ValueFault(f"a DPU cube of {output.channels} channels is too large")
    values = _with_channels(values, output.channels)
    values = values.astype(np.float32 if context.is_float else np.float64)
    values = _stage(context, values, output.bs, "BS")
    values = _stage(context, values, output.bn, "BN")
    if not output.ew.is_bypassed:
        values = _elementwise(context, values, output.ew)
    return _convert(context, values)


def _with_channels(values: np.ndarray, channels: int) -> np.ndarray:
    """Return the first channels; missing ones are 0."""
    if len(values) >= channels:
        return values[:channels]
    return np.concatenate([values, np.zeros((channels - len(values), *values.shape[1:]), values.dtype)])


# --- BS and BN -------------------------------------------------------------------------------------


def _stage(context: Context, x: np.ndarray, stage: Stage, name: str) -> np.ndarray:
    """Apply ALU, MUL and ReLU of a stage. Integers saturate to 32 bits after each (Assumed, as NVDLA)."""
    if stage.is_bypassed:
        return x
    config = _STAGES[name][0].config
    registers = context.registers
    operands = _channel_operands(context, stage, name)
    if stage.alu >= 0:
        operand = operands.get("alu")
        if operand is None:
            operand = _constant(stage.alu_operand, context.is_float)
        if stage.alu not in (_ADD, _MINUS):
            raise ValueFault(f"{name}_CFG has ALU operation {stage.alu}: 2 (add) and 4 (subtract) exist")
        x = _limited(context, x + operand if stage.alu == _ADD else x - operand)
    if stage.has_mul:
        x = _limited(context, _product(context, x, stage, name, operands))
    if stage.has_relu:
        x = np.maximum(x, 0)
        if registers.get(config, 0) & 0x80:
            x = np.minimum(x, _constant(signed(stage.relu_limit, 32), context.is_float))
    return x


def _product(
    context: Context, x: np.ndarray, stage: Stage, name: str, operands: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Apply MUL with its shift; with PReLU to negative values only.

    Integers round half away from zero (NVDLA). Assumed: the shift of negative values is used if it is not 0.
    """
    operand = operands.get("mul")
    if operand is None:
        operand = stage.mul_operand if not context.is_float else _half_float(stage.mul_operand)
    made = x * operand
    if not context.is_float:
        shift = operands.get("shift", np.float64(stage.mul_shift))
        low = _STAGES[name][1]
        of_negative = bits(context.registers.get(0x4010, 0), low + 5, low)
        if of_negative:
            shift = np.where(x < 0, of_negative, shift)
        made = rounded(made * np.exp2(-shift), True)
    return np.where(x < 0, made, x) if stage.has_prelu else made


def _channel_operands(context: Context, stage: Stage, name: str) -> dict[str, np.ndarray]:
    """Return the operands that come from memory, one per channel: (C, 1, 1). The reader's data_use says
    which."""
    at, registers, channels = _STAGES[name][0], context.registers, context.output.channels
    wanted = wanted_kinds(registers, stage, at)
    if not wanted:
        return {}
    use, address = data_use(registers, at, wanted), registers.get(at.address, 0)
    held = read_operands(context.memory, address, channels, use, context.is_float, f"{name} operands")
    for kind in KINDS:
        if kind in wanted and kind not in held:
            raise ValueFault(f"{name} takes its {kind} operands from memory, which the reader does not read")
    return {kind: held[kind] for kind in wanted}


def _constant(value: int, is_float: bool) -> np.ndarray | np.float64:
    """Return a 32-bit operand of a register: an integer, or bits of fp32 (ALLB)."""
    if not is_float:
        return np.float64(value)
    return np.array([value & 0xFFFFFFFF], np.uint32).view(np.float32)[0]


def _half_float(value: int) -> np.ndarray:
    """Return a 16-bit factor of a register in the float pipeline: bits of fp16 (ALLB)."""
    return np.array([value & 0xFFFF], np.uint16).view(np.float16)[0].astype(np.float32)


def _limited(context: Context, x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32, copy=False) if context.is_float else np.clip(x, *INT32)


# --- EW --------------------------------------------------------------------------------------------


def _elementwise(context: Context, x: np.ndarray, ew: Elementwise) -> np.ndarray:
    """Apply the operation with the converted operand, ReLU, table."""
    config = context.registers.get(0x4070, 0)
    if not config & 2:
        x = _limited(context, _operation(context, x, ew, _ew_operand(context, ew)))
        if ew.has_relu:
            x = np.maximum(x, 0)
            if config & 0x400:
                limit = signed(context.registers.get(0x407C, 0), 32)
                x = np.minimum(x, _constant(limit, context.is_float))
    return look_up(x, context.table, context.registers) if ew.has_lut else x


def _operation(context: Context, x: np.ndarray, ew: Elementwise, e: np.ndarray | np.float64) -> np.ndarray:
    if ew.alu == -1:
        made = x * e
        if not context.is_float:
            made = shifted(made, bits(context.registers.get(0x4078, 0), 31, 22), True)
        return np.where(x < 0, made, x) if context.registers.get(0x4070, 0) & 0x20 else made
    if ew.alu == _DIV:
        made = x / e
        # Assumed: integers truncate, and division by 0 gives the limit of the sign.
        return (
            made
            if context.is_float
            else np.nan_to_num(np.trunc(made), nan=0, posinf=INT32[1], neginf=INT32[0])
        )
    simple = {_MAX: np.maximum, _MIN: np.minimum, _ADD: np.add, _MINUS: np.subtract}
    if ew.alu in simple:
        return simple[ew.alu](x, e)
    single = {_ABS: np.abs, _NEG: np.negative, _FLOOR: np.floor, _CEIL: np.ceil}
    if ew.alu in single:
        return single[ew.alu](x)
    raise ValueFault(f"EW_CFG has ALU operation {ew.alu}: 0 to 8 exist")


def _ew_operand(context: Context, ew: Elementwise) -> np.ndarray | np.float64:
    """Return the second operand after its convert."""
    registers = context.registers
    if ew.is_constant:
        return _constant(ew.constant, context.is_float)
    e = _ew_memory(context, ew)
    if not ew.converts:
        return e
    config = registers.get(0x4070, 0)
    offset = _constant(ew.offset, context.is_float)
    if config >> 31 & 1:
        e = (e + offset) * ew.scale
        return _scaled_down(context, e, ew.shift, bool(config >> 30 & 1))
    return _scaled_down(context, e * ew.scale, ew.shift, bool(config >> 30 & 1)) + offset


def _ew_memory(context: Context, ew: Elementwise) -> np.ndarray:
    """Return what the E reader fetches: one value per channel (mode 0), or a cube (TRM; MESA adds cubes in
    mode 1)."""
    output, registers, (height, width) = context.output, context.registers, context.size
    real = np.float32 if context.is_float else np.float64
    dtype = _ew_type(context, ew)
    if not output.operand_is_cube:
        data = context.memory.view(output.operand_address, output.channels * dtype.itemsize, "EW operand")
        return np.array(data).view(dtype).astype(real)[:, None, None]
    row = width + bits(registers.get(0x5010, 0), 28, 16)
    surface = output.operand_surface_stride or row * height
    size = (output.channels, height, width)
    pitches = (surface * ATOM_BYTES, row * ATOM_BYTES)
    cube = read_cube(context.memory, output.operand_address, size, pitches, dtype, "EW operand")
    return cube[: output.channels].astype(real)


def _ew_type(context: Context, ew: Elementwise) -> np.dtype:
    if ew.operand_bits == 4:
        raise ValueFault("EW operands of 4 bits are not computed")
    if ew.operand_bits == 8:
        return np.dtype(np.int8)
    if not context.is_float:
        return np.dtype(f"int{ew.operand_bits}")
    if ew.operand_bits == 32:
        return np.dtype(np.float32)
    is_bf16 = bits(context.registers.get(0x4010, 0), 2, 0) == 3
    return np.dtype(ml_dtypes.bfloat16 if is_bf16 else np.float16)


def _scaled_down(context: Context, values: np.ndarray, shift: int, is_away: bool) -> np.ndarray:
    if not context.is_float:
        return shifted(values, shift, is_away)
    return np.ldexp(values, -shift).astype(np.float32) if shift else values


# --- output convert --------------------------------------------------------------------------------


def _convert(context: Context, x: np.ndarray) -> np.ndarray:
    """Apply scale, shift and offset; then the output precision, integers saturated.

    MINUS_EXP divides floats by a power of two (ALLB: 15 for a table of 1/32768). Floats that become integers
    are rounded before the offset is added (Assumed, as QuantizeLinear).
    """
    output, config = context.output, context.registers.get(0x4088, 0)
    dtype = element_type(output.precision_out, "output")
    is_whole = dtype.kind == "i"
    if not context.is_float and not is_whole:
        # Integers become floats without rounding before (Assumed).
        x = np.ldexp(x * output.scale, -output.shift - bits(config, 19, 12)) + output.offset
        return x.astype(dtype)
    is_away, offset, scale = bool(config >> 30 & 1), output.offset, output.scale
    x = (x + offset) * scale if config >> 31 & 1 else x * scale
    if context.is_float:
        shift = output.shift + bits(config, 19, 12)
        x = np.ldexp(x, -shift) if shift else x
        if is_whole:
            x = np.nan_to_num(rounded(x.astype(np.float64), is_away), nan=0)
    else:
        x = shifted(x, output.shift, is_away)
    x = x if config >> 31 & 1 else x + offset
    if not is_whole:
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    return np.clip(x, limits.min, limits.max).astype(dtype)
