"""Runs the unchanged file, to check that reading and rewriting have not changed the model's outputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from npuviz.base.errors import FormatError
from npuviz.onnx.check.decisions import is_close_call
from npuviz.onnx.check.exact import exact_values
from npuviz.onnx.check.growth import LARGEST_SHARE, SAFETY, Allowed, Precision, allowed_errors
from npuviz.onnx.check.records import Deviation, float_deviation, integer_deviation
from npuviz.onnx.check.references import References
from npuviz.onnx.draft import first_line
from npuviz.onnx.passes.dynamic_products import NOT_ROUNDED
from npuviz.onnx.reference import RUNTIME_OPSET
from npuviz.onnx.run_limit import limited, loop_names
from npuviz.onnx.runtime import onnxruntime
from npuviz.onnx.semantics.accuracy_levels import clear_levels
from npuviz.onnx.semantics.maps import numbers_of
from npuviz.onnx.semantics.operators import holds_requantized
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph


def outputs_of_file(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[int, np.ndarray]:
    """Run the file in ONNX Runtime and return the values of the graph's outputs by tensor id.

    Graph optimisations are off, and products are computed in the types of the file, not coarser where their
    accuracy_level allows it. Raises FormatError with the reason if the file cannot be run.
    """
    path = graph.file
    if path is None or not path.is_file():
        raise FormatError(path or graph.name, found="the file is not there")
    tensors = [graph.tensors[index] for index in (*graph.inputs, *graph.outputs)]
    strange = [each.dtype for each in tensors if numpy_dtype(each.dtype).isbuiltin != 1]
    if strange:
        raise FormatError(path, found=f"{strange[0]} does not go in or out of ONNX Runtime")
    try:
        model = onnx.load(path, load_external_data=False)
        versions = [each.version for each in model.opset_import if each.domain in ("", "ai.onnx")]
        if max(versions, default=0) > RUNTIME_OPSET:
            raise ValueError(f"operator set {max(versions)} is newer than ONNX Runtime's {RUNTIME_OPSET}")
        session = _session(path, model if clear_levels(model.graph) else None)
        wanted = {value.name for value in session.get_inputs()}
        feeds = {name: np.asarray(inputs[name], order="C") for name in inputs if name in wanted}
        names = [graph.tensors[index].name for index in graph.outputs]
        with limited(list(loop_names(model.graph))) as options:
            values = session.run(names, feeds, options)
    except Exception as error:  # of ONNX Runtime, protobuf and ONNX
        raise FormatError(path, found=first_line(error)) from error
    arrays = [numbers_of(model.graph, *pair) for pair in zip(names, values, strict=True)]
    return dict(zip(graph.outputs, arrays, strict=True))


def leaves_out_roundings(graph: Graph) -> bool:
    """Return whether products of the graph read operands unrounded that the file rounds to 8 bits."""
    return any(NOT_ROUNDED in text for text in graph.assumptions)


def other_outputs(
    graph: Graph, references: References, outputs: Sequence[int], values: Mapping[int, np.ndarray]
) -> Iterator[tuple[int, str]]:
    """Yield the outputs of the graph, run in ONNX Runtime, that differ from those of the file, with a
    description.

    values  of the file. Fused operators may round differently, within the tolerance of types and depth. A
    graph
    that leaves out roundings to 8 bits gets the largest tolerance, LARGEST_SHARE
    """
    allowed = allowed_errors(graph, Precision(lambda index: graph.tensors[index].dtype))
    if leaves_out_roundings(graph):
        allowed = [replace(each, share=max(each.share, LARGEST_SHARE)) for each in allowed]
    for index in outputs:
        wanted, found = values[index], references.get(index)
        if found.shape != wanted.shape:
            yield (
                index,
                f"has shape {found.shape} in the graph that was compiled and {wanted.shape} in the file",
            )
            continue
        deviation = _deviation(graph, references, index, wanted.reshape(-1), allowed)
        if deviation.is_beyond or deviation.is_lost:
            text = f"of the graph that was compiled is off by {deviation.text} from what the file puts out"
            yield index, text


def _deviation(
    graph: Graph, references: References, tensor: int, wanted: np.ndarray, allowed: Sequence[Allowed]
) -> Deviation:
    held = references.get(tensor)
    found = held.reshape(-1)
    share, least = allowed[tensor].share, allowed[tensor].absolute
    if wanted.dtype.kind in "fc":
        whole = float_deviation(found, wanted, share, least)
        return whole.as_uncertain() if _is_coarse(graph, references, tensor, whole) else whole
    if wanted.dtype.kind not in "iub":
        return Deviation(0.0, 0.0, not np.array_equal(found, wanted))
    steps = max(1.0, share * 256) if holds_requantized(graph, tensor) else 0.0
    whole = integer_deviation(found, wanted, steps)
    if not whole.is_beyond or steps:
        return whole
    read = [index for index in graph.nodes[graph.tensors[tensor].producer].inputs if index >= 0]
    before = max((allowed[index].share for index in read), default=0.0)
    is_choice = is_close_call(
        graph, tensor, wanted.reshape(held.shape), [references.get(index) for index in read], before
    )
    return whole.as_choice() if is_choice else whole


def _is_coarse(graph: Graph, references: References, tensor: int, deviation: Deviation) -> bool:
    """Return whether the graph's own error against float64 is about as large as its difference from the
    file."""
    if not deviation.is_beyond or deviation.is_lost:
        return False
    found = references.get(tensor).reshape(-1)
    exact = dict(exact_values(graph, references.inputs, [tensor])).get(tensor)
    if exact is None or exact.size != found.size:
        return False
    own = float_deviation(found, exact.reshape(-1), 0.0)
    return bool(np.isfinite(own.absolute)) and deviation.absolute <= SAFETY * own.absolute


def _session(path: Path, changed: onnx.ModelProto | None) -> onnxruntime.InferenceSession:
    """Open a file. changed  run in its place, with the weights that lie beside the file"""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    source: str | bytes = str(path)
    if changed is not None:
        folder = _locate_weights(path, changed.graph)
        source = changed.SerializeToString()
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def _locate_weights(path: Path, graph: onnx.GraphProto) -> Path:
    """Name the files of external data by their real names, behind links, and return their folder."""
    folder = path.parent.resolve()
    places = [entry for each in graph.initializer for entry in each.external_data if entry.key == "location"]
    real = [(path.parent / entry.value).resolve() for entry in places]
    if len({file.parent for file in real}) == 1:
        folder = real[0].parent
        for entry, file in zip(places, real, strict=True):
            entry.value = file.name
    return folder
