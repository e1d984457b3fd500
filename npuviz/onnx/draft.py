"""Splits an ONNX file into a light ModelProto without weights, and the weights as arrays.

Library calls that serialise the model (checker, shape inference) then take time for the structure only, and
the 2 GiB limit of protobuf does not apply to the weights. Weights of an external-data file are mapped, not
read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.version_converter
from google.protobuf.message import DecodeError, Message
from onnx import TensorProto

from npuviz.base.errors import FormatError
from npuviz.base.names import echo
from npuviz.base.reading import reading
from npuviz.base.standard_output import printed_to_stderr
from npuviz.formats.binary import file_size, read_file
from npuviz.onnx.node_order import sort_nodes
from npuviz.onnx.parameters import subgraphs
from npuviz.onnx.plain_nodes import write_plainly
from npuviz.onnx.runtime_operators import learn_operators, standard_version, undefined_operator
from npuviz.onnx.semantics.long_lists import take_out_lists
from npuviz.onnx.semantics.maps import take_out_maps
from npuviz.onnx.stored_tensors import densify, tensor_array

# Protobuf cannot hold more in one message.
MAX_MODEL_BYTES = (1 << 31) - 1
MAX_NODES = 1 << 22
# Older operator sets are converted to this one.
OLDEST_OPSET = 7
# From this version of files on, weights need not be inputs.
LOOSE_IR_VERSION = 4
# Weights up to this size stay in the light model, where shape inference can read their values.
KEPT_WEIGHT_BYTES = 1024
_MISREAD_DEFAULTS: Mapping[tuple[str, str], Mapping[str, int]] = {("", "STFT"): {"onesided": 1}}
"""(domain, operator) -> attributes whose default ONNX's shape inference gets wrong: for STFT it assumes all
frequencies, while the standard, its evaluator and ONNX Runtime make half of them."""


@dataclass
class Draft:
    """A model between the file and the graph.

    proto        the structure; weights above KEPT_WEIGHT_BYTES appear as graph inputs only
    weights      initialiser name -> array, in the order of the file; small ones are also in `proto`
    assumptions  assumptions made while reading, one sentence each
    lists        long lists of attributes, of which `proto` has the first elements (`semantics.long_lists`)
    """

    path: Path
    proto: onnx.ModelProto
    weights: dict[str, np.ndarray]
    assumptions: list[str] = field(default_factory=list[str])
    lists: tuple[onnx.AttributeProto, ...] = ()


_SORTED = (
    "nodes of the file stand before what they read, which ONNX forbids and runtimes take: they were sorted"
)
EXPORT_AGAIN = "export the model with operators of the standard"
OF_A_RUN = " of a run with these inputs"
"""End of assumptions that hold for the inputs of one run only."""
_FAILED_NODE = re.compile(r"while running (\S+) node\. Name:'([^']*)' Status Message: ")
_RUNTIME_WORDS = re.compile(
    r"(\S*pybind11_state\.\w+: )?\[ONNXRuntimeError\] : \d+ : \w+ : |/\S+/onnxruntime_src/\S+ "
)
_UNREGISTERED = re.compile(r"^(Fatal error: )?([\w.]*):(\w+)\(-?\d+\) is not a registered function/op$")
_LOADED_FILE = re.compile(r"^Load model from \S+ failed:\s*")
_ASSUMED_ONE = "is open in the model: 1 assumed"


def is_of_one_run(assumptions: Iterable[str]) -> bool:
    """Return whether shapes, branches or iterations are those of one run's inputs."""
    return any(OF_A_RUN in text for text in assumptions)


def other_shape(found: Sequence[int], expected: Sequence[int], assumptions: Iterable[str]) -> str:
    """Write the message about a result of another shape than the graph's; where values determine sizes, it
    says that rounding on the machine may have led to other sizes."""
    text = f"the result has shape {tuple(found)}, expected {tuple(expected)}"
    if not is_of_one_run(assumptions):
        return text
    return (
        f"{text}: values decide about sizes here, and the machine's rounding led to other ones; compute in a "
        "wider type, give other inputs, or cut the model in front of this operator"
    )


def assumed_one(dimension: str) -> str:
    """Write the assumption about a dimension that was not set."""
    return f"dimension {dimension} {_ASSUMED_ONE}, set it with --set {dimension}=N"


