"""Computes reference values of a graph's tensors, in groups that fit in memory together."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from npuviz.onnx.reference import run_reference
from npuviz.program.graph import Graph

_GROUP_BYTES = 256 << 20
_KEPT_GROUPS = 2


class References:
    """Values that ONNX Runtime computes (one thread, no optimisation) from a model's inputs.

    inputs  graph input name -> array
    tensors  to compute; asking for them in this order avoids repeated runs
    """

    def __init__(self, graph: Graph, inputs: Mapping[str, np.ndarray], tensors: Sequence[int]) -> None:
        self._graph = graph
        self.inputs = inputs
        self._groups = list(_groups(graph, tensors))
        self._group_of = {index: number for number, group in enumerate(self._groups) for index in group}
        self._kept: OrderedDict[int, dict[int, np.ndarray]] = OrderedDict()

    def get(self, tensor: int) -> np.ndarray:
        """Return the values of a tensor, an input or a constant. Raises FormatError if ONNX Runtime refuses
        the model."""
        given = self._graph.constants.get(tensor)
        if given is None:
            given = self.inputs.get(self._graph.tensors[tensor].name)
        if tensor not in self._group_of and given is not None:
            return given
        number = self._group_of[tensor]
        found = self._kept.get(number)
        if found is None:
            if len(self._kept) >= _KEPT_GROUPS:
                self._kept.popitem(last=False)
            found = self._kept[number] = run_reference(self._graph, self.inputs, self._groups[number])
        self._kept.move_to_end(number)
        return np.asarray(found[tensor])


def _groups(graph: Graph, tensors: Sequence[int]) -> Iterator[list[int]]:
    group: list[int] = []
    size = 0
    for index in tensors:
        group.append(index)
        size += graph.tensors[index].num_elements * 8
        if size > _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
