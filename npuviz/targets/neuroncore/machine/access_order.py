"""Build the table of what instructions and transfers touch, for comparing the order of accesses of runs.

Entry i is instruction i, entry n + i the transfer that instruction i triggers.
"""

import numpy as np

from npuviz.sim.access_order import DENSE, SPARSE, AccessTable
from npuviz.sim.replay.versions import both_phases
from npuviz.targets.neuroncore.ids import hbm_memory
from npuviz.targets.neuroncore.isa import Flag
from npuviz.targets.neuroncore.machine.program_accesses import ProgramAccesses
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Tables, Transfer

_COLUMNS = 7


def access_table(
    spec: NeuronSpec, tables: Tables, accesses: ProgramAccesses, *, has_values: bool
) -> AccessTable:
    """Build the rows of all instructions and transfers."""
    operands, of_instruction, _ = accesses.operands
    moves, of_transfer, is_dense = accesses.moves
    count, behind = len(tables.instructions), len(operands)
    rows = np.concatenate([operands, moves.reshape(-1, operands.shape[1])])[:, :_COLUMNS]
    kinds = np.concatenate([accesses.operand_kinds, np.where(is_dense, DENSE, SPARSE)])
    patterns = _numbered(accesses.operand_patterns, len(moves))
    parts: list[np.ndarray] = []
    for index, (first, number) in enumerate(of_instruction.tolist()):
        is_trigger = tables.transfer_of[index] >= 0
        parts.append(np.arange(first, first if is_trigger else first + number))
    flags = tables.instructions["flags"]
    for index, transfer in enumerate(tables.transfer_of.tolist()):
        if transfer < 0:
            parts.append(np.arange(0))
            continue
        first, number = of_transfer[transfer].tolist()
        moved = np.arange(behind + first, behind + first + number)
        if flags[index] & (Flag.GATHER_SOURCE | Flag.SCATTER_TARGET):
            rows[moved] = _anywhere(spec, tables, tables.transfers[transfer], rows[moved])
            kinds[moved] = SPARSE
        first, number = of_instruction[index].tolist()
        read = np.arange(first, first + number)
        parts.append(np.concatenate([moved, read[rows[read, 1] == 0]]))
    lengths = np.array([len(part) for part in parts], np.int64)
    chosen = np.concatenate(parts) if parts else np.arange(0)
    left_out = () if has_values else ("values: the file holds none, so that only orders are compared",)
    return AccessTable(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rows[chosen],
        np.concatenate([np.arange(count), np.arange(count)]),
        left_out,
        has_values=has_values,
        kinds=kinds[chosen],
        patterns=patterns[chosen],
        exact=accesses,
    )


def _numbered(patterns: np.ndarray, more: int) -> np.ndarray:
    """Number the rows of patterns, equal rows alike; then append `more` different numbers."""
    _, numbers = np.unique(patterns, axis=0, return_inverse=True)
    return np.concatenate([numbers.reshape(-1), len(patterns) + np.arange(more)]).astype(np.int64)


def _anywhere(spec: NeuronSpec, tables: Tables, transfer: Transfer, rows: np.ndarray) -> np.ndarray:
    """Return the rows of an indexed transfer widened to the whole of its variables in HBM."""
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
    """Return the order of accesses of a log of completions; `count`: instructions of the program."""
    entries = np.where(log[:, 0] >= 0, log[:, 0], count - 1 - log[:, 0])
    return both_phases(entries, log[:, 1])
