"""The graph's inputs: what the user gave, and seeded random numbers for the rest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.program.tensor import Tensor

_ROW_PICKERS = frozenset(("Gather", "EmbedLayerNormalization"))


@dataclass(frozen=True)
class Given:
    """What a run gets: arrays by the names of inputs, the others drawn from a seed."""

    inputs: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    seed: int = 0


def draw_inputs(graph: Graph, given: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    """Every graph input by name, in its own shape and type.

    Missing floating-point inputs are standard normal, integers lie within the table they index
    (else 0 or 1), booleans are all true. Raises UsageError for an unknown name, another shape, or values
    that are no numbers of the type.
    """
    names = [tensor.name for tensor in graph.tensors]
    reads = (
        (node.op_type, [names[index] if index >= 0 else "" for index in node.inputs]) for node in graph.nodes
    )
    tables = {tensor.name: tensor.shape for tensor in graph.tensors}
    tensors = [graph.tensors[index] for index in graph.inputs]
    return draw(tensors, index_limits(reads, tables), Given(given, seed))


def draw(tensors: Sequence[Tensor], limits: Mapping[str, int], given: Given) -> dict[str, np.ndarray]:
    """As `draw_inputs`, for the inputs of a graph that is not built yet.

    limits  input name -> one more than the largest integer it may hold
    """
    known = {tensor.name: tensor for tensor in tensors}
    for name, values in given.inputs.items():
        if name not in known:
            raise UsageError(f"--input {name}: the model has no such input; it has {', '.join(known)}")
        if tuple(values.shape) != known[name].shape:
            raise UsageError(f"--input {name}: expected shape {known[name].shape}, found {values.shape}")
        _refuse_type(name, values.dtype, known[name].dtype)
    generator = np.random.default_rng(given.seed)
    found: dict[str, np.ndarray] = {}
    for tensor in tensors:
        dtype = numpy_dtype(tensor.dtype)
        drawn = _draw(tensor.shape, limits.get(tensor.name, 2), dtype, generator)
        if tensor.name in given.inputs:
            drawn = np.asarray(given.inputs[tensor.name]).astype(dtype)
        found[tensor.name] = drawn
    return found


def index_limits(
    nodes: Iterable[tuple[str, Sequence[str]]], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Name -> rows of the smallest table that operators pick from with it.

    nodes  operator type and names of its inputs;  shapes  of tensors by name
    """
    found: dict[str, int] = {}
    for op_type, inputs in nodes:
        if op_type not in _ROW_PICKERS or len(inputs) < 2:
            continue
        table = inputs[0] if op_type == "Gather" else inputs[min(2, len(inputs) - 1)]
        rows = shapes.get(table, ())[:1]
        for name in inputs if rows else ():
            if name != table:
                found[name] = max(1, min(found.get(name, rows[0]), rows[0]))
    return found


def _refuse_type(name: str, found: np.dtype, wanted: str) -> None:
    """Numbers may become other numbers, but not lose their fraction or imaginary part."""
    is_text, is_whole = numpy_dtype(wanted).kind == "O", numpy_dtype(wanted).kind in "iu"
    allowed = "OUS" if is_text else "biu" if is_whole else "biufV"
    if found.kind not in allowed:
        raise UsageError(f"--input {name}: expected values of type {wanted}, found {found}")


def _draw(shape: tuple[int, ...], limit: int, dtype: np.dtype, generator: np.random.Generator) -> np.ndarray:
    if dtype.kind in "iu":
        return generator.integers(0, limit, shape).astype(dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    if dtype.kind == "O":
        return np.full(shape, "", dtype)
    return generator.standard_normal(shape).astype(dtype)
