"""Small operator graphs made by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npuviz.program.dtypes import dtype_name
from npuviz.program.graph import Graph, Node
from npuviz.program.tensor import Tensor

Shapes = Mapping[str, tuple[tuple[int, ...], str]]


def make_graph(
    inputs: Shapes,
    outputs: Shapes,
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str], Mapping[str, Any]]],
    constants: Mapping[str, np.ndarray] | None = None,
    inner: Shapes | None = None,
    opset: int = 20,
) -> Graph:
    """A graph of nodes (operator, inputs, outputs, attributes); tensors are named."""
    constants = constants or {}
    producer = {name: at for at, node in enumerate(nodes) for name in node[2]}
    described: dict[str, tuple[tuple[int, ...], str]] = {**inputs, **(inner or {}), **outputs}
    described |= {name: (array.shape, dtype_name(array.dtype)) for name, array in constants.items()}
    number = {name: at for at, name in enumerate(described)}

    def kind(name: str) -> Any:
        if name in constants:
            return "weight"
        return "input" if name in inputs else "output" if name in outputs else "activation"

    tensors = tuple(
        Tensor(at, name, shape, dtype, kind(name), producer.get(name, -1))
        for at, (name, (shape, dtype)) in enumerate(described.items())
    )
    made = tuple(
        Node(
            at,
            f"n{at}",
            op,
            "",
            tuple(number[name] for name in reads),
            tuple(number[name] for name in writes),
            attributes,
            opset,
        )
        for at, (op, reads, writes, attributes) in enumerate(nodes)
    )
    return Graph(
        "test",
        made,
        tensors,
        tuple(number[name] for name in inputs),
        tuple(number[name] for name in outputs),
        {number[name]: array for name, array in constants.items()},
        {"": opset},
    )


def io_graph(count: int = 4, shape: tuple[int, ...] = (128, 64)) -> Graph:
    """A graph without nodes that has inputs x0.. and outputs y0.. of one shape."""
    return make_graph(
        {f"x{at}": (shape, "float32") for at in range(count)},
        {f"y{at}": (shape, "float32") for at in range(count)},
        [],
    )
