"""Copy a tensor from one layout to another by tasks: whole atoms by the DPU, lanes by CORE.

A product with ones and zeros takes atoms of one axis as channels and gives back atoms of the other: a
square of lanes is turned. Rows and surfaces may lie any number of atoms apart at both ends.
Assumed: the DPU writes the channels that WDMA_SIZE_0 says, though CORE works on whole groups of kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import numpy as np

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.conv_words import CONVOLUTION_ENABLES, conv_task_words
from npuviz.formats.rk3588.registers import Word, registers
from npuviz.formats.rk3588.tensor_layout import packing
from npuviz.onnx.errors import CannotLower
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder
from npuviz.targets.rk3588.compiler.dpu import Stages
from npuviz.targets.rk3588.compiler.dpu_task import DPU_ENABLES, Move, Plane, copy_words
from npuviz.targets.rk3588.compiler.operators.conv import pack_dense
from npuviz.targets.rk3588.compiler.strides import Axis, Loop, Part, axes_of, parts_of
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.cube import held_bytes
from npuviz.targets.rk3588.task.work import ATOM_BYTES

MAX_ROWS = 2047
"""Rows of features: 11 bits. Ref: XML."""
MAX_POSITIONS = 8191
"""Rows, columns and notches of the DPU: 13 bits. Ref: XML."""
MAX_TASKS = 4096
"""Most tasks of one copy; more take longer than the Host."""
MAX_SURFACES = 512
"""Surfaces of 16 channels that 13 bits of channels can say."""
_NO_LOOP = Loop(1, 0, 0)


@dataclass(frozen=True, slots=True)
class _Task:
    """One task of a copy: the lanes of a part, and the loops that the task itself runs, from a first atom on.

    rows     also of an exchange of lanes
    columns, surfaces  of whole atoms only
    """

    taken: int
    given: int
    lanes: tuple[Loop, Loop] | None
    rows: Loop
    columns: Loop = _NO_LOOP
    surfaces: Loop = _NO_LOOP


@dataclass(frozen=True)
class Copy:
    """The tasks of a copy between two buffers, before they are added to a program."""

    ends: tuple[Buffer, Buffer]
    tasks: tuple[_Task, ...]

    def cycles(self, b: Builder) -> float:
        """Estimate how long the copy takes."""
        # The room that fills a cube's channels up is not copied.
        elements = max(held_bytes(buffer) / numpy_dtype(buffer.dtype).itemsize for buffer in self.ends)
        return len(self.tasks) * b.spec.to_cycles(b.spec.task_ns) + elements / b.spec.output_rate


def plan_copy(spec: RknnSpec, source: Buffer, target: Buffer, axes: Sequence[Axis] | None = None) -> Copy:
    """Plan a copy of all elements in their order. axes  of the source, if it goes through them in another
    order

    Raises CannotLower if axes cut through atoms or lie too far apart, or for more than MAX_TASKS tasks.
    """
    return copy_of_axes(spec, (source, target), axes_of(source) if axes is None else axes, axes_of(target))


def copy_of_axes(
    spec: RknnSpec, ends: tuple[Buffer, Buffer], taken: Sequence[Axis], given: Sequence[Axis]
) -> Copy:
    """Plan a copy, as `plan_copy` does, between any axes. taken, given  of the source and the target, in the
    same order"""
    source, target = ends
    if source.dtype != target.dtype:
        raise CannotLower("layouts of different types")
    group = packing(source.dtype).channels
    parts = parts_of(taken, given, group)
    tasks = tuple(task for part in parts for task in _tasks(part, _room(spec, group)))
    if len(tasks) > MAX_TASKS:
        raise CannotLower(f"a copy of {len(tasks):,} tasks, at most {MAX_TASKS:,}")
    return Copy((source, target), tasks)


def emit_copy(b: Builder, node: int, copy: Copy) -> None:
    """Add the tasks of a copy, shared out to the cores. The tasks that follow must begin a new layer."""
    held: dict[int, tuple[int, int]] = {}
    for number, task in enumerate(copy.tasks):
        core = number % b.spec.cores
        if task.lanes is None:
            b.task(node, core, _atom_words(copy.ends, task), DPU_ENABLES)
            continue
        sizes = task.lanes[0].size, task.lanes[1].size
        words = _lane_words(b, copy.ends, task, stays=held.get(core) == sizes)
        held[core] = sizes
        b.task(node, core, words, CONVOLUTION_ENABLES)


# --- what a task walks ------------------------------------------------------------------------------------


def _room(spec: RknnSpec, group: int) -> int:
    """Return the bytes of half of CBUF, for the features of an exchange. Raises CannotLower if weights do not
    fit."""
    kernels = 2 * group
    if kernels * group * ATOM_BYTES > spec.cbuf_banks // 2 * spec.cbuf_bank_bytes:
        raise CannotLower(
            f"banks of {spec.cbuf_bank_bytes} bytes, too small for the lanes of {kernels} kernels"
        )
    return (spec.cbuf_banks - spec.cbuf_banks // 2) * spec.cbuf_bank_bytes


def _tasks(part: Part, room: int) -> list[_Task]:
    if part.lanes is not None:
        fits = [loop for loop in part.loops if 0 < loop.given <= MAX_POSITIONS and loop.taken > 0]
        rows = max(fits, key=lambda loop: loop.size, default=_NO_LOOP)
        rest = [loop for loop in part.loops if loop is not rows]
        most = min(MAX_ROWS, max(1, room // (part.lanes[1].size * ATOM_BYTES)))
        return [
            _Task(taken, given, part.lanes, chunk)
            for at in _places(rest)
            for taken, given, chunk in _chunks(part.taken + at[0], part.given + at[1], rows, most)
        ]
    columns, rows, surfaces = _walk(part.loops)
    rest = [loop for loop in part.loops if loop not in (columns, rows, surfaces)]
    if prod(loop.size for loop in rest) > MAX_TASKS:
        columns, rows, surfaces = _walk_of_single_atoms(part.loops)
        rest = [loop for loop in part.loops if loop not in (rows, surfaces)]
    most = MAX_POSITIONS if columns.given == 1 else max(1, MAX_POSITIONS // 16 // surfaces.size)
    return [
        _Task(third[0], third[1], None, second[2], first[2], third[2])
        for at in _places(rest)
        for first in _chunks(part.taken + at[0], part.given + at[1], columns, most)
        for second in _chunks(first[0], first[1], rows, MAX_POSITIONS)
        for third in _chunks(second[0], second[1], surfaces, MAX_SURFACES)
    ]


def _walk(loops: Sequence[Loop]) -> tuple[Loop, Loop, Loop]:
    """Return columns, rows and surfaces of a task that keeps atoms whole: its reader goes forward only."""
    columns = max((loop for loop in loops if loop.taken == 1), key=lambda loop: loop.size, default=_NO_LOOP)
    others = [loop for loop in loops if loop is not columns and loop.taken > 0 and loop.given > 0]
    others = sorted(sorted(others, key=lambda loop: -loop.size)[:2], key=lambda loop: loop.taken)
    rows, surfaces = (*others, _NO_LOOP, _NO_LOOP)[:2]
    if columns.given > 1 and (surfaces.size > 16 or columns.given > MAX_POSITIONS):
        columns, rows, surfaces = _NO_LOOP, columns, _NO_LOOP
    if rows.given > MAX_POSITIONS or rows.taken > MAX_POSITIONS or rows.taken < columns.size:
        rows, surfaces = _NO_LOOP, rows if surfaces is _NO_LOOP else surfaces
    if surfaces.taken < (rows.size - 1) * rows.taken + columns.size:
        surfaces = _NO_LOOP
    return columns, rows, surfaces


def _walk_of_single_atoms(loops: Sequence[Loop]) -> tuple[Loop, Loop, Loop]:
    """Return rows and surfaces of a task whose rows are one atom each: where neighbours are taken too far
    apart, or given so, for columns."""
    fits = [loop for loop in loops if 0 < loop.taken <= MAX_POSITIONS and 0 < loop.given <= MAX_POSITIONS]
    rows = max(fits, key=lambda loop: loop.size, default=_NO_LOOP)
    # The task's rows are cut to pieces of at most MAX_POSITIONS, each with all surfaces.
    span = (min(rows.size, MAX_POSITIONS) - 1) * rows.taken + 1
    behind = [loop for loop in loops if loop is not rows and loop.taken >= span and loop.given > 0]
    return _NO_LOOP, rows, max(behind, key=lambda loop: loop.size, default=_NO_LOOP)


def _places(loops: Sequence[Loop]) -> list[tuple[int, int]]:
    """Return where the turns of loops begin at both ends. Raises CannotLower for too many."""
    if prod(loop.size for loop in loops) > MAX_TASKS:
        raise CannotLower(f"more than {MAX_TASKS} tasks that copy a few atoms each")
    return [
        (
            sum(at * loop.taken for at, loop in zip(place, loops, strict=True)),
            sum(at * loop.given for at, loop in zip(place, loops, strict=True)),
        )
        for place in product(*(range(loop.size) for loop in loops))
    ]


def _chunks(taken: int, given: int, loop: Loop, most: int) -> list[tuple[int, int, Loop]]:
    """Return a loop in pieces of at most `most` turns, and where each begins."""
    count = -(-loop.size // most)
    edges = [loop.size * number // count for number in range(count + 1)]
    return [
        (taken + low * loop.taken, given + low * loop.given, Loop(high - low, loop.taken, loop.given))
        for low, high in pairwise(edges)
    ]


# --- words ------------------------------------------------------------------------------------------------


def _addresses(ends: tuple[Buffer, Buffer], task: _Task) -> tuple[int, int]:
    return ends[0].address + task.taken * ATOM_BYTES, ends[1].address + task.given * ATOM_BYTES


def _atom_words(ends: tuple[Buffer, Buffer], task: _Task) -> list[Word]:
    group = packing(ends[0].dtype).channels
    rows, columns, surfaces = task.rows, task.columns, task.surfaces
    size = surfaces.size * group, rows.size, columns.size
    span = (rows.size - 1) * max(rows.taken, columns.size) + columns.size
    planes = (
        Plane(surfaces.taken or span, rows.taken if rows.size > 1 else 0),
        Plane(max(1, surfaces.given), rows.given if rows.size > 1 else 0, max(1, columns.given)),
    )
    dtypes = ends[0].dtype, ends[1].dtype
    return copy_words(Move(size, _addresses(ends, task), dtypes, *planes), Stages())


def _lane_words(b: Builder, ends: tuple[Buffer, Buffer], task: _Task, *, stays: bool) -> list[Word]:
    """Return the words of a convolution of one column. stays  whether the weights of the task before are the
    same"""
    assert task.lanes is not None
    (source, _), (lane, column), rows = ends, task.lanes, task.rows
    dtype = source.dtype
    group = packing(dtype).channels
    sizes = lane.size, column.size
    weights = b.shared(f"{sizes[0]} x {sizes[1]} lanes of {dtype}", lambda: _turning(sizes, dtype))
    addresses = _addresses(ends, task)
    banks = b.spec.cbuf_banks // 2
    room = banks * b.spec.cbuf_bank_bytes
    conv = ConvTask(
        in_dtype=dtype, out_dtype=dtype, width=1, height=rows.size, channels=column.size * group,
        kernels=lane.size * group, out_height=rows.size, surface_stride=max(1, lane.given),
        quantised=dtype == "float16", weight_reuse=stays and weights.size_bytes <= room,
        data_banks=b.spec.cbuf_banks - banks, weight_banks=banks,
        feature_grains=min(rows.size + 1, 1023), feature_address=addresses[0],
        weight_address=weights.address, output_address=addresses[1],
    )  # fmt: skip
    encode = registers().encode
    last = lane.size * group - 1
    changed = [
        encode("CNA", "DMA_CON1", line_stride=4 * max(1, rows.taken)),
        encode("CNA", "DMA_CON2", surface_stride=column.taken - 4 * max(1, rows.taken)),
        encode("DPU", "DATA_CUBE_CHANNEL", original_channels=last, channels=last),
        encode("DPU", "WDMA_SIZE_0", channels=last),
    ]
    if rows.size > 1:
        notch = rows.given - 1
        changed.append(encode("DPU", "DATA_CUBE_NOTCH_ADDR", notch_0=notch, notch_1=notch))
    new = {word.offset: word for word in changed}
    return [new.get(word.offset, word) for word in conv_task_words(conv).words]


def _turning(sizes: tuple[int, int], dtype: str) -> np.ndarray:
    """Return packed weights that give lane a of surface b as lane b of surface a. sizes  of a and b"""
    group = packing(dtype)
    lanes, columns = sizes
    weights = np.zeros((lanes, group.channels, columns, group.channels), numpy_dtype(dtype))
    for lane, column in product(range(lanes), range(columns)):
        weights[lane, column, column, lane] = 1
    dense = weights.reshape(lanes * group.channels, columns * group.channels, 1, 1)
    return pack_dense(dense, group.kernels)
