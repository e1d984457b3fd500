"""How far a model's outputs move when its inputs move by less than any machine rounds them."""

from collections.abc import Collection, Mapping

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.check.records import float_deviation
from npuviz.onnx.check.references import References
from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

CHANGE = 2.0**-20
"""Of each input: a millionth, sixteen roundings of fp32."""

EXPLAINS = 0.01
"""Share of an error from which on such a movement is told: less says nothing about it."""


def moves(graph: Graph, references: References, tensors: Collection[int]) -> Mapping[int, float]:
    """Tensor -> how far the reference's own values move, as a share of the largest magnitude, where all float
    inputs of the model change by up to CHANGE of themselves. Empty for a model without such inputs."""
    draw = np.random.default_rng(0)
    changed = {
        name: (array * (1 + CHANGE * draw.uniform(-1, 1, array.shape))).astype(array.dtype)
        if array.dtype == np.float32
        else array
        for name, array in references.inputs.items()
    }
    wanted = [tensor for tensor in tensors if graph.tensors[tensor].dtype == "float32"]
    if not wanted or all(changed[name] is array for name, array in references.inputs.items()):
        return {}
    try:
        moved = run_reference(graph, changed, wanted)
    except FormatError:
        return {}
    found: dict[int, float] = {}
    for tensor in wanted:
        values, own = np.asarray(moved[tensor]), references.get(tensor)
        if values.shape == own.shape:
            found[tensor] = float_deviation(values.reshape(-1), own.reshape(-1), 0.0).relative
    return found


def remark(share: float) -> str:
    """What a finding adds where an output moves noticeably, beside how far it is off."""
    return (
        f"; the model's inputs, changed by a millionth, move the reference's own by {share:.2g} of the "
        "largest magnitude: with these inputs no rounding leaves it as it is"
    )
