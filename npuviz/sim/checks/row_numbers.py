"""Numbers of rows that there are not, where a product with a matrix of ones and zeros picks the rows."""

from collections.abc import Iterator

import numpy as np

from npuviz.program.graph import Graph
from npuviz.sim.checks.births import Held
from npuviz.sim.checks.kinds import hazard_of
from npuviz.sim.machine import Hazard

ROW_NUMBERS = "row numbers"
"""Ends the name of a constant, behind that of the operator that it stands for: the numbers of all rows, from
the front and from the back, with which an Equal compares those that a run gives."""


def wrong_row_numbers(graph: Graph, held: Held, cycle: int) -> Iterator[Hazard]:
    """One hazard for each operator that was given the number of a row that there is not: it picked zeros.

    held  values of a tensor, None where no memory holds them: then nothing is said
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
