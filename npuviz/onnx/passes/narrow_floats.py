"""Retypes float64 tensors for machines whose engines have no such type.

What float32 cannot hold stays float64: a constant beyond its range, and all that is computed from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.program.program import HostReason

NOTE = "narrow-floats"
"""Code of the note about them."""
WIDE = "float64"
NARROW = "float32"
_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = float(np.finfo(np.float32).smallest_normal)
_MOVING = frozenset(
    ("BitCast", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherND", "Identity", "Reshape",
     "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze")
)  # fmt: skip
"""Operators that move elements of any type as they are."""
_ALL_BITS = HostReason(f"its bits or digits are those of {WIDE}")


@dataclass(frozen=True)
class NarrowFloats:
    """A graph whose float64 tensors are float32, with the same ids.

    held     ids of the tensors that became float32
    reasons  float64 tensor that stays -> why: the number that float32 cannot hold
    """

    graph: Graph
    held: frozenset[int] = frozenset()
    reasons: Mapping[int, HostReason] = field(default_factory=dict[int, HostReason])

    def reason(self, node: Node) -> HostReason | None:
        """Return why a node computes in float64, None if it does not."""
        return next((self.reasons[t] for t in (*node.inputs, *node.outputs) if t in self.reasons), None)


def held_text(count: int, held_as: str, other_way: str = "") -> str:
    """Return a note about tensors of float64 that are held in a narrower type.

    other_way  how to hold them in a wider one, "" where there is no way
    """
    tensors = f"{count:,} tensors of {WIDE} are" if count != 1 else f"1 tensor of {WIDE} is"
    note = f"{tensors} held and computed as {held_as}"
    return f"{note}; {other_way}" if other_way else note


def narrow_floats(graph: Graph) -> NarrowFloats:
    """Return the graph with float64 tensors as float32.

    Constants that float32 cannot hold, and what is computed from them in float64, stay as they are; so do
    tensors that are only moved about.
    """
    wide = _computed(graph, {tensor.id for tensor in graph.tensors if tensor.dtype == WIDE})
    if not wide:
        return NarrowFloats(graph)
    reasons: dict[int, HostReason] = {}
    for index in wide.intersection(graph.constants):
        beyond = beyond_range(graph.constants[index])
        if beyond is not None:
            reasons[index] = _reason(f"constant {graph.tensors[index].name}", beyond)
    for node in graph.nodes:
        exact = wide.intersection((*node.inputs, *node.outputs)) if _needs_all_bits(graph, node) else ()
        reasons.update(dict.fromkeys(exact, _ALL_BITS))
    for node in graph.nodes:
        why = next((reasons[tensor] for tensor in node.inputs if tensor in reasons), None)
        why = why or _reason_of_attributes(node)
        if why is not None:
            reasons.update(dict.fromkeys(wide.intersection(node.outputs), why))
    held = frozenset(wide.difference(reasons, _read_in_wide_only(graph, reasons)))
    tensors = tuple(
        replace(tensor, dtype=NARROW) if tensor.id in held else tensor for tensor in graph.tensors
    )
    constants = {
        index: as_narrow(values) if index in held else values for index, values in graph.constants.items()
    }
    return NarrowFloats(replace(graph, tensors=tensors, constants=constants), held, reasons)


def _computed(graph: Graph, wide: set[int]) -> set[int]:
    """Return those tensors that are computed, or moved to or from one that is."""
    found: set[int] = set()
    moved: list[set[int]] = []
    for node in graph.nodes:
        touched = wide.intersection((*node.inputs, *node.outputs))
        if node.op_type in _MOVING:
            moved.append(touched)
        else:
            found |= touched
    # Forwards a computed tensor reaches what is moved from it, backwards what it was moved from.
    is_growing = True
    while is_growing:
        before = len(found)
        for touched in (*moved, *reversed(moved)):
            if not found.isdisjoint(touched):
                found |= touched
        is_growing = len(found) > before
    return found


def _needs_all_bits(graph: Graph, node: Node) -> bool:
    """Return whether a node shows the bits or the digits of its inputs."""
    is_text = any(t >= 0 and graph.tensors[t].dtype == "string" for t in node.outputs)
    return is_text or node.op_type == "BitCast"


def _read_in_wide_only(graph: Graph, reasons: Mapping[int, HostReason]) -> set[int]:
    """Return the inputs and constants whose readers all compute in float64."""
    computing = {node.id for node in graph.nodes if any(t in reasons for t in (*node.inputs, *node.outputs))}
    readers = graph.consumers()
    return {
        tensor.id
        for tensor in graph.tensors
        if tensor.producer < 0
        and tensor.id not in graph.outputs
        and readers[tensor.id]
        and computing.issuperset(readers[tensor.id])
    }


def beyond_range(values: np.ndarray) -> float | None:
    """Return a number that becomes infinite in float32, or a number that becomes 0 where no other number is
    left; None if there is none.

    A small number beside a larger one, as in a matrix of weights, may become 0: it is lost in the larger's
    error.
    """
    if not values.size:
        return None
    finite = _one_of_each(values)
    finite = finite[np.isfinite(finite)]
    largest = float(finite[np.abs(finite).argmax()]) if finite.size else 0.0
    if abs(largest) > _LARGEST or 0.0 < abs(largest) < _SMALLEST:
        return largest
    return None


def as_narrow(values: np.ndarray) -> np.ndarray:
    """Convert float64 to float32; an array of zero strides stays one value in memory."""
    with np.errstate(all="ignore"):
        if values.size and values.ndim and not any(values.strides):
            return np.broadcast_to(values[(0,) * values.ndim].astype(np.float32), values.shape)
        return values.astype(np.float32)


def _one_of_each(values: np.ndarray) -> np.ndarray:
    if values.ndim and not any(values.strides):
        return values[(slice(0, 1),) * values.ndim]
    return values


def _reason(what: str, number: float) -> HostReason:
    return HostReason(
        f"it computes in {WIDE}, since {NARROW} cannot hold {number:.4g} of {what}",
        change=f"numbers of {_SMALLEST:.2g} to {_LARGEST:.2g}",
    )


def _reason_of_attributes(node: Node) -> HostReason | None:
    for name, value in node.attributes.items():
        beyond = _beyond_in_attribute(value)
        if beyond is not None:
            return _reason(f"attribute {name} of {node.name or node.op_type}", beyond)
    return None


def _beyond_in_attribute(value: Any) -> float | None:
    is_wide = isinstance(value, np.ndarray) and value.dtype == np.float64
    return beyond_range(value) if is_wide else None
