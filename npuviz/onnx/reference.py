"""Reference execution of a graph in ONNX Runtime.

A graph's `source` leaves large weights out; here they come back from `Graph.constants`, without a
copy where ONNX Runtime allows it.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, version_converter

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


def run_reference(
    graph: Graph, inputs: Mapping[str, np.ndarray], tensors: Sequence[int], *, threads: int = 1
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
    session = _open(graph, wanted, threads)
    names = [graph.tensors[tensor].name for tensor in wanted]
    arrays = {graph.tensors[tensor].name: value for tensor, value in given.items()}
    has_objects = any(graph.tensors[tensor].dtype in ("string", "opaque") for tensor in (*given, *wanted))
    try:
        with limited(_loops(graph)) as options:
            if has_objects:
                values = [np.asarray(value) for value in session.run(names, arrays, options)]
            else:
                feeds = {name: _feed(value) for name, value in arrays.items()}
                values = [value.numpy() for value in session.run_with_ort_values(names, feeds, options)]
    except Exception as error:
        raise _refused(graph, error) from error
    results.update(zip(wanted, values, strict=True))
    return {tensor: results[tensor] for tensor in tensors}


def _loops(graph: Graph) -> list[str]:
    """Names of loops that the graph runs; a model without any is not taken apart again."""
    if b"Loop" not in graph.source:
        return []
    return list(loop_names(onnx.ModelProto.FromString(graph.source).graph))


class ReferenceSession:
    """A graph in ONNX Runtime that is run several times.

    tensors  what a run returns;  change  made to the model before it is opened, in place
    Raises FormatError when ONNX Runtime refuses the model.
    """

    def __init__(
        self, graph: Graph, tensors: Sequence[int], change: Callable[[onnx.ModelProto], None] | None = None
    ) -> None:
        self._graph = graph
        self._names = [graph.tensors[tensor].name for tensor in tensors]
        self._session = _open(graph, tensors, 1, change)

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Values of the tensors for these inputs. Raises FormatError when ONNX Runtime refuses."""
        try:
            feeds = {name: _feed(value) for name, value in inputs.items()}
            return [value.numpy() for value in self._session.run_with_ort_values(self._names, feeds)]
        except Exception as error:
            raise _refused(self._graph, error) from error


def _refused(graph: Graph, error: Exception) -> FormatError:
    hint = open_hint(graph.assumptions)
    return FormatError(graph.name or "model", field="reference run", found=first_line(error), hint=hint)


def as_declared(values: np.ndarray, name: str) -> np.ndarray:
    """Values in their declared type; ONNX Runtime hands out 8-bit floats as their raw bytes."""
    is_raw = values.dtype == np.uint8 and name.startswith("float8")
    return values.view(numpy_dtype(name)) if is_raw else values


def _feed(value: np.ndarray) -> onnxruntime.OrtValue:
    data = np.asarray(value, order="C")
    if data.dtype.isbuiltin == 1:
        return onnxruntime.OrtValue.ortvalue_from_numpy(data)
    kind = onnx.helper.np_dtype_to_tensor_dtype(data.dtype)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(data, kind)


def _open(
    graph: Graph,
    tensors: Sequence[int],
    threads: int,
    change: Callable[[onnx.ModelProto], None] | None = None,
) -> onnxruntime.InferenceSession:
    """A session that also returns the given tensors. Nothing is optimised, so that all of them exist."""
    if not graph.source:
        raise FormatError(graph.name or "model", found="no ONNX model behind this graph")
    model = onnx.ModelProto.FromString(graph.source)
    if change is not None:
        change(model)
    present = {value.name for value in model.graph.output}
    for tensor in sorted(set(tensors)):
        name = graph.tensors[tensor].name
        if name not in present:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    _return_weights(graph, model, options)
    try:
        model = _for_runtime(model)
        return onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        raise _refused(graph, error) from error


def _return_weights(graph: Graph, model: onnx.ModelProto, options: onnxruntime.SessionOptions) -> None:
    names: list[str] = []
    values: list[onnxruntime.OrtValue] = []
    by_name = {graph.tensors[tensor].name: array for tensor, array in graph.constants.items()}
    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL and tensor.external_data[0].value == ELSEWHERE:
            names.append(tensor.name)
            values.append(_feed(by_name[tensor.name]))
    if names:
        options.add_external_initializers(names, values)


def _for_runtime(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a version that ONNX Runtime loads; converted only when it is too new."""
    if any(opset.domain in ("", "ai.onnx") and opset.version > RUNTIME_OPSET for opset in model.opset_import):
        model = version_converter.convert_version(model, RUNTIME_OPSET)
    model.ir_version = min(model.ir_version, RUNTIME_IR_VERSION)
    return model