def open_hint(assumptions: Sequence[str]) -> str:
    """Write the hint for a model that does not run: set the assumed dimensions; "" if none were assumed."""
    names = [text.split()[1] for text in assumptions if _ASSUMED_ONE in text]
    if not names:
        return ""
    return f"it was run with 1 for what nobody set: --set {' --set '.join(f'{name}=N' for name in names[:8])}"


def drawn_hint(names: Sequence[str]) -> str:
    """Write the hint for a model that does not run: give the inputs that were drawn at random; "" if none
    were."""
    if not names:
        return ""
    more = f" (and {len(names) - 4} more)" if len(names) > 4 else ""
    files = " ".join(f"--input {echo(name)}=FILE.npy" for name in names[:4])
    return f"its inputs were random numbers, give those that it expects: {files}{more}"


def first_line(error: BaseException) -> str:
    """Return the first non-empty line of an error's text, at most 200 characters."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return runtime_message(lines[0] if lines else type(error).__name__)


def runtime_message(text: str) -> str:
    """Shorten a message of ONNX Runtime to the innermost node that failed and why, at most 200 characters: it
    names the nodes around first, each with the status of the next one inside."""
    failed = list(_FAILED_NODE.finditer(text))
    if failed:
        operator, name = failed[-1].groups()
        text = f"{operator} {name}: {text[failed[-1].end() :]}"
    text = _LOADED_FILE.sub("", _RUNTIME_WORDS.sub("", text))
    unregistered = _UNREGISTERED.match(text)
    if unregistered:
        _, domain, operator = unregistered.groups()
        return f"ONNX Runtime has no operator {domain}.{operator}: {EXPORT_AGAIN}"
    return text if len(text) <= 200 else text[:199] + "\u2026"


def is_kept(array: np.ndarray) -> bool:
    """Return whether a weight stays in the structure: it is small, or text, which numpy holds as objects."""
    return array.nbytes <= KEPT_WEIGHT_BYTES or array.dtype.hasobject


def declare_weight(graph: onnx.GraphProto, name: str, array: np.ndarray) -> None:
    """Declare a weight in a light model: with its values if it is small, else as an input."""
    if is_kept(array):
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(array), name))
    else:
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, list(array.shape)))


def read_draft(path: Path) -> Draft:
    """Read and check a model file; symbolic dimensions are still open."""
    if file_size(path) == 0:
        raise FormatError(path, expected="an ONNX model", found="an empty file")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(read_file(path, MAX_MODEL_BYTES))
    except DecodeError:
        raise FormatError(
            path, expected="an ONNX model", found="bytes that are not one", hint="the file may be cut off"
        ) from None
    if not proto.HasField("graph"):
        raise FormatError(path, expected="an ONNX model", found="no graph in it")
    if len(proto.graph.node) > MAX_NODES:
        raise FormatError(path, expected=f"at most {MAX_NODES} nodes", found=str(len(proto.graph.node)))
    lists = take_out_lists(proto.graph)
    _check_texts(path, proto, "model")
    _check_versions(path, proto)
    was_unsorted = sum(sort_nodes(graph) for graph in (proto.graph, *proto.functions)) > 0
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        write_plainly(path, nodes)
    proto = _modernise(path, proto)
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        _write_defaults(nodes)
    of_maps = take_out_maps(path, proto.graph)
    draft = Draft(path, proto, {}, [*([_SORTED] if was_unsorted else []), *of_maps], lists)
    with reading(path, "initializers"):
        _take_out_weights(draft)
    with reading(path, "structure"):
        learn_operators(proto)
        _refuse_unknown(path, proto)
        _check_structure(proto)
    return draft


def _write_defaults(nodes: Iterable[onnx.NodeProto]) -> None:
    """Write out defaults that ONNX's shape inference gets wrong, also in subgraphs."""
    for node in nodes:
        given = {attribute.name for attribute in node.attribute}
        for name, value in _MISREAD_DEFAULTS.get((node.domain, node.op_type), {}).items():
            if name not in given:
                node.attribute.append(onnx.helper.make_attribute(name, value))
        for body in subgraphs(node):
            _write_defaults(body.node)


