"""Computes the tolerance of a tensor end to end from element types and the graph's depth.

Every operator rounds its result once, in the type of the tensor, and its sums once for each added element, in
float32. Roundings are nearly independent, so that the error of n of them grows with the square root of n (N.
Higham and T. Mary, "A new approach to probabilistic rounding error analysis", 2019), along the longest path
from an input. `SAFETY` covers the amplification of errors by operators, which the rule does not know. Where
operators amplify more than that, a tensor counts as wrong although all operators are right: the network loses
its accuracy in this type.
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
"""Largest relative error of one rounding by type; for 8-bit integers half a step relative to their range."""

SAFETY = 8.0
LARGEST_SHARE = 0.1
"""Largest tolerance as a share of a tensor's magnitude, unless SAFETY roundings of its type are larger."""
SENTINEL = 1e30
"""Larger magnitudes stand for infinity (masks) and do not count in a tensor's magnitude."""

_LIMITS: Mapping[str, float] = {"float16": 65504.0, "float32": float(np.finfo(np.float32).max)}
"""Largest numbers of types that wider floats of a model may exceed."""

BOUNDS: Mapping[str, float] = {
    "Sigmoid": 1.0, "HardSigmoid": 1.0, "Tanh": 1.0, "Erf": 1.0, "Softmax": 1.0, "Softsign": 1.0,
    "Sin": 1.0, "Cos": 1.0,
}  # fmt: skip
"""Largest magnitude of bounded functions."""

_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_RECURRENT = frozenset(("LSTM", "GRU", "RNN", "Scan", "Loop"))


@dataclass(frozen=True)
class Precision:
    """The types that a machine rounds to, and other sources of errors.

    type_of       tensor -> the type in which it is computed and held, a key of UNITS, "" for exact integers
    table_errors  node -> error of the activation table that computes it, as a share of the function's range
    limits        type -> its largest number, for types whose range values of models exceed
    steps         allowed error of one operator in steps of 8-bit integers
    """

    type_of: Callable[[int], str]
    table_errors: Mapping[int, float] = field(default_factory=dict[int, float])
    limits: Mapping[str, float] = field(default_factory=lambda: dict(_LIMITS))
    steps: float = 1.0

    def unit(self, graph: Graph, tensor: int) -> float:
        """Return the relative error of the operator that makes a tensor, 0 for exact integers."""
        if is_eight_bits(graph, tensor):
            return UNITS["int8"]
        own = UNITS.get(self.type_of(tensor), 0.0)
        return max(own, self.table_errors.get(graph.tensors[tensor].producer, 0.0)) if own else 0.0


@dataclass(frozen=True, slots=True)
class Allowed:
    """Allowed error of a tensor end to end.

    share      of its largest magnitude
    roundings  on the longest path to it
    dtype      the coarsest type among its ancestors and itself, "" if nothing rounds
    absolute   allowed at least: the error of the activation table that made it, if its function is bounded,
    or
      steps of the 8-bit integers that it was read from
    origin     of `absolute`, in words
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
    """Compute the allowed error of each tensor of the graph end to end."""
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
    """Return for each tensor the absolute error of the activation table that made it, if its function is
    bounded, else 0; operators that move or convert elements pass the error of their inputs on.

    errors  as `Precision.table_errors`
    """
    return _floors(graph, lambda node: errors.get(node.id, 0.0) * BOUNDS.get(node.op_type, 0.0))


def step_floors(graph: Graph, precision: Precision) -> list[float]:
    """Return for each tensor the absolute error of the 8-bit integers that it was read from, else 0.

    That is `precision.steps` steps, and a rounding of the largest value they can hold, since a value close to
    half way may round either way. If its elements went through several 8-bit tensors, their errors add.
    """

    def floor_of(node: Node) -> float:
        step = _step(graph, node)
        rounding = UNITS.get(precision.type_of(node.outputs[0]), 0.0) if step else 0.0
        return step * (precision.steps + 128 * rounding)

    return _floors(graph, floor_of)


def _step(graph: Graph, node: Node) -> float:
    """Return the scale of a DequantizeLinear that reads a computed 8-bit tensor, 0 for other nodes."""
    scale = graph.constants.get(node.inputs[1]) if node.op_type == "DequantizeLinear" else None
    if scale is None or np.size(scale) != 1 or not is_eight_bits(graph, node.inputs[0]):
        return 0.0
    step = float(np.reshape(scale, -1)[0])
    return step if 0 < step < math.inf else 0.0


def _floors(graph: Graph, floor_of: Callable[[Node], float]) -> list[float]:
    """Return for each tensor the floor of its node, plus the largest floor of the node's inputs if the node
    only moves or converts elements."""
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
    """Return the variance and the number of roundings that a node adds to its result."""
    if not unit or (node.op_type in MOVING and unit <= before):
        return 0.0, 0
    turns = _turns(graph, node)
    sums = _summed(graph, node) * UNITS["float32"] ** 2
    return turns * (unit * unit + sums), turns


def _turns(graph: Graph, node: Node) -> int:
    """Return how often a node applies itself to its own result: the steps of recurrent operators, else 1."""
    shape = graph.tensors[node.inputs[0]].shape if node.inputs and node.inputs[0] >= 0 else ()
    return max(1, shape[0]) if node.op_type in _RECURRENT and shape else 1


def _summed(graph: Graph, node: Node) -> int:
    """Estimate the number of elements in one sum of a node."""
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
    # An operator that keeps the number of elements may still sum along an axis.
    is_normal = "oftmax" in node.op_type or "Norm" in node.op_type
    last = shapes[0][-1] if is_normal and shapes and shapes[0] else 1
    return max(1, read // made if made else 1, last)


def is_eight_bits(graph: Graph, tensor: int) -> bool:
    """Return whether a computed tensor holds real numbers rounded to 8-bit integers."""
    return graph.tensors[tensor].producer >= 0 and is_requantized(graph, tensor)


def magnitude(values: np.ndarray) -> float:
    """Return the largest magnitude of flat float64 values, without sentinels, infinities and NaN; 0 if none
    is left."""
    sizes = np.abs(values)
    with np.errstate(invalid="ignore"):
        return float(sizes[sizes <= SENTINEL].max(initial=0))
