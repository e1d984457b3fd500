"""Builds an ONNX model operator by operator."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
Choice = TypeVar("Choice")


class Value(NamedTuple):
    """A tensor of the graph. shape  for the given inputs, also if the model leaves dimensions open"""

    name: str
    shape: tuple[int, ...]


@dataclass
class Builder:
    """A graph under construction. `values` are the tensors that later operators may read, the newest last."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: list[TensorProto] = field(default_factory=list[TensorProto])
    values: list[Value] = field(default_factory=list[Value])
    inputs: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    declared: list[onnx.ValueInfoProto] = field(default_factory=list[onnx.ValueInfoProto])
    kind: int = TensorProto.FLOAT

    def input(self, array: np.ndarray, dimensions: Sequence[int | str] = ()) -> Value:
        """Add an input with its values. dimensions  sizes, or names for open ones; () for the array's
        sizes"""
        value = Value(f"x{len(self.inputs)}", array.shape)
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.declared.append(helper.make_tensor_value_info(value.name, kind, [*(dimensions or array.shape)]))
        self.inputs[value.name] = array
        if array.dtype == np.float32:
            self.values.append(value)
        return value

    def normal(self, *shape: int) -> np.ndarray:
        """Draw normal random numbers as float32."""
        return self.rng.standard_normal(shape).astype(np.float32)

    def weight(self, array: Any) -> str:
        """Add a constant. Returns its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def matrix(self, *shape: int, fan_in: int) -> str:
        """Add a weight of random numbers, scaled so that sums over fan_in products keep their magnitude."""
        return self.weight((self.normal(*shape) / np.sqrt(fan_in)).astype(np.float32))

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add an operator with one result that is not in `values`. Returns the result's name."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind}_{name}", **attributes))
        return name

    def nodes_of(self, kind: str, inputs: Sequence[str], count: int) -> list[str]:
        """Add an operator with several results. Returns their names."""
        names = [f"t{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"{kind}_{names[0]}"))
        return names

    def add(self, kind: str, inputs: Sequence[str], shape: Sequence[int], **attributes: Any) -> Value:
        """Add an operator whose result later operators may read."""
        value = Value(self.node(kind, inputs, **attributes), tuple(int(size) for size in shape))
        self.values.append(value)
        return value

    def choose(self, choices: Sequence[Choice]) -> Choice:
        """Draw one of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def recent(self) -> Value:
        """Draw one of the last four values."""
        return self.choose(self.values[-4:])

    def alike(self, value: Value) -> Value:
        """Draw a value of the same shape, possibly the same one."""
        return self.choose([other for other in self.values if other.shape == value.shape])

    def halve(self) -> None:
        """Convert all float32 tensors to fp16, except for the scales of Resize, which must be float32."""
        scales = {name for node in self.nodes if node.op_type == "Resize" for name in node.input[1:]}
        self.kind = TensorProto.FLOAT16
        limits = np.finfo(np.float16)
        for number, weight in enumerate(self.weights):
            array = numpy_helper.to_array(weight)
            if array.dtype == np.float32 and weight.name not in scales:
                low = np.where(np.isfinite(array), array.clip(limits.min, limits.max), array)
                self.weights[number] = numpy_helper.from_array(low.astype(np.float16), weight.name)
        for value in self.declared:
            array = self.inputs[value.name]
            if array.dtype == np.float32:
                self.inputs[value.name] = array.astype(np.float16)
                value.type.tensor_type.elem_type = TensorProto.FLOAT16

    def model(self) -> onnx.ModelProto:
        """Make the model and check it; values that nothing reads are its outputs. Raises
        onnx.checker.ValidationError."""
        read = {name for node in self.nodes for name in node.input} | set(self.inputs)
        ends = [value for value in self.values if value.name not in read]
        outputs = [
            helper.make_tensor_value_info(end.name, self.kind, [None] * len(end.shape)) for end in ends
        ]
        graph = helper.make_graph(self.nodes, "random", self.declared, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(inferred)
        return inferred
