"""Reference execution of a graph in ONNX Runtime.

A graph's `source` leaves large weights out; here they come back from `Graph.constants`, without a
copy where ONNX Runtime allows it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import onnx
from onnx import TensorProto, helper, version_converter

from npuviz.base.errors import FormatError
from npuviz.onnx.draft import first_line, open_hint
from npuviz.onnx.run_limit import limited, loop_names
from npuviz.onnx.runtime import onnxruntime
from npuviz.onnx.serialization import ELSEWHERE
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph

# Ref: ONNX Runtime 1.31, the newest operator set and file version it loads.
RUNTIME_OPSET = 26
RUNTIME_IR_VERSION = 13
MAX_KEPT_BYTES = 1 << 16
"""Largest model whose conversion to that version is kept."""


def run_reference(
    graph: Graph, inputs: Mapping[str, np.ndarray], tensors: Sequence[int]
) -> dict[int, np.ndarray]:
    """Values of the given tensors for these inputs, by tensor id, in the order asked for.

    Inputs and weights may be asked for too and are returned as given. All results are in memory at
    once: ask in groups when the model is large. Raises FormatError when ONNX Runtime refuses.
    """
    given = {tensor: inputs[graph.tensors[tensor].name] for tensor in graph.inputs}
    found = {tensor: given.get(tensor, graph.constants.get(tensor)) for tensor in tensors}
    wanted = [tensor for tensor, value in found.items() if value is None]
    results = {tensor: value for tensor, value in found.items() if value is not None}
    if not wanted:
        return results
    session = ReferenceSession(graph, wanted)
    values = session.run({graph.tensors[tensor].name: value for tensor, value in given.items()})
    results.update(zip(wanted, values, strict=True))
    return {tensor: results[tensor] for tensor in tensors}


def _loops(graph: Graph) -> list[str]:
    """Names of loops that the graph runs; a model without any is not taken apart again."""
    if b"Loop" not in graph.source:
        return []
    return list(loop_names(onnx.ModelProto.FromString(graph.source).graph))


class MissingKernelError(FormatError):
    """ONNX Runtime has no kernel for an operator and these types; it did not look at any values."""


class ReferenceSession:
    """A graph in ONNX Runtime that may be run several times.

    tensors  what a run returns;  change  made to the model before it is opened, in place
    Raises MissingKernelError when ONNX Runtime refuses the model.
    """

    def __init__(
        self,
        graph: Graph,
        tensors: Sequence[int],
        change: Callable[[onnx.ModelProto], None] | None = None,
    ) -> None:
        self._graph = graph
        self._loops = _loops(graph)
        self._session = _Session(graph, tensors, change)

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Values of the tensors for these inputs. Raises FormatError when the run fails."""
        try:
            with limited(self._loops) as options:
                return self._session.run(inputs, options)
        except Exception as error:
            is_missing = type(error).__name__ == "NotImplemented"
            raise _refused(self._graph, error, MissingKernelError if is_missing else FormatError) from error


def _refused(graph: Graph, error: Exception, kind: type[FormatError]) -> FormatError:
    hint = open_hint(graph.assumptions)
    return kind(graph.name or "model", field="reference run", found=first_line(error), hint=hint)


def _feed(value: np.ndarray) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"))


def boxed(value: object) -> np.ndarray:
    """A sequence, map or optional as the one element, of type object, of an array without axes."""
    box = np.empty((), np.object_)
    box[()] = value
    return box


_AS_FLOAT = "__npuviz_float32"
"""What the names end with under which values go in and out that ONNX Runtime does not exchange."""


def _travels_as_float(dtype: str) -> bool:
    """Whether numbers of a type go in and out as float32, which holds all of them: those that numpy has
    not itself (fewer than 8 bits, which ONNX Runtime packs; 8-bit floats; bfloat16)."""
    return numpy_dtype(dtype).isbuiltin != 1


