"""How far an output may be off end to end: a rule that follows from element types and the graph's depth.

Every operator rounds its result once, in the type in which it is held, and its sums once for each element
they add, in float32. Roundings are as good as independent, so what n of them make grows with the square
root of n (N. Higham and T. Mary, "A new approach to probabilistic rounding error analysis", 2019), and the
longest way from an input counts. `SAFETY` covers what the rule does not know: how much the operators
themselves amplify. Where they amplify more than that, the rule calls a tensor wrong whose operators are all
right; that is what a network that loses its accuracy in this type looks like.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from npuviz.onnx.semantics.operators import MOVING, is_requantized
from npuviz.program.graph import Graph, Node

UNITS: Mapping[str, float] = {
    "float64": 2.0**-53,
    "float32": 2.0**-24,
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "int8": 2.0**-9,
    "float8": 2.0**-4,
}
"""Largest relative error of one rounding by type; of 8-bit integers half a step of their range."""

SAFETY = 8.0
LARGEST_SHARE = 0.1
"""Nothing further off than this share of a tensor's magnitude is right, unless one rounding of its type is
about as large."""
SENTINEL = 1e30
"""Larger magnitudes stand for infinity (masks), and say nothing about the others."""

BOUNDS: Mapping[str, float] = {
    "Sigmoid": 1.0, "HardSigmoid": 1.0, "Tanh": 1.0, "Erf": 1.0, "Softmax": 1.0, "Softsign": 1.0,
    "Sin": 1.0, "Cos": 1.0,
}  # fmt: skip
"""Largest magnitude of functions that have one, whatever their input."""

_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_RECURRENT = frozenset(("LSTM", "GRU", "RNN", "Scan", "Loop"))


@dataclass(frozen=True)
class Precision:
    """What a machine rounds to.

    type_of       tensor -> the type in which it is computed and held, a key of UNITS, "" for exact integers
    table_errors  node -> error of the activation table that computes it, as a share of the function's own
                  range: a table's entries are as far apart where the function is small
    limits        type -> its largest number, for types that a model's values do leave
    steps         of 8 bits that one operator may be off
    """

    type_of: Callable[[int], str]
    table_errors: Mapping[int, float] = field(default_factory=dict[int, float])
    limits: Mapping[str, float] = field(default_factory=lambda: {"float16": 65504.0})
    steps: float = 1.0

    def unit(self, graph: Graph, tensor: int) -> float:
        """Relative error of what makes a tensor, 0 for exact integers."""
        if is_eight_bits(graph, tensor):
            return UNITS["int8"]
        own = UNITS.get(self.type_of(tensor), 0.0)
        return max(own, self.table_errors.get(graph.tensors[tensor].producer, 0.0)) if own else 0.0


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a tensor may be off end to end.

    share      of its largest magnitude
    roundings  on the longest way to it
    dtype      the coarsest type on that way, "" if nothing on it rounds
    absolute   error of the activation table that made it, if its function is bounded, or steps of the 8 bits
               that it was read from; counts where it is more
    origin     of that error, in words
    """

    share: float
    roundings: int
    dtype: str
    absolute: float = 0.0
    origin: str = ""

    @property
    def text(self) -> str:
        """The rule in words."""
        if not self.dtype:
            return "exactly"
        least = f", or {self.absolute:.2g} of {self.origin}" if self.absolute else ""
        return f"{self.share:.2g} of the largest magnitude ({self.roundings} roundings, {self.dtype}){least}"


def allowed_errors(graph: Graph, precision: Precision) -> list[Allowed]:
    """What each tensor of the graph may be off end to end."""
    units = [precision.unit(graph, tensor.id) for tensor in graph.tensors]
    variances = [unit * unit for unit in units]
    counts = [1 if unit else 0 for unit in units]
    coarsest = list(units)
    for node in graph.nodes:
        before = [index for index in node.inputs if index >= 0]
        variance = max((variances[index] for index in before), default=0.0)
        count = max((counts[index] for index in before), default=0)
        largest = max((coarsest[index] for index in before), default=0.0)
        for index in (each for each in node.outputs if each >= 0):
            added, times = _added(graph, node, units[index], largest)
            variances[index], counts[index] = variance + added, count + times
            coarsest[index] = max(largest, units[index])
    names = {unit: name for name, unit in UNITS.items()}
    tables = table_floors(graph, precision.table_errors)
    steps = step_floors(graph, precision)
    name = f"{precision.steps:g} steps of 8 bits" if precision.steps > 1 else "a step of 8 bits"
    floors = [
        max((table, "an activation table"), (step, name)) for table, step in zip(tables, steps, strict=True)
    ]
    return [
        Allowed(_share(variance, unit), count, names.get(unit, "table") if unit else "", *floor)
        for variance, unit, count, floor in zip(variances, coarsest, counts, floors, strict=True)
    ]


