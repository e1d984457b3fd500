"""Runs single nodes of a graph in ONNX Runtime, as Host operators do."""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

import numpy as np
import onnx

from npuviz.base.errors import FormatError
from npuviz.onnx.reference import MissingKernelError, ReferenceSession, boxed, run_reference
from npuviz.onnx.semantics.operators import draws
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

Held = Callable[[int], np.ndarray | None]
"""Function: tensor id -> its values in the graph's shape and type, None if the machine does not hold it."""

Run = Callable[[Graph, Node, Mapping[int, np.ndarray]], dict[int, np.ndarray]]
"""Function: (graph, node, values of its inputs) -> results by tensor id. Raises FormatError if it cannot."""

_MOST_NODES = 64
MAX_EVALUATED_ELEMENTS = 1 << 21
"""Most elements of inputs and results together for which ONNX's evaluator, which is written in Python, is
used."""
MOST_KEPT = 256
MOST_MODEL_BYTES = 1 << 14
"""Largest serialised node, with constant inputs, whose session is cached."""
_NAMELESS = ("Loop", "If", "Scan", "SequenceMap")
"""Operators with subgraphs, which read tensors by name."""


def computed_from(
    graph: Graph, tensors: Collection[int], held: Held, run: Run | None = None
) -> dict[int, np.ndarray] | None:
    """Compute tensors as `compute_from` does; None if that fails."""
    try:
        return compute_from(graph, tensors, held, run)
    except FormatError:
        return None


def compute_from(
    graph: Graph, tensors: Collection[int], held: Held, run: Run | None = None
) -> dict[int, np.ndarray]:
    """Compute tensors, node by node, from the nearest tensors that the machine holds.

    run  function that computes a node, `run_node` by default
    The tensors themselves are computed even if they are held. Raises FormatError if that takes too many
    nodes, or a
    node cannot be computed.
    """
    arrays: dict[int, np.ndarray] = {}
    nodes: set[int] = set()
    wanted = [graph.tensors[tensor].producer for tensor in tensors]
    while wanted:
        number = wanted.pop()
        if number in nodes:
            continue
        if number < 0 or len(nodes) >= _MOST_NODES:
            raise FormatError(graph.name, field="values", found="nothing near enough to compute them from")
        nodes.add(number)
        for tensor in graph.nodes[number].inputs:
            if tensor < 0 or tensor in arrays:
                continue
            known = held(tensor)
            if known is None and tensor in graph.constants:
                known = np.asarray(graph.constants[tensor], order="C")
            if known is None:
                wanted.append(graph.tensors[tensor].producer)
            else:
                arrays[tensor] = known
    for number in sorted(nodes):
        made = (run or run_node)(graph, graph.nodes[number], arrays)
        for tensor, values in made.items():
            arrays.setdefault(tensor, values)
            if tensor in tensors:
                arrays[tensor] = values
    missing = [graph.tensors[tensor].name for tensor in tensors if tensor not in arrays]
    if missing:
        raise FormatError(graph.name, field=f"tensor {missing[0]}", found="no such result")
    return {tensor: arrays[tensor] for tensor in tensors}