class _Session:
    """A graph in ONNX Runtime that also returns the given tensors. Nothing is optimised, so that all of them
    exist."""

    def __init__(
        self,
        graph: Graph,
        tensors: Sequence[int],
        change: Callable[[onnx.ModelProto], None] | None = None,
    ) -> None:
        if not graph.source:
            raise FormatError(graph.name or "model", found="no ONNX model behind this graph")
        model = onnx.ModelProto.FromString(graph.source)
        if change is not None:
            change(model)
        read = [graph.tensors[tensor] for tensor in tensors]
        present = {value.name for value in model.graph.output}
        for held in sorted(set(read), key=lambda each: each.id):
            if held.name not in present:
                model.graph.output.append(onnx.ValueInfoProto(name=held.name))
        self._narrow = {
            graph.tensors[tensor].name
            for tensor in graph.inputs
            if _travels_as_float(graph.tensors[tensor].dtype)
        }
        self._names = [each.name for each in read]
        self._types = [each.dtype for each in read]
        self._has_objects = any(
            each.dtype in ("string", "opaque") for each in (*read, *(graph.tensors[i] for i in graph.inputs))
        )
        _exchange_as_float(model, self._narrow, [each.name for each in read if _travels_as_float(each.dtype)])
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # ONNX Runtime does not copy them, nor keep what it was given alive.
        self._weights = _return_weights(graph, model, options)
        try:
            model = _for_runtime(model)
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise _refused(graph, error, MissingKernelError) from error

    def run(
        self, inputs: Mapping[str, np.ndarray], options: onnxruntime.RunOptions | None = None
    ) -> list[np.ndarray]:
        """Values of the tensors, in their declared types. Raises what ONNX Runtime raises."""
        given = {
            name + _AS_FLOAT if name in self._narrow else name: (
                value.astype(np.float32) if name in self._narrow else value
            )
            for name, value in inputs.items()
        }
        names = [
            name + _AS_FLOAT if _travels_as_float(dtype) else name
            for name, dtype in zip(self._names, self._types, strict=True)
        ]
        if self._has_objects:
            found = self._session.run(names, given, options)
            pairs = zip(found, self._types, strict=True)
            values = [boxed(value) if dtype == "opaque" else np.asarray(value) for value, dtype in pairs]
        else:
            feeds = {name: _feed(value) for name, value in given.items()}
            values = [value.numpy() for value in self._session.run_with_ort_values(names, feeds, options)]
        return [
            value.astype(numpy_dtype(dtype)) if _travels_as_float(dtype) else value
            for value, dtype in zip(values, self._types, strict=True)
        ]


def _exchange_as_float(model: onnx.ModelProto, inputs: Collection[str], outputs: Iterable[str]) -> None:
    """Let inputs of these names come in, and tensors of these go out, as float32 under names of their own."""
    graph = model.graph
    before: list[onnx.NodeProto] = []
    for value in graph.input:
        if value.name in inputs:
            kind, name = value.type.tensor_type.elem_type, value.name
            value.name, value.type.tensor_type.elem_type = name + _AS_FLOAT, TensorProto.FLOAT
            cast = helper.make_node("Cast", [value.name], [name], to=kind)
            if "FLOAT8" in TensorProto.DataType.Name(kind):
                cast.attribute.append(helper.make_attribute("saturate", 0))
            before.append(cast)
    after: list[onnx.NodeProto] = []
    for name in dict.fromkeys(outputs):
        after.append(helper.make_node("Cast", [name], [name + _AS_FLOAT], to=TensorProto.FLOAT))
        graph.output.append(onnx.ValueInfoProto(name=name + _AS_FLOAT))
        kept = [value for value in graph.output if value.name != name]
        del graph.output[:]
        graph.output.extend(kept)
    if before or after:
        nodes = [*before, *graph.node, *after]
        del graph.node[:]
        graph.node.extend(nodes)
        if not any(opset.domain in ("", "ai.onnx") for opset in model.opset_import):
            model.opset_import.append(helper.make_opsetid("", RUNTIME_OPSET))


def _return_weights(
    graph: Graph, model: onnx.ModelProto, options: onnxruntime.SessionOptions
) -> list[onnxruntime.OrtValue]:
    """Give a model its large weights back. The result must live as long as the session: of an array whose
    elements are not in order it holds the only copy."""
    names: list[str] = []
    values: list[onnxruntime.OrtValue] = []
    by_name = {graph.tensors[tensor].name: array for tensor, array in graph.constants.items()}
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL and tensor.external_data[0].value == ELSEWHERE:
            names.append(tensor.name)
            values.append(_feed(by_name[tensor.name]))
    if names:
        options.add_external_initializers(names, values)
    return values


def _convert(data: bytes) -> onnx.ModelProto:
    """A model in the newest version that ONNX Runtime loads."""
    return version_converter.convert_version(onnx.ModelProto.FromString(data), RUNTIME_OPSET)


@lru_cache(maxsize=16)
def _kept(data: bytes) -> bytes:
    return _convert(data).SerializeToString()


def _converted(data: bytes) -> onnx.ModelProto:
    """As `_convert`, for small models once: a node is run many times for a matrix, each time anew."""
    return onnx.ModelProto.FromString(_kept(data))


def _for_runtime(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a version that ONNX Runtime loads; converted only when it is too new."""
    if any(opset.domain in ("", "ai.onnx") and opset.version > RUNTIME_OPSET for opset in model.opset_import):
        data = model.SerializeToString()
        model = _converted(data) if len(data) <= MAX_KEPT_BYTES else _convert(data)
    model.ir_version = min(model.ir_version, RUNTIME_IR_VERSION)
    return model
