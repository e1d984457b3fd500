"""Folds operators next to a convolution into it: a Pad before it, and products and sums with constants
behind it; writes one with a large stride as a convolution of patches.

Exporters write them as separate operators, for which machines would store the padded or scaled tensor once
more.
"""

from dataclasses import dataclass

import numpy as np
from onnx import AttributeProto, NodeProto, helper

from npuviz.onnx.draft import Draft
from npuviz.onnx.node_order import names_read, replace_nodes
from npuviz.onnx.passes.neighbours import Neighbours, Shapes, store_weight

_FIRST_SPATIAL = 2
_SCALES, _SHIFTS = ("Mul", "Div"), ("Add", "Sub")
SMALLEST, LARGEST = 2.0**-14, 65504.0
"""Range of normal numbers of float16, in which machines may hold weights that the file has in float32."""
OLDEST_OPSET = 11
"""The first operator set in which Pad has its sizes as an input."""


@dataclass(frozen=True)
class Limits:
    """What a machine's convolutions take: the largest padding and stride, as of ModelForm."""

    padding: int
    stride: int


def settle_convolutions(draft: Draft, limits: Limits, shapes: Shapes) -> bool:
    """Fold Pads before convolutions, and products and sums with constants behind them, into the convolutions.

    A convolution whose kernel is as large as its stride, which is over the limit, gets one pixel for each of
    its windows: SpaceToDepth, and a kernel of one pixel. Changes the draft in place. Returns whether anything
    was changed.
    """
    graph = draft.proto.graph
    convolutions = [node for node in graph.node if _is(node, "Conv")]
    if not convolutions:
        return False
    parts = _Parts(draft, limits.padding)
    found = [parts.take_pad(node) for node in convolutions]
    found += [parts.take_behind(node) for node in convolutions]
    patches = {id(node): each for node in convolutions if (each := _as_patches(draft, node, limits, shapes))}
    if patches:
        made = [patches.get(id(node), [node]) for node in graph.node]
        replace_nodes(graph, [each for nodes in made for each in nodes])
    if any(found) or patches:
        read = names_read(graph)
        replace_nodes(graph, [node for node in graph.node if any(name in read for name in node.output)])
    return any(found) or bool(patches)


def _as_patches(draft: Draft, node: NodeProto, limits: Limits, shapes: Shapes) -> list[NodeProto]:
    """Return the nodes of a convolution whose windows become pixels; [] for one with another form."""
    weights = draft.weights.get(node.input[1])
    picture = shapes.get(node.input[0], (0, ()))[1]
    strides = _attribute(node, "strides")
    size = strides.ints[0] if strides is not None else 1
    given = {name: each for name in ("pads", "dilations", "group") if (each := _attribute(node, name))}
    is_plain = not any(given["pads"].ints if "pads" in given else ()) and _takes_pads(node)
    is_whole = all(each == 1 for each in given["dilations"].ints) if "dilations" in given else True
    if (
        weights is None
        or size <= limits.stride
        or not (is_plain and is_whole)
        or ("group" in given and given["group"].i != 1)
        or weights.shape[2:] != (size, size)
        or list(strides.ints if strides is not None else ()) != [size, size]
        or len(picture) != 4
        or any(each % size for each in picture[2:])
    ):
        return []
    kernels = weights.transpose(0, 2, 3, 1).reshape(len(weights), -1, 1, 1)
    pixels = f"{node.output[0]}__patches"
    patches = helper.make_node(
        "SpaceToDepth", [node.input[0]], [pixels], name=f"{node.name}/patches", blocksize=size
    )
    stored = store_weight(draft, f"{node.output[0]}__kernels", np.ascontiguousarray(kernels))
    product = helper.make_node("Conv", [pixels, stored, *node.input[2:]], node.output[:], name=node.name)
    return [patches, product]


def _is(node: NodeProto, *kinds: str) -> bool:
    return node.op_type in kinds and node.domain in ("", "ai.onnx")


