"""Find the operators that made the NaNs and infinities of the outputs from inputs without any."""

from collections.abc import Callable, Iterator

import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.machine import Hazard

_MASK = 3
"""Position of the mask among the inputs of an Attention."""
Held = Callable[[int], np.ndarray | None]


def births(graph: Graph, held: Held, cycle: int) -> Iterator[Hazard]:
    """Yield one hazard for each operator that made a NaN or an infinity of an output from finite inputs.

    held  returns a tensor's values, None if no memory holds them: the operators that write and read such a
          tensor are reported together
    """
    counts: dict[int, tuple[int, int] | None] = {}

    def count(tensor: int) -> tuple[int, int] | None:
        if tensor not in counts:
            counts[tensor] = _count(
                graph.constants.get(tensor) if tensor in graph.constants else held(tensor)
            )
        return counts[tensor]

    # Tensors with NaNs or infinities, or unknown ones, each with the operators behind it up to the first
    # known tensor.
    waiting = [(t, ()) for t in graph.outputs if any(count(t) or ())]
    seen = set[int]()
    while waiting:
        tensor, behind = waiting.pop()
        producer = graph.tensors[tensor].producer
        if (
            producer < 0
            and tensor in graph.outputs
            and not any(any(count(each) or ()) for each in graph.inputs)
        ):
            yield _birth_unknown(graph, tensor, count, cycle)
        if producer < 0 or producer in seen:
            continue
        seen.add(producer)
        node = graph.nodes[producer]
        chain = (node, *behind)
        inputs = [each for each in node.inputs if each >= 0]
        before = [(each, ()) for each in inputs if any(count(each) or ())]
        if before:
            waiting += before
            continue
        unknown = [each for each in inputs if count(each) is None and graph.tensors[each].producer >= 0]
        if unknown:
            waiting += [(each, chain) for each in unknown]
            continue
        if _is_meant(graph, node, count):
            continue
        yield _birth(graph, chain, count, cycle)


def _is_meant(graph: Graph, node: Node, count: Callable[[int], tuple[int, int] | None]) -> bool:
    """Whether an operator's definition gives infinities whatever the inputs.

    A maximum over nothing is -infinity; attention puts -infinity where its mask leaves something out.
    """
    if any((count(tensor) or (0, 0))[0] for tensor in node.outputs if tensor >= 0):
        return False
    if node.op_type == "Attention" and not node.domain:
        return bool(node.attributes.get("is_causal")) or any(t >= 0 for t in node.inputs[_MASK : _MASK + 1])
    return any(t >= 0 and graph.tensors[t].num_elements == 0 for t in node.inputs[:1])


def _birth_unknown(
    graph: Graph, tensor: int, count: Callable[[int], tuple[int, int] | None], cycle: int
) -> Hazard:
    """Return the hazard of an output whose producer the graph does not know,
    as in a program of kernel lines."""
    nans, infinities = count(tensor) or (0, 0)
    name = graph.tensors[tensor].name
    text = f"output {name} has {nans} NaNs and {infinities} infinities, and no input has any"
    return hazard_of("nan" if nans else "infinity", cycle, "", -1, text, name)


def _birth(
    graph: Graph, chain: tuple[Node, ...], count: Callable[[int], tuple[int, int] | None], cycle: int
) -> Hazard:
    made = [(graph.tensors[t].name, found) for t in chain[-1].outputs if t >= 0 and (found := count(t))]
    kind = "nan" if any(nans for _, (nans, _) in made) else "infinity"
    amounts = "; ".join(
        f"{name} has {nans} NaNs and {infinities} infinities"
        for name, (nans, infinities) in made
        if nans or infinities
    )
    names = [f"{node.name or node.op_type} ({node.op_type})" for node in chain]
    what = names[0] if len(names) == 1 else f"one of {', '.join(names)}, which are computed together,"
    text = f"{what} made them of finite inputs: {amounts}"
    return hazard_of(kind, cycle, "", -1, text, graph.tensors[chain[-1].outputs[0]].name)


def _count(values: np.ndarray | None) -> tuple[int, int] | None:
    """Count NaNs and infinities of values; None if the values are not known."""
    if values is None:
        return None
    if values.dtype.kind in "biu":
        return 0, 0
    try:
        if np.isfinite(values).all():
            return 0, 0
        return int(np.count_nonzero(np.isnan(values))), int(np.count_nonzero(np.isinf(values)))
    except TypeError:
        return 0, 0  # a type that numpy's isfinite does not take
