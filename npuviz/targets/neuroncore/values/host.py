"""Plan Host calls: run a node of the graph in ONNX Runtime on tensors in HBM."""

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.draft import other_shape
from npuviz.onnx.passes.narrow_floats import beyond_range
from npuviz.onnx.single_node import run_node
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.machine import HOST_OPERATOR
from npuviz.sim.replay.contents import Report
from npuviz.targets.neuroncore.spec import KEEPING_FLOAT64
from npuviz.targets.neuroncore.values.chip import Chip, HbmArray
from npuviz.targets.neuroncore.values.element_types import convert_into, converted
from npuviz.targets.neuroncore.values.memory import Mask, ValueFault
from npuviz.targets.neuroncore.values.plan import Ins, Plan


def tensor_homes(chip: Chip) -> dict[int, HbmArray]:
    """Return {graph tensor: variable that holds it}; of several the one that the program writes."""
    found: dict[int, HbmArray] = {}
    for array in chip.variables:
        variable = array.variable
        if variable.tensor < 0:
            continue
        other = found.get(variable.tensor)
        if other is None or (other.variable.kind == "output" and variable.kind != "output"):
            found[variable.tensor] = array
    return found


def plan_host_call(chip: Chip, graph: Graph, ins: Ins, homes: dict[int, HbmArray], report: Report) -> Plan:
    """Plan HOST_CALL: node `id` reads and writes HBM."""
    if not 0 <= ins.id < len(graph.nodes):
        raise ValueFault(f"node {ins.id} does not exist")
    node = graph.nodes[ins.id]
    sources = {index: homes.get(index) for index in node.inputs if index >= 0}
    targets = {index: homes[index] for index in node.outputs if index >= 0 and index in homes}
    for array in targets.values():
        chip.own(array)
    text = f"node {node.name or node.id} ({node.op_type}) on the host"

    def run() -> None:
        arrays: dict[int, np.ndarray] = {}
        for index, array in sources.items():
            kind = numpy_dtype(graph.tensors[index].dtype)
            if array is not None:
                arrays[index] = as_type(array.array(), kind)
            elif index in graph.constants:
                arrays[index] = np.asarray(graph.constants[index], order="C")
            else:
                report(HOST_OPERATOR, f"{text}: tensor {graph.tensors[index].name} is not in HBM")
                return
        try:
            results = run_node(graph, node, arrays)
        except FormatError as error:
            report(HOST_OPERATOR, f"{text} failed: {error.found}")
            return
        for index, array in targets.items():
            values = results.get(index)
            if values is None:
                report(HOST_OPERATOR, f"{text}: no result {graph.tensors[index].name}")
            elif values.size != graph.tensors[index].num_elements:
                report(
                    HOST_OPERATOR,
                    f"{text}: {other_shape(values.shape, graph.tensors[index].shape, graph.assumptions)}",
                )
            elif array.dtype.kind == "O":
                array.objects = values.reshape(array.variable.shape)
            elif (beyond := _beyond_range(array, values)) is not None:
                name = graph.tensors[index].name
                report(
                    HOST_OPERATOR,
                    f"{text}: {array.dtype} cannot hold {beyond:.4g} of {name}; {KEEPING_FLOAT64}",
                )
            else:
                _store(array, values)

    # Text has no bytes; the array of objects that a variable of text holds is replaced, never changed.
    plain = [array for array in targets.values() if array.dtype.kind != "O"]
    return Plan(
        run,
        tuple(Mask(a.written) for a in sources.values() if a is not None and a.written is not None),
        tuple(Mask(a.written) for a in targets.values() if a.written is not None),
        tuple(array.flat for array in plain),
        tuple(targets.values()),
    )


def _beyond_range(array: HbmArray, values: np.ndarray) -> float | None:
    """Return a number of float64 results that the narrower type of their variable makes infinite, or None."""
    if values.dtype != np.float64 or array.dtype != np.float32:
        return None
    beyond = beyond_range(values)
    return beyond if beyond is not None and abs(beyond) > 1 else None


def _store(array: HbmArray, values: np.ndarray) -> None:
    out = array.array()
    convert_into(out, values.reshape(out.shape))


def as_type(values: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Return contiguous values in a type of the graph; the array itself if it is so already."""
    return np.asarray(values, order="C") if values.dtype == kind else converted(values, kind)
