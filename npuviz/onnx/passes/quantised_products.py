"""Writes products between DequantizeLinear and QuantizeLinear as QLinearConv and QLinearMatMul.

Both forms mean the same 8-bit product. Machines whose products of integers are faster than those of floats
see from the second that there are integers.
"""

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from npuviz.onnx.draft import Draft
from npuviz.onnx.node_order import names_read, replace_nodes
from npuviz.onnx.passes.neighbours import Neighbours, store_weight

OLDEST_OPSET = 10
"""The first operator set with QLinearConv and QLinearMatMul."""
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))
_SAME_SCALE = 1e-6
"""Relative difference of scales that are the same product, rounded to float32 by another program."""


def settle_products(draft: Draft) -> bool:
    """Fuse convolutions and matrix products with the DequantizeLinear before and the QuantizeLinear behind
    them, in place. Returns whether there were any."""
    opsets = {item.domain or "ai.onnx": item.version for item in draft.proto.opset_import}
    if opsets.get("ai.onnx", 0) < OLDEST_OPSET:
        return False
    found = _Products(draft).fused()
    if not found:
        return False
    graph = draft.proto.graph
    made = [found.get(node.output[0], node) if node.output else node for node in graph.node]
    replace_nodes(graph, made)
    while True:
        read = names_read(graph) | {value.name for value in graph.output}
        kept = [node for node in graph.node if any(name in read for name in node.output)]
        if len(kept) == len(graph.node):
            return True
        replace_nodes(graph, kept)


@dataclass(frozen=True)
class _Codes:
    """An 8-bit tensor, with scale and zero point as constants."""

    names: tuple[str, str, str]
    scale: np.ndarray
    point: np.ndarray
    axis: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether one scale holds for all elements."""
        return self.scale.size == 1


class _Products:
    """Finds the products of a draft that may be fused."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._graph = Neighbours(draft)

    def fused(self) -> dict[str, NodeProto]:
        """Return output of a QuantizeLinear -> the node that computes it from 8-bit tensors."""
        found: dict[str, NodeProto] = {}
        for node in self._draft.proto.graph.node:
            if _is(node, "QuantizeLinear"):
                made = self._fused(node)
                if made is not None:
                    found[node.output[0]] = made
        return found

    def _fused(self, rounding: NodeProto) -> NodeProto | None:
        result = self._codes(rounding)
        source = self._only(rounding.input[0])
        if result is None or source is None or not result.is_whole:
            return None
        if _is(source, "Relu"):
            # Saturation at the smallest code does what Relu does, if that code stands for 0.
            if int(result.point.reshape(-1)[0]) != np.iinfo(result.point.dtype).min:
                return None
            source = self._only(source.input[0])
        if source is None or not _is(source, "Conv", "MatMul"):
            return None
        left, right = (self._read(name) for name in source.input[:2])
        if left is None or right is None or not self._fits(source, left, right, result):
            return None
        inputs = [*left.names, *right.names, *result.names[1:]]
        if len(source.input) > 2 and source.input[2]:
            bias = self._bias(source.input[2], left, right)
            if not bias:
                return None
            inputs.append(bias)
        new = helper.make_node(f"QLinear{source.op_type}", inputs, list(rounding.output), name=source.name)
        new.attribute.extend(source.attribute)
        return new

    def _only(self, name: str) -> NodeProto | None:
        """Return the node that makes a tensor, if one node alone reads it."""
        maker = self._graph.makers.get(name)
        is_free = name not in self._graph.held and len(self._graph.readers.get(name, ())) == 1
        return maker if is_free else None

    def _read(self, name: str) -> _Codes | None:
        maker = self._graph.makers.get(name)
        return self._codes(maker) if maker is not None and _is(maker, "DequantizeLinear") else None

    def _codes(self, node: NodeProto) -> _Codes | None:
        """Return the 8-bit tensor of a QuantizeLinear or DequantizeLinear with constant float32 scales."""
        names = tuple(node.input)
        if len(names) < 3:
            return None
        scale, point = (self._draft.weights.get(name) for name in names[1:3])
        if scale is None or point is None or scale.dtype != np.float32 or point.dtype not in _BYTES:
            return None
        kinds = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        if kinds.get("block_size"):
            return None
        own = node.output[0] if node.op_type == "QuantizeLinear" else names[0]
        return _Codes((own, names[1], names[2]), scale, point, int(kinds.get("axis", 1)))

    def _fits(self, node: NodeProto, left: _Codes, right: _Codes, result: _Codes) -> bool:
        """Return whether QLinearConv or QLinearMatMul takes these types and scales.

        Ref: ONNX operators QLinearConv-10 and QLinearMatMul-10, and the types that ONNX Runtime has of them.
        """
        weights = self._draft.weights.get(right.names[0])
        if weights is None or not left.is_whole or left.point.dtype != result.point.dtype:
            return False
        if left.point.dtype == np.int8 and right.point.dtype != np.int8:
            return False
        if right.is_whole:
            return True
        if np.any(right.point.reshape(-1) != right.point.reshape(-1)[0]):
            return False
        axis = right.axis % weights.ndim
        return axis == 0 if node.op_type == "Conv" else weights.ndim == 2 and axis == 1

    def _bias(self, name: str, left: _Codes, right: _Codes) -> str:
        """Return the name of a bias in steps of the products, as int32; "" if it is held in other steps."""
        maker = self._graph.makers.get(name)
        if maker is None or not _is(maker, "DequantizeLinear"):
            return ""
        codes, scale = (self._draft.weights.get(each) for each in maker.input[:2])
        point = self._draft.weights.get(maker.input[2]) if len(maker.input) > 2 and maker.input[2] else None
        if codes is None or scale is None or codes.dtype != np.int32 or (point is not None and point.any()):
            return ""
        steps = left.scale.reshape(-1) * right.scale.reshape(-1)
        if not np.allclose(scale.reshape(-1), steps, rtol=_SAME_SCALE, atol=0):
            return ""
        return maker.input[0] if codes.ndim == 1 else store_weight(self._draft, name, codes.reshape(-1))


def _is(node: NodeProto, *kinds: str) -> bool:
    return node.op_type in kinds and node.domain in ("", "ai.onnx")
