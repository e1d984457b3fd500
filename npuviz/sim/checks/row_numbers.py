"""Find indices of rows that do not exist, where a MatMul with a matrix of ones and zeros picks the rows."""

from collections.abc import Iterator

import numpy as np

from npuviz.program.graph import Graph
from npuviz.sim.checks.births import Held
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.machine import Hazard

ROW_NUMBERS = "row numbers"
"""Last part of the name of a constant that holds all valid row numbers, from the front and from the back; an
Equal compares the given indices with it. The part before the last "/" names the operator."""


def wrong_row_numbers(graph: Graph, held: Held, cycle: int) -> Iterator[Hazard]:
    """Yield one hazard for each operator that got the index of a row that does not exist: it picked zeros.

    held  returns a tensor's values, None if no memory holds them: then nothing is checked
    """
    for node in graph.nodes:
        if node.op_type != "Equal":
            continue
        for number, names in (node.inputs, node.inputs[::-1]):
            operator, _, what = graph.tensors[names].name.rpartition("/")
            if what != ROW_NUMBERS or names not in graph.constants:
                continue
            given = held(number)
            if given is None:
                continue
            known = graph.constants[names]
            wrong = given[~np.isin(given, known)]
            if wrong.size:
                text = f"{operator}: index {wrong.reshape(-1)[0]} is outside {known.min()}..{known.max()}"
                more = f", and {wrong.size - 1} more" if wrong.size > 1 else ""
                yield hazard_of("index-range", cycle, "", -1, text + more, operator)
