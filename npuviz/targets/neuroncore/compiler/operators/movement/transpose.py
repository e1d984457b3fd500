"""Exchange the innermost axis by PE instead of element-wise DMA.

A DMA element of 4 bytes costs as much as one of some hundred. If a movement has no common long runs,
tiles are loaded in the source's runs, transposed by PE, and stored in the target's runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.strides import merged_together

FLOATS = frozenset(("float32", "bfloat16", "float16"))
"""Types whose values PE transposes unchanged."""
TILE_ELEMENTS = 2048
"""Most elements of a partition that are loaded at once."""
TRANSPOSE_CYCLES = 300
"""Assumed: cycles to transpose a block, with its loads, copies and stores; for choosing PE or DMA."""


@dataclass(frozen=True, slots=True)
class TransposePlan:
    """A movement as a batch of 2-D transposes; steps in bytes, (of the target, of the source).

    inner  axis contiguous in the source: size, and step in the target
    outer  axis contiguous in the target: size, and step in the source
    group, batch  the other axes: the last one, and those before it
    cycles        a rough estimate
    """

    cycles: int
    inner: tuple[int, int]
    outer: tuple[int, int]
    group: tuple[int, int, int]
    batch: tuple[tuple[int, int, int], ...]


def transpose_by_pe(b: Builder, plan: TransposePlan, to: HbmView, of: HbmView) -> None:
    """Emit a planned movement."""
    for index in np.ndindex(*(size for size, _, _ in plan.batch)):
        to_offset = to.offset + sum(i * step for i, (_, step, _) in zip(index, plan.batch, strict=True))
        of_offset = of.offset + sum(i * step for i, (_, _, step) in zip(index, plan.batch, strict=True))
        step = max(1, TILE_ELEMENTS // plan.inner[0])
        for first, last in blocks(plan.group[0], step):
            for begin, end in blocks(plan.outer[0], NUM_PARTITIONS):
                _move_block(b, plan, (to, to_offset), (of, of_offset), (first, last), (begin, end))


def plan_transposes(to: HbmView, of: HbmView) -> TransposePlan | None:
    """Plan a movement by PE; return None if that is not possible."""
    if to.dtype != of.dtype or to.dtype not in FLOATS:
        return None
    item = to.itemsize
    dims = merged_together(to.shape, (to.steps, of.steps))
    inner = [at for at, dim in enumerate(dims) if dim[2] == item]
    outer = [at for at, dim in enumerate(dims) if dim[1] == item]
    if not inner or not outer or inner[0] == outer[0]:
        return None
    rest = [dim for at, dim in enumerate(dims) if at not in (inner[0], outer[0])]
    sizes = dims[inner[0]][0], dims[outer[0]][0]
    batch = int(np.prod([dim[0] for dim in rest], dtype=np.int64))
    count = batch * -(-sizes[0] // NUM_PARTITIONS) * -(-sizes[1] // NUM_PARTITIONS)
    if sizes[0] > 8 * TILE_ELEMENTS:
        return None
    groups = [(size, step, back) for size, step, back in rest] or [(1, 0, 0)]
    return TransposePlan(
        count * TRANSPOSE_CYCLES,
        (sizes[0], dims[inner[0]][1]),
        (sizes[1], dims[outer[0]][2]),
        groups[-1],
        tuple(groups[:-1]),
    )


def _move_block(
    b: Builder,
    plan: TransposePlan,
    to: tuple[HbmView, int],
    of: tuple[HbmView, int],
    group: tuple[int, int],
    outer: tuple[int, int],
) -> None:
    """Move the whole inner axis for ranges of the group and of the outer axis (at most 128)."""
    size, count, number = plan.inner[0], outer[1] - outer[0], group[1] - group[0]
    item = to[0].itemsize
    source = _pattern(
        of[0],
        of[1] + group[0] * plan.group[2] + outer[0] * plan.outer[1],
        (count, number, size),
        (plan.outer[1], plan.group[2], item),
    )
    with b.tiles.scope():
        loaded = b.tiles.sbuf(count, (number, size), source.dtype)
        b.dma.load(loaded, source)
        for begin, end in blocks(size, NUM_PARTITIONS):
            with b.tiles.scope():
                made = b.tiles.sbuf(end - begin, (number, count), source.dtype)
                _transpose_all(b, made, loaded[:, :, begin:end])
                offset = to[1] + begin * plan.inner[1] + group[0] * plan.group[1] + outer[0] * item
                shape, steps = (end - begin, number, count), (plan.inner[1], plan.group[1], item)
                b.dma.store(_pattern(to[0], offset, shape, steps), made)


def _transpose_all(b: Builder, made: View, loaded: View) -> None:
    """Transpose each of n blocks of `loaded` [P, n, F] to `made` [F, n, P]; several share a PSUM bank."""
    count = made.shape[1]
    bank = max(1, b.spec.psum_bank_bytes // (count * made.itemsize))
    for first, last in blocks(made.shape[0], bank):
        with b.tiles.scope():
            held = b.tiles.psum(made.partitions, (last - first, count), made.dtype)
            for at in range(first, last):
                b.isa.transpose(held[:, at - first], loaded[:, at])
            b.isa.copy(made[:, first:last], held)


def _pattern(view: HbmView, offset: int, shape: Sequence[int], steps: Sequence[int]) -> HbmView:
    return HbmView(view.variable, offset, view.dtype, tuple(shape), tuple(steps))
