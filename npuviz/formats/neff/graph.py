"""Read and make neff.json, the graph of nodes of a NEFF,
which names the model's inputs and outputs (reference 4.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RANK_LIMIT = 32
"""Most dimensions that are read; no framework has more."""
KELF_MEMBER = "kelf-0.json"


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """An input or output of the model; `dtype` is a numpy name, as the vendor writes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def graph_object(inputs: Sequence[GraphTensor], outputs: Sequence[GraphTensor]) -> dict[str, Any]:
    """Make the neff.json of a model that is one compute node."""
    tensors = (*inputs, *outputs)
    count = len(inputs)
    compute = {
        "op": "tvm_op",
        "name": "sg_core",
        "attrs": {
            "func_name": "__kelf",
            "flatten_data": "0",
            "kelf": KELF_MEMBER,
            "num_inputs": str(count),
            "num_outputs": str(len(outputs)),
        },
        "inputs": [[index, 0, 0] for index in range(count)],
        "output_names": [each.name for each in outputs],
    }
    return {
        "nodes": [
            *(
                {"op": "null", "name": each.name, "inputs": [], "output_names": [each.name]}
                for each in inputs
            ),
            compute,
        ],
        "arg_nodes": list(range(count)),
        "heads": [[count, index, 0] for index in range(len(outputs))],
        "attrs": {
            "shape": ["list_shape", [list(each.shape) for each in tensors]],
            "storage_id": ["list_int", list(range(len(tensors)))],
            "dltype": ["list_str", [each.dtype for each in tensors]],
        },
        "node_row_ptr": [*range(count + 1), len(tensors)],
        "metadata": {
            "signatures": {
                "default": {
                    "inputs": _signature(inputs, 0),
                    "outputs": _signature(outputs, count),
                }
            }
        },
    }


def _signature(tensors: Sequence[GraphTensor], first: int) -> dict[str, Any]:
    return {
        each.name: {"id": first + index, "dtype": each.dtype, "shape": list(each.shape)}
        for index, each in enumerate(tensors)
    }


def graph_tensors(graph: Mapping[str, Any]) -> tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]]:
    """Return the inputs and outputs that neff.json declares; ((), ()) if it is malformed.

    With LNC 2 an output is listed once per subgraph; it is returned once.
    """
    try:
        return _tensors(graph)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError):
        return (), ()


def _tensors(graph: Mapping[str, Any]) -> tuple[tuple[GraphTensor, ...], tuple[GraphTensor, ...]]:
    shapes = graph["attrs"]["shape"][1]
    dtypes = graph["attrs"]["dltype"][1]
    inputs: dict[str, GraphTensor] = {}
    outputs: dict[str, GraphTensor] = {}
    row = 0
    for node in graph["nodes"]:
        found = inputs if node["op"] == "null" else outputs
        for name in node.get("output_names") or [node["name"]]:
            shape = tuple(int(each) for each in shapes[row][:RANK_LIMIT])
            found.setdefault(str(name), GraphTensor(str(name), str(dtypes[row]), shape))
            row += 1
    return tuple(inputs.values()), tuple(outputs.values())
