"""Compute how much work a task is for the kernels (cycles, bytes and limits), from its decoded registers."""

from dataclasses import dataclass

from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.task.work import (
    ATOM_BYTES,
    FP16,
    INT4,
    INT8,
    PRECISION_BYTES,
    TF32,
    Convolution,
    Output,
    Pooling,
    Work,
)

ELEMENTS_PER_STEP = 32
"""Elements that count as one atomic in work without CORE."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The work of one task, in bytes unless said. The names are those of the record TASK.

    out_elements, out_rate  elements that DPU or PPU puts out per atomic of a group, and per cycle
    problem                 why the chip would hang, "" if it would not
    """

    groups: int
    atoms: int
    factor: int
    row_atoms: int
    stride: int
    reach: int
    row_bytes: int
    feature_bytes: int
    weight_bytes: int
    group_bytes: int
    weight_room: int
    operand_bytes: int
    out_elements: float
    out_rate: float
    write_atom: int
    write_last: int
    is_pooling: bool = False
    problem: str = ""

    @property
    def mac_cycles(self) -> int:
        """Least cycles that CORE needs."""
        return self.groups * self.atoms * self.factor

    @property
    def written_bytes(self) -> int:
        """Bytes of the results."""
        return self.atoms * ((self.groups - 1) * self.write_atom + self.write_last)

    @property
    def bus_bytes(self) -> int:
        """Bytes over the DDR bus, without commands."""
        return self.feature_bytes + self.weight_bytes + self.operand_bytes + self.written_bytes


def cost_of(task: Task, spec: RknnSpec) -> Cost:
    """Return the cost of a task. If it cannot be executed, `problem` says why."""
    work = task.work
    if work.convolution is not None and (work.output is None or not work.output.is_flying):
        return _convolution(work, work.convolution, spec)
    if work.output is not None and work.output.is_flying:
        return _elementwise(work, work.output, spec)
    if work.pooling is not None:
        return _pooling(work.pooling, spec)
    nothing = "the stream enables no block that could end the task"
    return Cost(1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1.0, 0, 0, problem=nothing)


def costs_of(tables: Tables, spec: RknnSpec) -> tuple[Cost, ...]:
    """Return the cost of every task."""
    return tuple(cost_of(task, spec) for task in tables.tasks)


def kernel_group(precision: int, spec: RknnSpec) -> int:
    """Return how many kernels CORE works on at a time."""
    if precision == INT4:
        return spec.kernels_int8 * 2
    if precision == INT8:
        return spec.kernels_int8
    return spec.kernels_fp16 // 2 if precision == TF32 else spec.kernels_fp16


def output_rate(output: Output | None, spec: RknnSpec) -> float:
    """Return the elements per cycle of the DPU, by what it has to do to them."""
    if output is None:
        return spec.output_rate
    ew = output.ew
    if ew.has_lut:
        return spec.product_rate if ew.alu == -1 and not ew.is_bypassed else spec.table_rate
    if not ew.is_bypassed:
        return spec.elementwise_rate
    if output.bs.relu_limit or output.bn.relu_limit:
        return spec.clip_rate
    return spec.output_rate


