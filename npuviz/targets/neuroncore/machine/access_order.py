"""What instructions and transfers of a program touch, for comparing the order of accesses of two runs.

Entry i is instruction i, entry n + i the transfer that instruction i triggers.
"""

import numpy as np

from npuviz.program.graph import Graph
from npuviz.sim.access_order import AccessTable
from npuviz.sim.replay.versions import both_phases
from npuviz.targets.neuroncore.ids import hbm_memory
from npuviz.targets.neuroncore.isa import Flag
from npuviz.targets.neuroncore.machine.accesses import access_rows, transfer_accesses
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Tables, Transfer

_COLUMNS = 7


def access_table(spec: NeuronSpec, tables: Tables, graph: Graph, *, has_values: bool) -> AccessTable:
    """The rows of all instructions and transfers."""
    operands, of_instruction = access_rows(spec, tables, graph)
    moves, of_transfer = transfer_accesses(spec, tables)
    count = len(tables.instructions)
    empty = np.zeros((0, _COLUMNS), np.int64)
    parts: list[np.ndarray] = []
    for index, (first, number) in enumerate(of_instruction.tolist()):
        is_trigger = tables.transfer_of[index] >= 0
        parts.append(empty if is_trigger else operands[first : first + number, :_COLUMNS])
    flags = tables.instructions["flags"]
    for index, transfer in enumerate(tables.transfer_of.tolist()):
        if transfer < 0:
            parts.append(empty)
            continue
        first, number = of_transfer[transfer].tolist()
        rows = moves[first : first + number, :_COLUMNS]
        if flags[index] & (Flag.GATHER_SOURCE | Flag.SCATTER_TARGET):
            rows = _anywhere(spec, tables, tables.transfers[transfer], rows)
        first, number = of_instruction[index].tolist()
        read = operands[first : first + number, :_COLUMNS]
        parts.append(np.concatenate([rows, read[read[:, 1] == 0]]))
    lengths = np.array([len(part) for part in parts], np.int64)
    left_out = () if has_values else ("values: the file holds none, so that only orders are compared",)
    return AccessTable(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate(parts) if parts else empty,
        np.concatenate([np.arange(count), np.arange(count)]),
        left_out,
    )


def _anywhere(spec: NeuronSpec, tables: Tables, transfer: Transfer, rows: np.ndarray) -> np.ndarray:
    """Rows of a transfer by indices, which may touch any byte of its variables in HBM."""
    rows = rows.copy()
    place = 0
    for descriptor in transfer.descriptors:
        for access in (*descriptor.sources, descriptor.to):
            if access.variable != SBUF and rows[place, 0] == hbm_memory(spec):
                variable = tables.variables[access.variable]
                rows[place, 4:6] = variable.address, variable.address + variable.size_bytes
            place += 1
    return rows


def access_order(log: np.ndarray, count: int) -> np.ndarray:
    """The order of a log of completions. count  instructions of the program"""
    entries = np.where(log[:, 0] >= 0, log[:, 0], count - 1 - log[:, 0])
    return both_phases(entries, log[:, 1])