def table_floors(graph: Graph, errors: Mapping[int, float]) -> list[float]:
    """Per tensor the absolute error of the activation table that made it, if its function is bounded; moved
    and converted elements keep theirs. 0 for all others.

    errors  as `Precision.table_errors`
    """
    return _floors(graph, lambda node: errors.get(node.id, 0.0) * BOUNDS.get(node.op_type, 0.0))


def step_floors(graph: Graph, precision: Precision) -> list[float]:
    """Per tensor `precision.steps` of the 8 bits that it was read from, however few of them its values use,
    and a rounding of the most they reach: what is almost half way may be rounded either way. Other 8 bits
    that its elements came from add theirs. 0 for all others."""

    def floor_of(node: Node) -> float:
        step = _step(graph, node)
        rounding = UNITS.get(precision.type_of(node.outputs[0]), 0.0) if step else 0.0
        return step * (precision.steps + 128 * rounding)

    return _floors(graph, floor_of)


def _step(graph: Graph, node: Node) -> float:
    """Step of the 8 bits that a DequantizeLinear of a computed tensor reads, 0 for other nodes."""
    scale = graph.constants.get(node.inputs[1]) if node.op_type == "DequantizeLinear" else None
    if scale is None or np.size(scale) != 1 or not is_eight_bits(graph, node.inputs[0]):
        return 0.0
    step = float(np.reshape(scale, -1)[0])
    return step if 0 < step < math.inf else 0.0


def _floors(graph: Graph, floor_of: Callable[[Node], float]) -> list[float]:
    """Per tensor what its node says, and the largest of what the node reads where it moves or converts it."""
    found = [0.0] * len(graph.tensors)
    for node in graph.nodes:
        floor = floor_of(node)
        if node.op_type in MOVING or node.op_type in _CONVERSIONS:
            floor += max((found[index] for index in node.inputs if index >= 0), default=0.0)
        for index in node.outputs:
            if index >= 0:
                found[index] = floor
    return found


def _share(variance: float, unit: float) -> float:
    return min(SAFETY * math.sqrt(variance), max(LARGEST_SHARE, SAFETY * unit))


def _added(graph: Graph, node: Node, unit: float, before: float) -> tuple[float, int]:
    """Variance and number of roundings that a node adds to a result."""
    if not unit or (node.op_type in MOVING and unit <= before):
        return 0.0, 0
    turns = _turns(graph, node)
    sums = _summed(graph, node) * UNITS["float32"] ** 2
    return turns * (unit * unit + sums), turns


def _turns(graph: Graph, node: Node) -> int:
    """How often a node computes on what it computed: the steps of recurrent operators."""
    shape = graph.tensors[node.inputs[0]].shape if node.inputs and node.inputs[0] >= 0 else ()
    return max(1, shape[0]) if node.op_type in _RECURRENT and shape else 1


def _summed(graph: Graph, node: Node) -> int:
    """Elements that go into one sum of a node, about."""
    shapes = [graph.tensors[index].shape for index in node.inputs if index >= 0]
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv") and len(shapes) > 1:
        weights = shapes[3] if node.op_type == "QLinearConv" and len(shapes) > 3 else shapes[1]
        return math.prod(weights[1:])
    if node.op_type in ("Gemm", "MatMul", "MatMulInteger", "QLinearMatMul") and shapes and shapes[0]:
        return shapes[0][0] if node.attributes.get("transA") else shapes[0][-1]
    if node.op_type == "ConvTranspose" and len(shapes) > 1:
        return math.prod((shapes[1][0], *shapes[1][2:]))
    if node.op_type in _RECURRENT:
        return sum(shape[-1] for shape in shapes[1:3] if shape)
    made = max((graph.tensors[index].num_elements for index in node.outputs if index >= 0), default=1)
    read = max((math.prod(shape) for shape in shapes), default=1)
    # What has as many elements as it reads may still have summed along an axis.
    is_normal = "oftmax" in node.op_type or "Norm" in node.op_type
    last = shapes[0][-1] if is_normal and shapes and shapes[0] else 1
    return max(1, read // made if made else 1, last)


def is_eight_bits(graph: Graph, tensor: int) -> bool:
    """Whether a tensor holds 8-bit steps of something finer."""
    return graph.tensors[tensor].producer >= 0 and is_requantized(graph, tensor)


def magnitude(values: np.ndarray) -> float:
    """Largest of flat float64 values without sentinels and what is not finite; 0 if none is left."""
    sizes = np.abs(values)
    with np.errstate(invalid="ignore"):
        return float(sizes[sizes <= SENTINEL].max(initial=0))