def _padded(count: int, item: int) -> int:
    """Return the bytes of `count` elements in whole atoms."""
    return -(-count * item // ATOM_BYTES) * ATOM_BYTES


def _convolution(work: Work, conv: Convolution, spec: RknnSpec) -> Cost:
    item = PRECISION_BYTES[conv.precision]
    atoms = conv.out_width * conv.out_height
    taps = conv.kernel_height * conv.kernel_width
    if conv.is_depthwise:
        size = spec.channels_depthwise
        count, factor = conv.out_kernels, taps
        group_bytes = -(-conv.weight_bytes * size // max(1, -(-count // size) * size))
    else:
        size = kernel_group(conv.precision, spec)
        count, factor = conv.kernels, taps * -(-conv.channels // spec.channels_per_atomic)
        group_bytes = conv.kernel_bytes * size
    groups = max(1, -(-count // size))
    row_bytes = conv.width * conv.stored_channels * item
    features = 0 if conv.keeps_data else row_bytes * conv.height
    weights = 0 if conv.keeps_weights else conv.weight_bytes
    written = PRECISION_BYTES[work.output.precision_out] if work.output is not None else 1
    last = count - (groups - 1) * size
    write, write_last = _padded(size, written), _padded(last, written)
    if work.output is not None and not work.output.to_memory:
        write = write_last = 0
        if work.pooling is not None:
            write = write_last = -(-_pooled_bytes(work.pooling) // (groups * atoms))
    return Cost(
        groups=groups,
        atoms=atoms,
        factor=factor,
        row_atoms=conv.out_width,
        stride=conv.stride_y,
        reach=max(1, (conv.kernel_height - 1) * conv.dilation_y + 1 - conv.pad_top),
        row_bytes=0 if conv.keeps_data else row_bytes,
        feature_bytes=features,
        weight_bytes=weights,
        group_bytes=0 if conv.keeps_weights else min(group_bytes, conv.weight_bytes),
        weight_room=conv.weight_banks * spec.cbuf_bank_bytes,
        operand_bytes=_operand_bytes(work.output, count, atoms),
        out_elements=size,
        out_rate=output_rate(work.output, spec),
        write_atom=write,
        write_last=write_last,
        problem=_conv_problem(conv, row_bytes * conv.height, min(group_bytes, conv.weight_bytes), spec),
    )


def _conv_problem(conv: Convolution, features: int, group: int, spec: RknnSpec) -> str:
    """Return why CBUF or the sequencer would wait for ever, "" if it would not."""
    banks, size = spec.cbuf_banks, spec.cbuf_bank_bytes
    if conv.data_banks + conv.weight_banks > banks:
        return f"CBUF_CON0 gives {conv.data_banks} + {conv.weight_banks} banks: there are {banks}"
    if conv.data_banks * size < features:
        needed = -(-features // size)
        return f"features need {needed} CBUF banks: CBUF_CON0 gives {conv.data_banks}, the rest never arrives"
    if conv.weight_banks * size < group:
        return (
            f"a kernel group needs {-(-group // size)} weight banks: CBUF_CON0 gives {conv.weight_banks}, so "
            "that CORE never starts"
        )
    if conv.stride_x == 0 or conv.stride_y == 0:
        return "CONV_CON3 has a stride of 0"
    if conv.kernels == 0 and not conv.is_depthwise:
        return "WEIGHT_SIZE2 has 0 kernels"
    return ""


def _operand_bytes(output: Output | None, channels: int, atoms: int) -> int:
    """Return the bytes that the DPU's readers fetch beside the main input."""
    if output is None:
        return 0
    total = 0
    for stage in (output.bs, output.bn):
        total += 4 * channels * (stage.alu_from_memory and stage.alu >= 0)
        total += 2 * channels * (stage.mul_from_memory and stage.has_mul)
    if not output.ew.is_bypassed and not output.ew.is_constant:
        positions = atoms if output.operand_is_cube else 1
        total += positions * _padded(channels, max(1, output.ew.operand_bits // 8))
    return total


def _elementwise(work: Work, output: Output, spec: RknnSpec) -> Cost:
    item, written = PRECISION_BYTES[output.precision_in], PRECISION_BYTES[output.precision_out]
    pixels = output.width * output.height
    elements = pixels * _padded(output.channels, item) // item
    steps = max(1, -(-elements // ELEMENTS_PER_STEP))
    return Cost(
        groups=1,
        atoms=steps,
        factor=0,
        row_atoms=1,
        stride=1,
        reach=1,
        row_bytes=ELEMENTS_PER_STEP * item,
        feature_bytes=elements * item,
        weight_bytes=0,
        group_bytes=0,
        weight_room=0,
        operand_bytes=_operand_bytes(output, output.channels, pixels),
        out_elements=elements / steps,
        out_rate=output_rate(output, spec),
        write_atom=ELEMENTS_PER_STEP * written,
        write_last=ELEMENTS_PER_STEP * written,
        problem="" if output.to_memory else "DPU sends its results nowhere",
    )


def _pooled_bytes(pool: Pooling) -> int:
    item = 2 if pool.precision == FP16 else 1
    return pool.out_width * pool.out_height * _padded(pool.out_channels, item)


def _pooling(pool: Pooling, spec: RknnSpec) -> Cost:
    item = 2 if pool.precision == FP16 else 1
    surfaces = _padded(pool.in_channels, item) // ATOM_BYTES
    atoms = pool.out_width * pool.out_height * surfaces
    in_atoms = pool.in_width * pool.in_height * surfaces
    return Cost(
        groups=1,
        atoms=atoms,
        factor=0,
        row_atoms=pool.out_width * surfaces,
        stride=pool.stride_y,
        reach=max(1, pool.kernel_height - pool.pad_top),
        row_bytes=pool.in_width * surfaces * ATOM_BYTES,
        feature_bytes=in_atoms * ATOM_BYTES,
        weight_bytes=0,
        group_bytes=0,
        weight_room=0,
        operand_bytes=0,
        # An output atom costs as much as the input atoms that it is made from.
        out_elements=max(1.0, in_atoms / atoms) * ATOM_BYTES / item,
        out_rate=spec.pooling_rate / item,
        write_atom=ATOM_BYTES,
        write_last=ATOM_BYTES,
        is_pooling=True,
        problem="" if pool.is_flying else "PPU waits for a DPU that is not enabled",
    )