def run_node(graph: Graph, node: Node, arrays: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Run a node and return its results by tensor id, in their declared types.

    Uses ONNX Runtime, or ONNX's evaluator if ONNX Runtime lacks the operator for these types. Raises
    FormatError if both refuse, and for values that ONNX Runtime refuses: the evaluator would take an index
    out of range modulo the size.

    arrays  values of the node's inputs by tensor id, contiguous and in the graph's own types
    A result whose shape depends on values may have another shape than the graph declares.
    """
    outputs = [index for index in node.outputs if index >= 0]
    try:
        return run_reference_of(graph, node, arrays)
    except MissingKernelError as refusal:
        try:
            made = evaluate_node(graph, node, arrays)
        except FormatError:
            raise refusal from None
    types = {index: numpy_dtype(graph.tensors[index].dtype) for index in outputs}
    return {index: values.astype(types[index], copy=False) for index, values in made.items()}


def run_reference_of(graph: Graph, node: Node, arrays: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Run a node as `run_node` does, in ONNX Runtime only."""
    single = single_node_graph(graph, node)
    kept = _run_kept(graph, node, arrays, single)
    if kept is not None:
        return dict(zip(single.outputs, kept, strict=True))
    given = {graph.tensors[index].name: arrays[index] for index in single.inputs}
    return run_reference(single, given, [index for index in node.outputs if index >= 0])


def _run_kept(
    graph: Graph, node: Node, arrays: Mapping[int, np.ndarray], single: Graph
) -> list[np.ndarray] | None:
    """Run a node in a cached session that nodes with the same operator, attributes, types and shapes share.

    Returns the results in the order of `single`'s outputs. None if the node cannot share a session, or the
    run fails,
    since the error would not name the node.
    single  graph of the node alone
    """
    if node.op_type in _NAMELESS or draws(graph, node) or len(single.source) > MOST_MODEL_BYTES:
        return None
    places = {
        index: place for place, index in enumerate((*single.inputs, *single.constants, *single.outputs))
    }
    try:
        session = _session_of(
            _renamed(single, places),
            tuple((single.tensors[index].dtype, single.tensors[index].shape) for index in places),
            (len(single.inputs), len(single.outputs)),
        )
        return session.run({_name(places[index]): arrays[index] for index in single.inputs})
    except FormatError:
        return None


def _name(place: int) -> str:
    return f"t{place}"


def _renamed(single: Graph, places: Mapping[int, int]) -> bytes:
    """Return the serialised model of one node, with tensors named by their places."""
    names = {single.tensors[index].name: _name(place) for index, place in places.items()}
    model = onnx.ModelProto.FromString(single.source)
    graph = model.graph
    graph.name = graph.node[0].name = "node"
    for field in (graph.node[0].input, graph.node[0].output):
        field[:] = [names.get(name, name) for name in field]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = names[value.name]
    return model.SerializeToString(deterministic=True)


@lru_cache(maxsize=MOST_KEPT)
def _session_of(
    source: bytes, types: tuple[tuple[str, tuple[int, ...]], ...], counts: tuple[int, int]
) -> ReferenceSession:
    """Make a session for the model of a node; cached.

    types   type and shape of each tensor: inputs, constants, outputs;  counts  numbers of inputs and outputs
    """
    tensors = tuple(
        Tensor(place, _name(place), shape, dtype, "activation") for place, (dtype, shape) in enumerate(types)
    )
    inputs, outputs = (tuple(range(counts[0])), tuple(range(len(types) - counts[1], len(types))))
    graph = Graph("node", (), tensors, inputs, outputs, source=source)
    return ReferenceSession(graph, outputs)


def evaluate_node(graph: Graph, node: Node, arrays: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Run a node in ONNX's evaluator and return its results by tensor id, in the types that it computes.

    Raises FormatError if it fails or would take too long.

    arrays  as of `run_node`; floats may be wider
    """
    # Slow to import, and seldom needed.
    from onnx.reference import ReferenceEvaluator

    outputs = [index for index in node.outputs if index >= 0]
    sizes = [arrays[index].size for index in node.inputs if index >= 0]
    if sum(sizes) + sum(graph.tensors[index].num_elements for index in outputs) > MAX_EVALUATED_ELEMENTS:
        raise FormatError(graph.name, field=f"node {node.name}", found="too many elements for the evaluator")
    single = single_node_graph(graph, node)
    given = {
        graph.tensors[index].name: arrays[index].item() if _is_boxed(graph, index) else arrays[index]
        for index in single.inputs
    }
    model = onnx.ModelProto.FromString(single.source)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run([graph.tensors[index].name for index in outputs], given)
        made = {
            index: boxed(values) if _is_boxed(graph, index) else np.asarray(values)
            for index, values in zip(outputs, results, strict=True)
        }
    except Exception as error:
        # The evaluator lets any exception of its operators through.
        raise FormatError(graph.name, field=f"node {node.name}", found=str(error)[:200]) from error
    # The evaluator implements some attributes differently from the standard.
    if any(values.shape != graph.tensors[index].shape for index, values in made.items()):
        raise FormatError(graph.name, field=f"node {node.name}", found="results of another shape")
    return made


def _is_boxed(graph: Graph, index: int) -> bool:
    return graph.tensors[index].dtype == "opaque"


def single_node_graph(graph: Graph, node: Node) -> Graph:
    """Return a graph of one node; its constant integer inputs stay constants, all others become inputs.

    Some operators demand constants for inputs that determine shapes, which are integers.
    """
    proto = onnx.ModelProto()
    proto.ir_version = 10
    for domain, version in graph.opsets.items():
        # The standard domain has two names; not every evaluator knows both.
        proto.opset_import.append(onnx.helper.make_opsetid("" if domain == "ai.onnx" else domain, version))
    proto.graph.name = node.name or node.op_type
    proto.graph.node.append(_node_proto(graph, node))
    inputs: list[int] = []
    constants: dict[int, np.ndarray] = {}
    for index in dict.fromkeys(index for index in node.inputs if index >= 0):
        tensor = graph.tensors[index]
        if index in graph.constants and numpy_dtype(tensor.dtype).kind in "iub":
            values = np.asarray(graph.constants[index], order="C")
            proto.graph.initializer.append(onnx.numpy_helper.from_array(values, tensor.name))
            constants[index] = values
        else:
            inputs.append(index)
            proto.graph.input.append(_value_info(graph, index))
    outputs = tuple(index for index in node.outputs if index >= 0)
    proto.graph.output.extend(onnx.ValueInfoProto(name=graph.tensors[index].name) for index in outputs)
    return Graph(
        name=node.name or node.op_type,
        nodes=(),
        tensors=graph.tensors,
        inputs=tuple(inputs),
        outputs=outputs,
        constants=constants,
        opsets=graph.opsets,
        source=proto.SerializeToString(),
    )


def _value_info(graph: Graph, index: int) -> onnx.ValueInfoProto:
    tensor = graph.tensors[index]
    kind = onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(tensor.dtype))
    return onnx.helper.make_tensor_value_info(tensor.name, kind, tensor.shape)


def _node_proto(graph: Graph, node: Node) -> onnx.NodeProto:
    first = next(index for index in node.outputs if index >= 0)
    found = _protos(graph.source).get(graph.tensors[first].name)
    if found is not None:
        return found

    def name(index: int) -> str:
        return graph.tensors[index].name if index >= 0 else ""

    inputs, outputs = [name(i) for i in node.inputs], [name(i) for i in node.outputs]
    attributes = {key: value for key, value in node.attributes.items() if key != "captured_inputs"}
    return onnx.helper.make_node(node.op_type, inputs, outputs, node.name, domain=node.domain, **attributes)


@lru_cache(maxsize=4)
def _protos(source: bytes) -> dict[str, onnx.NodeProto]:
    """Return output name -> node of a serialised model."""
    model = onnx.ModelProto.FromString(source)
    return {name: node for node in model.graph.node for name in node.output if name}
