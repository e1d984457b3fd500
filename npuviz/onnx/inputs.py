"""The graph's inputs: what the user gave, and seeded random numbers for the rest."""

from collections.abc import Mapping

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph

_ROW_PICKERS = frozenset(("Gather", "EmbedLayerNormalization"))


def draw_inputs(graph: Graph, given: Mapping[str, np.ndarray], seed: int = 0) -> dict[str, np.ndarray]:
    """Every graph input by name, in its own shape and type.

    Missing floating-point inputs are standard normal, integers lie within the table they index
    (else 0 or 1), booleans are all true. Raises UsageError for an unknown name, another shape, or values
    that are no numbers of the type.
    """
    known = {graph.tensors[index].name: graph.tensors[index] for index in graph.inputs}
    for name, values in given.items():
        if name not in known:
            raise UsageError(f"--input {name}: the model has no such input; it has {', '.join(known)}")
        if tuple(values.shape) != known[name].shape:
            raise UsageError(f"--input {name}: expected shape {known[name].shape}, found {values.shape}")
        _refuse_type(name, values.dtype, known[name].dtype)
    generator = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for index in graph.inputs:
        tensor = graph.tensors[index]
        dtype = numpy_dtype(tensor.dtype)
        drawn = _draw(graph, index, dtype, generator)
        if tensor.name in given:
            drawn = np.asarray(given[tensor.name]).astype(dtype)
        found[tensor.name] = drawn
    return found


def _refuse_type(name: str, found: np.dtype, wanted: str) -> None:
    """Numbers may become other numbers, but not lose their fraction or imaginary part."""
    is_text, is_whole = numpy_dtype(wanted).kind == "O", numpy_dtype(wanted).kind in "iu"
    allowed = "OUS" if is_text else "biu" if is_whole else "biufV"
    if found.kind not in allowed:
        raise UsageError(f"--input {name}: expected values of type {wanted}, found {found}")


def _draw(graph: Graph, index: int, dtype: np.dtype, generator: np.random.Generator) -> np.ndarray:
    shape = graph.tensors[index].shape
    if dtype.kind in "iu":
        return generator.integers(0, _limit(graph, index), shape).astype(dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    if dtype.kind == "O":
        return np.full(shape, "", dtype)
    return generator.standard_normal(shape).astype(dtype)


def _limit(graph: Graph, index: int) -> int:
    """One more than the largest integer an input may hold."""
    limits = [
        graph.tensors[table].shape[0]
        for node in graph.nodes
        if node.op_type in _ROW_PICKERS and index in node.inputs
        for table in (node.inputs[0] if node.op_type == "Gather" else node.inputs[2],)
        if table != index and graph.tensors[table].shape
    ]
    return max(1, min(limits)) if limits else 2
