"""Decide how tensors of three and four dimensions lie: as rows with the last axis as channels, or as
pictures."""

from npuviz.program.graph import Graph, Node
from npuviz.targets.rk3588.compiler.normalisations.normalisation import OPERATORS as NORMALISATIONS
from npuviz.targets.rk3588.compiler.operator_kinds import RECURRENT, VIEWS

_MOVERS = (*VIEWS, "Transpose")
"""Operators whose result may have another layout than their input: they copy."""
_ALONG_CHANNELS = ("MatMul", "Gemm", *RECURRENT, *NORMALISATIONS)
"""Operators that want their last axis as channels; so do means along that axis."""
_ALONG_AXES = ("Softmax", "LogSoftmax")
"""Operators that want their axis as channels."""
_PLANES = (
    "Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization", "Resize", "Upsample",
    "DepthToSpace", "SpaceToDepth", "PRelu"
)  # fmt: skip
"""Operators on pictures, with channels as their second axis."""


def tensors_of_rows(graph: Graph) -> frozenset[int]:
    """Return the tensors (N, M, C) and (N, H, M, C) that lie as rows of C channels, as products want them.

    Tensors that a convolution or pooling reads or makes lie as sequences (N, C, L) or pictures, and so do
    tensors that operators other than copies connect with them; of the rest, those that products and
    normalisations read or make lie as rows. In a graph without sequences, everything of three dimensions
    does.
    """
    return _of_rank(graph, 3) | _of_rank(graph, 4)


def _of_rank(graph: Graph, rank: int) -> frozenset[int]:
    convolved = [node for node in graph.nodes if _is_convolved(graph, node, rank)]
    if not convolved and rank == 3:
        return frozenset(tensor.id for tensor in graph.tensors if len(tensor.shape) == rank)
    classes = _Classes(len(graph.tensors))
    for node in graph.nodes:
        if node.op_type not in _MOVERS:
            classes.join([index for index in _ends(node) if len(graph.tensors[index].shape) == rank])
    sequences = {classes.of(index) for node in convolved for index in _ends(node)}
    along = [node for node in graph.nodes if _is_along_channels(graph, node, rank)]
    rows = {classes.of(index) for node in along for index in _ends(node)} - sequences
    return frozenset(
        tensor.id for tensor in graph.tensors if len(tensor.shape) == rank and classes.of(tensor.id) in rows
    )


def _is_convolved(graph: Graph, node: Node, rank: int) -> bool:
    is_window = node.op_type in ("Conv", "ConvTranspose") or node.op_type.endswith("Pool")
    if rank == 4:
        is_window = is_window or node.op_type in _PLANES
    return is_window and len(graph.tensors[node.inputs[0]].shape) == rank


def _is_along_channels(graph: Graph, node: Node, rank: int) -> bool:
    """Return whether an operator wants its last axis as channels."""
    if node.op_type.startswith("Reduce"):
        taken, made = (graph.tensors[tensor].shape for tensor in (node.inputs[0], node.outputs[0]))
        return len(taken) == rank and made == (*taken[:-1], 1)
    if node.op_type in _ALONG_AXES:
        shape = graph.tensors[node.inputs[0]].shape
        return len(shape) == rank and int(node.attributes.get("axis", -1)) % rank == rank - 1
    return node.op_type in _ALONG_CHANNELS


def _ends(node: Node) -> list[int]:
    return [index for index in (*node.inputs, *node.outputs) if index >= 0]


class _Classes:
    """Disjoint sets of numbers."""

    def __init__(self, count: int) -> None:
        self._before = list(range(count))

    def of(self, number: int) -> int:
        """Return the number that stands for a class."""
        while self._before[number] != number:
            self._before[number] = self._before[self._before[number]]
            number = self._before[number]
        return number

    def join(self, numbers: list[int]) -> None:
        """Join the classes of all these numbers."""
        for number in numbers[1:]:
            self._before[self.of(number)] = self.of(numbers[0])
