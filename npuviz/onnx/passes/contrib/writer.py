"""Builds the nodes that replace an operator."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper

from npuviz.onnx.model_form import AS_IT_IS, ModelForm

TypeAndShape = tuple[int, tuple[int, ...]]
LISTS_ARE_INPUTS = 13
"""The first operator set in which sizes of Split and axes of Unsqueeze are inputs instead of attributes."""
MASKED = -30000.0
"""Added to a masked score: far below any score, and within the range of fp16."""


class CannotWrite(Exception):
    """The operator cannot be rewritten in this form; it stays as it is."""


class Writer:
    """Builds the nodes that replace operators of one model.

    nodes    new nodes in order, since the last `begin`
    weights  constants that they read, by name; of all nodes so far
    opset    version of the standard's operator set
    only_new_rows  whether operators return only the new rows of a cache
    form     what the machine asks for
    """

    def __init__(
        self,
        types: Mapping[str, TypeAndShape],
        constants: Mapping[str, np.ndarray],
        opset: int,
        makers: Mapping[str, NodeProto],
    ) -> None:
        self._types = types
        self._makers = makers
        self.opset = opset
        self._constants = constants
        self._shared: dict[tuple[Any, ...], str] = {}
        self._before: dict[tuple[Any, ...], str] = {}
        self._node = NodeProto()
        self._attributes: dict[str, Any] = {}
        self._count = 0
        self.only_new_rows = False
        self.form: ModelForm = AS_IT_IS
        self.name = ""
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}

    def begin(self, node: NodeProto, name: str) -> None:
        """Start to replace the next node; `name` is the prefix of new names."""
        self._node = node
        self._attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        self.name = name
        self._count = 0
        self._before = dict(self._shared)
        self.nodes = []

    def abandon(self) -> None:
        """Discard the tensors that the current node shared, since it is not replaced."""
        self._shared = self._before

    def given(self, position: int) -> str:
        """Return the name of an input of the operator, "" if it is absent."""
        return self._node.input[position] if position < len(self._node.input) else ""

    def wanted(self, position: int) -> str:
        """Return the name of a result of the operator, "" if it is absent."""
        return self._node.output[position] if position < len(self._node.output) else ""

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute of the operator."""
        return self._attributes.get(name, default)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor of the model. Raises CannotWrite if it is unknown."""
        if name not in self._types:
            raise CannotWrite
        return self._types[name][1]

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the element type of a tensor of the model. Raises CannotWrite if it is unknown."""
        if name not in self._types:
            raise CannotWrite
        return helper.tensor_dtype_to_np_dtype(self._types[name][0])

    def known(self, name: str) -> np.ndarray:
        """Return the values of a constant. Raises CannotWrite for a computed tensor."""
        if name not in self._constants:
            raise CannotWrite
        return np.asarray(self._constants[name])

    def is_known(self, name: str) -> bool:
        """Return whether a tensor is a constant."""
        return name in self._constants

    def maker(self, name: str) -> NodeProto | None:
        """Return the model's node that makes a tensor, None if there is none."""
        return self._makers.get(name)

    def constant(self, name: str, values: Any) -> str:
        """Store a constant for the new nodes. Returns its full name."""
        full = f"{self.name}/{name}"
        self.weights[full] = np.ascontiguousarray(values) if np.ndim(values) else np.asarray(values)
        return full

    def shared(self, key: tuple[Any, ...]) -> str:
        """Return the name of the tensor that was shared under a key, "" if there is none."""
        return self._shared.get(key, "")

    def share(self, key: tuple[Any, ...], name: str) -> str:
        """Share a tensor under a key with later nodes that need the same one. Returns its name."""
        self._shared[key] = name
        return name

    def add(self, op_type: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add a node with one result. Returns the name of the result."""
        return self.add_many(op_type, inputs, [output], **attributes)[0]

    def add_many(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> list[str]:
        """Add a node. Returns the names of its results; empty names are generated."""
        label = f"{self.name}/{op_type}_{self._count}"
        self._count += 1
        names = [name or f"{label}_{number}" for number, name in enumerate(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=label, **attributes))
        return names

    def reshape(self, name: str, shape: Sequence[int], output: str = "") -> str:
        """Reshape a tensor."""
        text = "x".join(map(str, shape))
        return self.add("Reshape", [name, self.constant(f"shape_{text}", np.array(shape, np.int64))], output)

    def cast(self, name: str, dtype: np.dtype[Any] | type) -> str:
        """Cast a tensor to another element type."""
        return self.add("Cast", [name], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def widened(self, name: str, axes: Sequence[int]) -> str:
        """Insert axes of size 1 into a tensor, at these positions of the result."""
        if self.opset < LISTS_ARE_INPUTS:
            return self.add("Unsqueeze", [name], axes=list(axes))
        text = "_".join(map(str, axes))
        return self.add("Unsqueeze", [name, self.constant(f"axes_{text}", np.array(axes, np.int64))])

    def split(self, name: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Split a tensor along an axis."""
        if len(sizes) == 1:
            return [name]
        if self.opset < LISTS_ARE_INPUTS:
            return self.add_many("Split", [name], [""] * len(sizes), axis=axis, split=list(sizes))
        text = "_".join(map(str, sizes))
        parts = self.constant(f"parts_{text}", np.array(sizes, np.int64))
        return self.add_many("Split", [name, parts], [""] * len(sizes), axis=axis)


def standard(node: NodeProto) -> bool:
    """Return whether a node is of the standard's operator set."""
    return node.domain in ("", "ai.onnx")


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the standard's operator set, 0 if the model has none."""
    return next((item.version for item in model.opset_import if item.domain in ("", "ai.onnx")), 0)
