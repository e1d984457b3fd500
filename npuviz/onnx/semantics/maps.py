"""Maps from classes to numbers, which classifiers of scikit-learn and LightGBM put out: only the numbers are
computed, as a tensor."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from npuviz.base.errors import FormatError
from npuviz.onnx.node_order import names_read
from npuviz.onnx.parameters import subgraphs

CLASSIC = "ai.onnx.ml"
"""The domain of operators on tables."""
_LABELS = ("classlabels_int64s", "classlabels_strings")


def take_out_maps(path: Path, graph: onnx.GraphProto) -> list[str]:
    """Replace each ZipMap whose result is an output of the model with the tensor that it reads, in place.

    Returns an assumption for each. Raises FormatError for any other map.
    """
    read = {name for node in graph.node for name in node.input}
    read = read.union(*(names_read(inner) for node in graph.node for inner in subgraphs(node)))
    outputs = {value.name: value for value in graph.output}
    found: list[str] = []
    for node in graph.node:
        if not _is_zip_map(node) or node.output[0] not in outputs or node.output[0] in read:
            continue
        name = node.output[0]
        outputs[name].type.Clear()
        outputs[name].type.tensor_type.elem_type = TensorProto.FLOAT
        node.CopyFrom(helper.make_node("Identity", node.input[:1], [name], name=node.name))
        found.append(f"output {name} is a map from classes to numbers: the numbers are computed, as a tensor")
    for where, values in (("input", graph.input), ("output", graph.output), ("tensor", graph.value_info)):
        for value in values:
            if _holds_map(value.type):
                raise FormatError(
                    path,
                    field=f"{where} {value.name}",
                    expected="tensors, sequences or optionals",
                    found="a map of keys and values",
                    hint="remove the operator around it (scikit-learn: options={'zipmap': False})",
                )
    return found


def numbers_of(graph: onnx.GraphProto, name: str, value: Any) -> np.ndarray:
    """Return an output of ONNX Runtime as an array: the numbers of a map by the classes of its ZipMap."""
    labels = next((_labels(node) for node in graph.node if _is_zip_map(node) and node.output[0] == name), ())
    if not labels or not isinstance(value, list):
        return np.asarray(value)
    rows: Iterable[dict[Any, float]] = value
    return np.array([[row[label] for label in labels] for row in rows], np.float32)


def _is_zip_map(node: onnx.NodeProto) -> bool:
    return node.op_type == "ZipMap" and node.domain == CLASSIC


def _labels(node: onnx.NodeProto) -> Sequence[Any]:
    found: Iterator[Any] = (
        helper.get_attribute_value(item) for item in node.attribute if item.name in _LABELS
    )
    labels = next(found, ())
    return [label.decode() if isinstance(label, bytes) else label for label in labels]


def _holds_map(kind: onnx.TypeProto) -> bool:
    """Return whether a type is a map, or a sequence or optional of such."""
    if kind.HasField("map_type"):
        return True
    if kind.HasField("sequence_type"):
        return _holds_map(kind.sequence_type.elem_type)
    return kind.HasField("optional_type") and _holds_map(kind.optional_type.elem_type)
