"""Runs a graph in ONNX Runtime, as the reference.

A graph's `source` lacks large weights; they are passed from `Graph.constants`, without a copy if ONNX Runtime
allows it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import onnx
from onnx import TensorProto, helper, version_converter

from npuviz.base.errors import FormatError
from npuviz.onnx.draft import drawn_hint, first_line, open_hint
from npuviz.onnx.inputs import DrawnInputs
from npuviz.onnx.run_limit import limited, loop_names
from npuviz.onnx.runtime import onnxruntime
from npuviz.onnx.serialization import ELSEWHERE
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph

# Ref: ONNX Runtime 1.31, the newest operator set and file version it loads.
RUNTIME_OPSET = 26
RUNTIME_IR_VERSION = 13
MAX_KEPT_BYTES = 1 << 16
"""Largest model, in bytes, whose conversion to RUNTIME_OPSET is cached."""


def run_reference(
    graph: Graph, inputs: Mapping[str, np.ndarray], tensors: Sequence[int]
) -> dict[int, np.ndarray]:
    """Run a graph and return the values of the given tensors by id, in the given order.

    Inputs and weights are returned as given. All results are in memory at once: call it for groups of tensors
    if the model is large. Raises FormatError if ONNX Runtime refuses.
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
    """Return the names of the loops of a graph, without parsing a model that has none."""
    if b"Loop" not in graph.source:
        return []
    return list(loop_names(onnx.ModelProto.FromString(graph.source).graph))


class MissingKernelError(FormatError):
    """ONNX Runtime refused a model before it saw any values, usually for lack of a kernel for an operator
    and types."""


class ReferenceSession:
    """A graph in ONNX Runtime that may be run several times.

    tensors  to return from a run;  change  function that changes the model in place before it is loaded
    Raises MissingKernelError if ONNX Runtime refuses the model.
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
        """Run with these inputs and return the values of the tensors. Raises FormatError if the run fails."""
        try:
            with limited(self._loops) as options:
                return self._session.run(inputs, options)
        except Exception as error:
            is_missing = type(error).__name__ == "NotImplemented"
            drawn = inputs.drawn_names if isinstance(inputs, DrawnInputs) else ()
            kind = MissingKernelError if is_missing else FormatError
            raise _refused(self._graph, error, kind, drawn) from error


def _refused(
    graph: Graph, error: Exception, kind: type[FormatError], drawn: Sequence[str] = ()
) -> FormatError:
    hint = "; ".join(filter(None, (open_hint(graph.assumptions), drawn_hint(drawn))))
    return kind(graph.name or "model", field="reference run", found=first_line(error), hint=hint)


def _feed(value: np.ndarray) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"))


def boxed(value: object) -> np.ndarray:
    """Wrap a sequence, map or optional as the only element of an object array without axes."""
    box = np.empty((), np.object_)
    box[()] = value
    return box


_AS_FLOAT = "__npuviz_float32"
"""Suffix of inputs and outputs that stand in for those whose type ONNX Runtime does not exchange with
numpy."""


def _travels_as_float(dtype: str) -> bool:
    """Return whether values of a type are exchanged as float32, which holds all of them: types that numpy
    itself lacks (fewer than 8 bits, which ONNX Runtime packs; 8-bit floats; bfloat16)."""
    return numpy_dtype(dtype).isbuiltin != 1


class _Session:
    """A session of ONNX Runtime that returns the given tensors. Optimisations are off, so that all of them
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
        # A session that is kept would keep the memory of its largest run, rounded up to a power of two.
        options.enable_cpu_mem_arena = False
        # ONNX Runtime neither copies these arrays nor holds a reference to them.
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
        """Run and return the values of the tensors in their declared types. Raises the exceptions of ONNX
        Runtime."""
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
    """Replace inputs and outputs by float32 ones with Casts, under names with the suffix _AS_FLOAT, in
    place."""
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
    """Pass the large weights to ONNX Runtime. The caller must keep the result as long as the session: for an
    array that is not contiguous it holds the only copy."""
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
    """Convert a model to the newest operator set that ONNX Runtime loads."""
    return version_converter.convert_version(onnx.ModelProto.FromString(data), RUNTIME_OPSET)


@lru_cache(maxsize=16)
def _kept(data: bytes) -> bytes:
    return _convert(data).SerializeToString()


def _converted(data: bytes) -> onnx.ModelProto:
    """Convert a model as `_convert` does, with a cache for small ones, since single nodes are run many
    times."""
    return onnx.ModelProto.FromString(_kept(data))


def _for_runtime(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model in a version that ONNX Runtime loads; it is converted only if it is too new."""
    if any(opset.domain in ("", "ai.onnx") and opset.version > RUNTIME_OPSET for opset in model.opset_import):
        data = model.SerializeToString()
        model = _converted(data) if len(data) <= MAX_KEPT_BYTES else _convert(data)
    model.ir_version = min(model.ir_version, RUNTIME_IR_VERSION)
    return model