def _check_texts(path: Path, message: Message, where: str) -> None:
    """Raise FormatError for text that is not UTF-8, which protobuf returns as bytes that other libraries
    reject."""
    for kind, value in message.ListFields():
        if kind.type == kind.TYPE_STRING:
            for text in (value,) if isinstance(value, str | bytes) else value:
                if isinstance(text, bytes):
                    found = echo(text.decode(errors="backslashreplace"))
                    raise FormatError(path, field=f"{where}, {kind.name}", expected="UTF-8 text", found=found)
        elif kind.type == kind.TYPE_MESSAGE:
            inner = f"{where}, {kind.name}" if where == "model" else kind.name
            for each in (value,) if isinstance(value, Message) else value:
                _check_texts(path, each, inner)


def _refuse_unknown(path: Path, proto: onnx.ModelProto) -> None:
    """Raise FormatError for a node of the standard's domain whose operator its version does not have. Nodes
    of other domains may be drawn and placed without running."""
    node, operator, since = undefined_operator(proto)
    if not node:
        return
    newer = f"export the model with an opset from {since}" if since else EXPORT_AGAIN
    version = standard_version(proto)
    raise FormatError(
        path,
        field=f"node {echo(node)}",
        expected=f"an operator of opset {version}, of ONNX Runtime or of a function in the file",
        found=echo(operator),
        hint=newer,
    )


def _check_structure(proto: onnx.ModelProto) -> None:
    """Check the model with the library's checker, except that graph outputs may lack a shape, and that
    weights need not be declared as inputs in old files, which runtimes do not ask for either."""
    checked = proto
    if any(_lacks_shape(value) for value in proto.graph.output) or proto.ir_version < LOOSE_IR_VERSION:
        checked = onnx.ModelProto()
        checked.CopyFrom(proto)
        checked.ir_version = max(proto.ir_version, LOOSE_IR_VERSION)
        for value in checked.graph.output:
            if _lacks_shape(value):
                value.type.tensor_type.shape.SetInParent()
    # A light model is small unless Constant nodes or subgraphs carry the weights.
    with printed_to_stderr():  # the checker prints warnings
        onnx.checker.check_model(checked)


def _lacks_shape(value: onnx.ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")


def _check_versions(path: Path, proto: onnx.ModelProto) -> None:
    newest = onnx.defs.onnx_opset_version()
    for opset in proto.opset_import:
        if opset.domain in ("", "ai.onnx") and not 1 <= opset.version <= newest:
            raise FormatError(
                path,
                field="opset_import",
                expected=f"an opset from 1 to {newest}",
                found=str(opset.version),
                hint="export the model with an older opset" if opset.version > newest else "",
            )
    if proto.ir_version > onnx.IR_VERSION:
        raise FormatError(
            path,
            field="ir_version",
            expected=f"at most {onnx.IR_VERSION}",
            found=str(proto.ir_version),
            hint="export the model with an older version of onnx",
        )


def _modernise(path: Path, proto: onnx.ModelProto) -> onnx.ModelProto:
    """Convert a model whose operator set is older than OLDEST_OPSET, when operators broadcast differently."""
    if not any(item.domain in ("", "ai.onnx") and item.version < OLDEST_OPSET for item in proto.opset_import):
        return proto
    with reading(path, f"conversion to opset {OLDEST_OPSET}"):
        return onnx.version_converter.convert_version(proto, OLDEST_OPSET)


def _take_out_weights(draft: Draft) -> None:
    graph = draft.proto.graph
    tensors = list(graph.initializer)
    del graph.initializer[:]
    declared = {value.name for value in graph.input}
    for tensor in tensors:
        if not tensor.name:
            raise FormatError(draft.path, field="initializer", expected="a name", found="none")
        if tensor.name in draft.weights:
            raise FormatError(draft.path, field=f"initializer {tensor.name}", found="the name twice")
        array = tensor_array(draft.path, tensor)
        draft.weights[tensor.name] = array
        if is_kept(array):
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor = onnx.numpy_helper.from_array(np.array(array), tensor.name)
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        if name in draft.weights:
            raise FormatError(draft.path, field=f"initializer {name}", found="the name twice")
        if not name:
            raise FormatError(draft.path, field="sparse initializer", expected="a name", found="none")
        draft.weights[name] = densify(draft.path, sparse, f"sparse initializer {name}")
        if name not in declared:
            values = sparse.values
            graph.input.append(onnx.helper.make_tensor_value_info(name, values.data_type, list(sparse.dims)))
    del graph.sparse_initializer[:]
