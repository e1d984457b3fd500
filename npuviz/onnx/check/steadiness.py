"""Measures how far a model's outputs move if its inputs change by less than the rounding of any machine."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.check.injected_reference import InjectedReference
from npuviz.onnx.check.records import float_deviation
from npuviz.onnx.check.references import References
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

CHANGE = 2.0**-20
"""Relative change of each input: a millionth, sixteen roundings of fp32."""

IS_MUCH = 0.25
"""A movement of an output is remarked from this share of its tolerance on: machines round inputs far more."""
EXPLAINS = 0.01
"""A movement of an output is remarked from this share of its error on: a smaller one does not explain it."""


def moves(graph: Graph, references: References, tensors: Collection[int]) -> Mapping[int, float]:
    """Return tensor -> how far the reference moves, as a share of the largest magnitude, if all float inputs
    of the model change by up to CHANGE of themselves; in a model with integer inputs only, the first float
    tensors made from integers change. {} if there is nothing to change."""
    wanted = [tensor for tensor in tensors if graph.tensors[tensor].dtype == "float32"]
    if not wanted:
        return {}
    try:
        moved = _moved(graph, references, wanted)
    except FormatError:
        return {}
    found: dict[int, float] = {}
    for tensor, values in moved.items():
        own = references.get(tensor)
        if values.shape == own.shape:
            found[tensor] = float_deviation(values.reshape(-1), own.reshape(-1), 0.0).relative
    return found


def _moved(graph: Graph, references: References, wanted: Sequence[int]) -> Mapping[int, np.ndarray]:
    """Run the reference with changed inputs and return the wanted tensors. Raises FormatError if ONNX
    Runtime refuses."""
    draw = np.random.default_rng(0)

    def change(array: np.ndarray) -> np.ndarray:
        return (array * (CHANGE * draw.uniform(-1, 1, array.shape))).astype(array.dtype)

    inputs = references.inputs
    floats = {name for name, array in inputs.items() if array.dtype == np.float32}
    if floats:
        changed = {name: array + change(array) if name in floats else array for name, array in inputs.items()}
        return run_reference(graph, changed, wanted)
    first = _first_floats(graph)
    values = run_reference(graph, inputs, first)
    # Whole numbers are masks and positions, which are exact in every type.
    errors = {tensor: change(array) for tensor, array in values.items() if np.any(array != np.rint(array))}
    if not errors:
        return {}
    found = InjectedReference(graph, inputs, list(errors), wanted).run(errors)
    return dict(zip(wanted, found[len(graph.outputs) :], strict=True))


def _first_floats(graph: Graph) -> list[int]:
    """Return float tensors that operators make from integer inputs: rows of a table, dequantised 8-bit
    integers."""
    computed = set(graph.inputs)
    found: list[int] = []
    for node in graph.nodes:
        given = [tensor for tensor in node.inputs if tensor in computed]
        made = [tensor for tensor in node.outputs if tensor >= 0 and given]
        computed.update(made)
        if not any(graph.tensors[tensor].dtype == "float32" for tensor in given):
            found += [tensor for tensor in made if graph.tensors[tensor].dtype == "float32"]
    return found


def remark(share: float) -> str:
    """Return the remark for a finding about an output that moves noticeably."""
    return (
        "; the model's inputs (integers: what is looked up with them), changed by a millionth, move the "
        f"reference's own by {share:.2g} of the largest magnitude: with these no rounding leaves it as it is"
    )