class _Parts:
    """Folds the neighbours of convolutions into them."""

    def __init__(self, draft: Draft, most_padding: int) -> None:
        self._draft, self._most_padding = draft, most_padding
        self._graph = Neighbours(draft)
        opsets = {item.domain: item.version for item in draft.proto.opset_import}
        self._may_pad = opsets.get("", opsets.get("ai.onnx", 0)) >= OLDEST_OPSET

    # --- before ----------------------------------------------------------------------------------------

    def take_pad(self, node: NodeProto) -> bool:
        """Fold the Pad that a convolution reads into its own padding, if only such convolutions read the Pad.

        Returns whether it was folded.
        """
        pad = self._graph.makers.get(node.input[0])
        if pad is None or not self._may_pad or not _is(pad, "Pad") or pad.output[0] in self._graph.held:
            return False
        if any(not _takes_pads(reader) or pad.output[0] in list(reader.input)[1:]
               for reader in self._graph.readers[pad.output[0]]):  # fmt: skip
            return False
        ends = self._zeros(pad)
        if ends is None:
            return False
        own = _attribute(node, "pads")
        held = np.zeros_like(ends) if own is None else np.array(own.ints).reshape(2, -1)
        if held.shape != ends.shape or (held + ends).max() > self._most_padding:
            return False
        _give(node, "pads", (held + ends).reshape(-1).tolist())
        if _attribute(node, "auto_pad") is not None:
            _give(node, "auto_pad", "NOTSET")
        node.input[0] = pad.input[0]
        return True

    def _zeros(self, pad: NodeProto) -> np.ndarray | None:
        """Return the zeros that a Pad adds before and behind each spatial axis, (2, axes); None if it does
        anything else."""
        mode = _attribute(pad, "mode")
        ends = self._draft.weights.get(pad.input[1])
        if ends is None or (mode is not None and mode.s != b"constant") or any(pad.input[3:]):
            return None
        if len(pad.input) > 2 and pad.input[2]:
            value = self._draft.weights.get(pad.input[2])
            if value is None or np.any(value):
                return None
        ends = ends.reshape(2, -1)
        if np.any(ends < 0) or np.any(ends[:, :_FIRST_SPATIAL]):
            return None
        return ends[:, _FIRST_SPATIAL:]

    # --- behind ----------------------------------------------------------------------------------------

    def take_behind(self, node: NodeProto) -> bool:
        """Fold consecutive products and sums with one number per kernel into a convolution. Returns whether
        there were any."""
        is_changed = False
        while self._take_next(node):
            is_changed = True
        return is_changed

    def _take_next(self, node: NodeProto) -> bool:
        made = node.output[0]
        readers = self._graph.readers.get(made, [])
        if len(readers) != 1 or made in self._graph.held or not _is(readers[0], *_SCALES, *_SHIFTS):
            return False
        behind = readers[0]
        weights = self._draft.weights.get(node.input[1])
        has_bias = len(node.input) > 2 and node.input[2]
        bias = self._draft.weights.get(node.input[2]) if has_bias else None
        if (
            weights is None
            or weights.dtype.kind != "f"
            or weights.dtype.itemsize > 4
            or (has_bias and bias is None)
        ):
            return False
        values = self._for_each_kernel(behind, made, weights)
        if values is None:
            return False
        summand = np.zeros(len(weights), np.float32) if bias is None else bias.astype(np.float32)
        is_first = behind.input[0] == made
        if behind.op_type == "Sub":
            factor, summand = (1.0, summand - values) if is_first else (-1.0, values - summand)
        elif behind.op_type == "Add":
            factor, summand = 1.0, summand + values
        elif behind.op_type == "Div" and (not is_first or not np.all(values)):
            return False
        else:
            factor = 1 / values if behind.op_type == "Div" else values
            summand = summand * factor
        factors = np.broadcast_to(np.float32(factor), len(weights))
        scaled = weights.astype(np.float32) * factors.reshape((-1,) + (1,) * (weights.ndim - 1))
        if not (_keeps_its_bits(weights, scaled) and np.all(np.abs(summand) <= LARGEST)):
            return False
        self._rewrite(node, behind, scaled.astype(weights.dtype), summand.astype(weights.dtype))
        return True

    def _for_each_kernel(self, behind: NodeProto, made: str, weights: np.ndarray) -> np.ndarray | None:
        """Return the constant operand of a product or sum as one number per kernel; None if it has another
        form."""
        other = [name for name in behind.input if name != made]
        constant = self._draft.weights.get(other[0]) if len(other) == 1 else None
        if constant is None or constant.dtype != weights.dtype or constant.ndim > weights.ndim:
            return None
        full = constant.reshape((1,) * (weights.ndim - constant.ndim) + constant.shape)
        if full.size != full.shape[1] or full.size not in (1, len(weights)):
            return None
        values = np.broadcast_to(full.reshape(-1).astype(np.float32), len(weights))
        return values if np.all(np.isfinite(values)) else None

    def _rewrite(self, node: NodeProto, behind: NodeProto, weights: np.ndarray, bias: np.ndarray) -> None:
        """Replace weights and bias of a convolution, and let it make the output of the operator behind it."""
        name = behind.output[0]
        if not np.array_equal(weights, self._draft.weights[node.input[1]]):
            node.input[1] = store_weight(self._draft, f"{name}__weights", weights)
        given = [*node.input[:2], store_weight(self._draft, f"{name}__bias", bias)]
        del node.input[:]
        node.input.extend(given)
        # The folded operator gets an output that nothing reads, so that it is removed.
        behind.output[0], node.output[0] = f"{name}__gone", name
        self._graph.makers[name] = node


def _attribute(node: NodeProto, name: str) -> AttributeProto | None:
    return next((item for item in node.attribute if item.name == name), None)


def _give(node: NodeProto, name: str, value: object) -> None:
    kept = [item for item in node.attribute if item.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _keeps_its_bits(weights: np.ndarray, scaled: np.ndarray) -> bool:
    """Return whether the largest number of each kernel stays a normal number of float16 after scaling."""
    largest = [np.abs(each.reshape(len(each), -1)).max(axis=1, initial=0) for each in (weights, scaled)]
    was, is_ = ((size >= SMALLEST) & (size <= LARGEST) for size in largest)
    return bool(np.all(np.isfinite(scaled)) and np.all(is_ | ~was | (largest[1] == 0)))


def _takes_pads(node: NodeProto) -> bool:
    """Return whether a node is a convolution with explicit padding, which can be enlarged."""
    if not _is(node, "Conv"):
        return False
    found = _attribute(node, "auto_pad")
    return found is None or found.s in (b"NOTSET", b"VALID", b"")
