"""Read a node's attributes, homes and constant inputs for lowerings of movements, and copy patterns."""

from collections.abc import Sequence

import numpy as np

from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.attributes import attributes_of
from npuviz.program.graph import Node
from npuviz.targets.neuroncore.compiler.builder.builder import Builder
from npuviz.targets.neuroncore.compiler.operators.movement.rows import move_within_rows, plan_rows
from npuviz.targets.neuroncore.compiler.operators.movement.transpose import plan_transposes, transpose_by_pe
from npuviz.targets.neuroncore.compiler.operators.ranges import blocks
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import DTYPE_CODES
from npuviz.targets.neuroncore.strides import merged_together

ELEMENT_CYCLES = 6
"""Assumed: cycles of a DMA element on 16 rings, of any size; for choosing between DMA and engines."""
SHORT_RUN = 16
"""Shorter runs (in elements) may be moved by engines instead of DMA."""
COLUMNS = 4096
"""Elements that one step of a conversion works on."""


def input_id(node: Node, index: int) -> int:
    """Return the tensor id of an input, -1 if it is absent."""
    return node.inputs[index] if index < len(node.inputs) else -1


def source(b: Builder, node: Node, index: int = 0) -> HbmView:
    """Return the home of an input. Raises CannotLower if it is missing or has no numbers."""
    tensor = input_id(node, index)
    if tensor < 0:
        raise CannotLower(f"input {index} is missing")
    if b.graph.tensors[tensor].dtype in ("string", "opaque"):
        raise CannotLower(f"{b.graph.tensors[tensor].dtype} values have no place in the chip's memory")
    return b.hbm[tensor]


def target(b: Builder, node: Node, index: int = 0) -> HbmView:
    """Return the home of an output. Raises CannotLower if it has no numbers."""
    if b.graph.tensors[node.outputs[index]].dtype in ("string", "opaque"):
        raise CannotLower(f"{b.graph.tensors[node.outputs[index]].dtype} values are no tensors of the chip")
    return b.hbm[node.outputs[index]]


def known(b: Builder, node: Node, index: int, what: str) -> np.ndarray | None:
    """Return the constant value of an input that shapes the program; None if it is absent.

    Raises CannotLower if it is known only at run time.
    """
    tensor = input_id(node, index)
    if tensor < 0:
        return None
    value = b.graph.constants.get(tensor)
    if value is None:
        raise CannotLower(f"{what} is known only at run time")
    return np.asarray(value)


def known_ints(b: Builder, node: Node, index: int, what: str) -> list[int] | None:
    """Return the constant value of an input as a list of integers, as `known`."""
    value = known(b, node, index, what)
    return None if value is None else [int(item) for item in value.reshape(-1)]


def ints(node: Node, name: str, default: Sequence[int] | None = None) -> list[int] | None:
    """Return an attribute that is a list of integers."""
    value = node.attributes.get(name)
    if value is None:
        return None if default is None else list(default)
    return [int(item) for item in value]


def integer(node: Node, name: str, default: int = 0) -> int:
    """Return an attribute that is an integer."""
    value = node.attributes.get(name)
    return default if value is None else int(value)


def text(node: Node, name: str, default: str = "") -> str:
    """Return an attribute that is text."""
    return attributes_of(node).text(name, default)


def axis_of(axis: int, rank: int) -> int:
    """Return the axis as a non-negative number. Raises CannotLower if it is out of range."""
    if not -rank <= axis < max(rank, 1):
        raise CannotLower(f"axis {axis} of a tensor of {rank} dimensions")
    return axis + rank if axis < 0 else axis


def copy(b: Builder, to: HbmView, of: HbmView) -> None:
    """Copy elements between patterns of the same shape, with a cast if their types differ.

    Uses DMA, or PE or another engine if that is possible and faster.
    """
    if to.shape != of.shape:
        raise CannotLower(f"a movement of {of.shape} to {to.shape}")
    if not to.num_elements:
        return
    if to.dtype != of.dtype and of.dtype in DTYPE_CODES and not b.spec.has_dma_compute:
        of = _cast(b, of, to.dtype)
    dims = merged_together(to.shape, (to.steps, of.steps))
    run = dims[-1][0] if dims and dims[-1][1] == dims[-1][2] == to.itemsize else 1
    by_dma = to.num_elements // run * ELEMENT_CYCLES
    turned = plan_transposes(to, of) if run < SHORT_RUN else None
    rows = plan_rows(to, of) if run < SHORT_RUN else None
    best = min([by_dma, *(plan.cycles for plan in (turned, rows) if plan is not None)])
    if rows is not None and rows.cycles == best < by_dma:
        move_within_rows(b, rows, to, of)
    elif turned is not None and turned.cycles == best < by_dma:
        transpose_by_pe(b, turned, to, of)
    else:
        b.dma.copy(to, of)


def _cast(b: Builder, of: HbmView, dtype: str) -> HbmView:
    """Cast a pattern to a new buffer with the engines, for machines whose DMA cannot."""
    held = b.hbm.scratch(of.shape, of.dtype)
    made = b.hbm.scratch(of.shape, dtype)
    b.dma.copy(held, of)
    for begin, end in blocks(of.num_elements, COLUMNS):
        with b.tiles.scope():
            part = b.dma.fetch(held.flatten()[begin:end].reshape(1, -1))
            b.dma.store(made.flatten()[begin:end].reshape(1, -1), part)
    return made
