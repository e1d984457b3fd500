"""Finds the operators whose errors matter: the error of each is added to the reference alone, and the effect
on the outputs is measured."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.onnx.check.injected_reference import InjectedReference, outputs_error
from npuviz.onnx.check.own_inputs import OwnInputs
from npuviz.onnx.check.records import float_deviation
from npuviz.onnx.semantics.operators import computed_tensors
from npuviz.onnx.single_node import Held
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph

MAX_CANDIDATES = 64
"""Most operators that are tried one by one: those with the largest own errors."""
TIME_FOR_OWN_ERRORS = 0.5
"""Share of the time after which no further own errors are measured."""
TIME_FOR_EFFECTS = 0.8
"""Share of the time after which no further operators are tried."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One operator: its own error, as a share of its result's magnitude, and the largest error of an output
    that it causes alone, as a share of the output's magnitude (infinite if the output becomes infinite or
    NaN).

    nodes  the operator, and the operators fused into it
    """

    tensor: int
    operator: str
    nodes: tuple[int, ...]
    own: float
    on_outputs: float


@dataclass(frozen=True)
class Explanation:
    """The effects of the operators' own errors on the outputs.

    effects  the largest first
    left     error of the outputs without the errors of the first 0, 1, 2, ... effects
    untried  number of operators with an error of their own that was not put into the reference
    unread   number of results whose own errors were not looked at
    given    error of the outputs if only the model's inputs and weights are as the machine holds them, None
             if that cannot be run, or not in time
    readers  nodes that read those of them that the machine rounds
    """

    effects: tuple[Effect, ...]
    left: tuple[float, ...]
    untried: int = 0
    unread: int = 0
    given: float | None = None
    readers: tuple[int, ...] = ()

    def needed(self, allowed: float) -> int:
        """Return how many of the first effects must be removed to bring the outputs within a share; all if
        never."""
        return next((count for count, error in enumerate(self.left) if error <= allowed), len(self.effects))


def explain(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    held: Held,
    report: Callable[[float], None],
    goes_on: Callable[[float], bool] = lambda share: True,
) -> Explanation:
    """Measure the effect of each operator's own error on the outputs.

    held     tensor -> its values in the machine, in the graph's type; None if the machine does not hold it
    goes_on  tells whether a share (0..1) of the time for all of this is still to come
    """
    errors, unread = _own_errors(graph, held, goes_on)
    is_held = {tensor.id for tensor in graph.tensors if tensor.producer < 0 or held(tensor.id) is not None}
    names = sorted(errors, key=lambda tensor: -errors[tensor][1])[:MAX_CANDIDATES]
    session = InjectedReference(graph, inputs, names)
    exact = session.run({})
    effects: list[Effect] = []
    for number, tensor in enumerate(names):
        report(number / max(1, len(names)))
        if effects and not goes_on(TIME_FOR_EFFECTS):
            break
        found = outputs_error(session.run({tensor: errors[tensor][0]}), exact)
        node = graph.nodes[graph.tensors[tensor].producer]
        nodes = _computing(graph, tensor, is_held)
        effects.append(
            Effect(tensor, f"{node.op_type} {node.name}".rstrip(), nodes, errors[tensor][1], found)
        )
    effects.sort(key=lambda each: -each.on_outputs)
    left: list[float] = []
    for count in range(len(effects) + 1):
        if left and not goes_on(1.0):
            break
        rest = {each.tensor: errors[each.tensor][0] for each in effects[count:]}
        left.append(outputs_error(session.run(rest), exact))
        if left[-1] <= left[0] / 1000 or count >= MAX_CANDIDATES // 2:
            break
    given, consumers = _errors_of_given(graph, inputs, held), graph.consumers()
    read = (node for tensor in given for node in consumers[tensor])
    error_of_given = _error_of_outputs(graph, inputs, given, exact) if goes_on(1.0) else None
    return Explanation(
        tuple(effects),
        tuple(left),
        len(errors) - len(effects),
        unread,
        error_of_given,
        tuple(dict.fromkeys(read)),
    )


def _errors_of_given(graph: Graph, inputs: Mapping[str, np.ndarray], held: Held) -> dict[int, np.ndarray]:
    """Return float input or weight -> how far off the machine holds it, for those that it rounds."""
    errors: dict[int, np.ndarray] = {}
    for tensor in graph.tensors:
        right = graph.constants.get(tensor.id, inputs.get(tensor.name))
        if tensor.producer >= 0 or right is None or numpy_dtype(tensor.dtype).kind in "iubcOSU":
            continue
        values = held(tensor.id)
        if values is None or values.shape != right.shape:
            continue
        with np.errstate(all="ignore"):
            wide = right.astype(np.float64)
            error = np.where(np.isfinite(wide), values.astype(np.float64) - wide, 0.0)
        if error.any():
            errors[tensor.id] = error
    return errors


def _error_of_outputs(
    graph: Graph,
    inputs: Mapping[str, np.ndarray],
    errors: Mapping[int, np.ndarray],
    exact: Sequence[np.ndarray],
) -> float | None:
    """Return the error of the outputs that errors make, None if ONNX Runtime refuses to run with them."""
    try:
        return outputs_error(InjectedReference(graph, inputs, list(errors)).run(errors), exact)
    except FormatError:
        return None


def _computing(graph: Graph, tensor: int, is_held: Collection[int]) -> tuple[int, ...]:
    """Return the nodes that compute a tensor from tensors that the machine holds, its producer first."""
    found: dict[int, None] = {}
    waiting = [tensor]
    while waiting:
        node = graph.tensors[waiting.pop()].producer
        if node in found:
            continue
        found[node] = None
        waiting += [index for index in graph.nodes[node].inputs if index >= 0 and index not in is_held]
    return tuple(found)


def _own_errors(
    graph: Graph, held: Held, goes_on: Callable[[float], bool]
) -> tuple[dict[int, tuple[np.ndarray, float]], int]:
    """Return float tensor -> the error that its operator adds to the right result, and the largest one as a
    share of the magnitude; and the number of tensors that time did not suffice for."""
    own = OwnInputs(graph, held)
    found: dict[int, tuple[np.ndarray, float]] = {}
    computed = list(computed_tensors(graph))
    for number, tensor in enumerate(computed):
        if number and not goes_on(TIME_FOR_OWN_ERRORS):
            return found, len(computed) - number
        values = held(tensor)
        if values is None or numpy_dtype(graph.tensors[tensor].dtype).kind in "iubc":
            continue
        right = own.values(tensor)
        if right is None or right.shape != values.shape or not right.size:
            continue
        with np.errstate(all="ignore"):
            wide = right.astype(np.float64)
            # Equal infinities are no error.
            error = np.where(np.isfinite(wide), values.astype(np.float64) - wide, 0.0)
        deviation = float_deviation(values.reshape(-1), right.reshape(-1), 0.0)
        if error.any():
            found[tensor] = error, deviation.relative
    return found, 0
