"""Find from the graph whose results each operator may read."""

from collections.abc import Collection, Iterable

import numpy as np

from npuviz.program.graph import Graph


def readable_sources(
    graph: Graph, present: Iterable[int], read_through: Collection[str] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Return the operators whose results each operator may read:
    first row (operators + 1,) int64, and their ids (int64).

    present  operators that have steps of their own. One without steps is computed with others: its producers
             count for its readers. Other readers of an input count as sources too: they may have moved it.
    read_through  kinds of operators whose readers may read their inputs instead, with or without steps
    Nodes that are lines of a program text have no inputs: the result is then empty.
    """
    own = set(present)
    # A single operator has no other one to read from.
    if len(own - {-1}) < 2 or not any(node.inputs for node in graph.nodes):
        return np.zeros(len(graph.nodes) + 1, np.int64), np.zeros(0, np.int64)
    behind: list[frozenset[int]] = []
    tensors: list[frozenset[int]] = []
    for node in graph.nodes:
        inputs = {tensor for tensor in node.inputs if tensor >= 0}
        before = {graph.tensors[tensor].producer for tensor in inputs} - {-1}
        # Nodes come in an order in which they can run.
        passed = [
            each
            for each in before
            if (each not in own or graph.nodes[each].op_type in read_through) and each < len(behind)
        ]
        behind.append(frozenset(before).union(*(behind[each] for each in passed)))
        tensors.append(frozenset(inputs).union(*(tensors[each] for each in passed)))
    readers: dict[int, set[int]] = {}
    for node in graph.nodes:
        for tensor in tensors[node.id]:
            readers.setdefault(tensor, set()).add(node.id)
    rows = [sorted(behind[n].union(*(readers[t] for t in tensors[n]))) for n in range(len(graph.nodes))]
    first = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)]).astype(np.int64)
    return first, np.array([each for row in rows for each in row], dtype=np.int64)
