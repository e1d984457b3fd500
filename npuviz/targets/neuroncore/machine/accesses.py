"""List the bytes that instructions and transfers touch, for stop conditions, last writers and regions.


A row is (memory, is write, first partition, partitions, low, high, pitch): bytes low..high-1 of each
of the partitions; in HBM one partition, absolute addresses. Strided patterns give their whole extent.
"""

import numpy as np

from npuviz.program.graph import Graph, Node
from npuviz.targets.neuroncore.ids import hbm_memory, memory_of_space, partition_bytes
from npuviz.targets.neuroncore.isa import DST, DTYPE_BYTES, RES, Opcode, Space
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Tables, Transfer

_BYTES = np.array(DTYPE_BYTES, dtype=np.int64)


def instruction_cores(spec: NeuronSpec, tables: Tables) -> np.ndarray:
    """Return the core of each instruction, (n,) int64; the host counts as core 0."""
    cores = np.zeros(len(tables.instructions), dtype=np.int64)
    for number, (first, end) in enumerate(tables.sequencers.tolist()):
        cores[first:end] = number // 5 if number < 5 * tables.num_cores else 0
    return cores


def access_rows(spec: NeuronSpec, tables: Tables, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (m, ACCESS.num_words), and (n, 2) first row and number of rows of each instruction."""
    code = tables.instructions
    operands = code["operands"]
    sizes, steps = operands["sizes"].astype(np.int64), operands["steps"].astype(np.int64)
    item = _BYTES[operands["dtype"]]
    reach = (sizes - 1) * steps
    low = operands["address"].astype(np.int64) + np.minimum(reach, 0).sum(axis=2) * item
    high = operands["address"].astype(np.int64) + (np.maximum(reach, 0).sum(axis=2) + 1) * item
    space = operands["space"].astype(np.int64)
    present = (space == Space.SBUF) | (space == Space.PSUM)
    cores = instruction_cores(spec, tables)[:, None]
    write = np.zeros(space.shape, dtype=np.int64)
    write[:, [DST, RES]] = 1
    pitch = np.where(space == Space.SBUF, spec.sbuf_partition_bytes, spec.psum_partition_bytes)
    columns = [
        cores * 2 + space - Space.SBUF,
        write,
        operands["partition"].astype(np.int64),
        operands["partitions"].astype(np.int64),
        low,
        high,
        pitch,
    ]
    rows = np.stack(columns, axis=2)[present]
    counts = present.sum(axis=1)
    ranges = np.stack([np.cumsum(counts) - counts, counts], axis=1)
    return _with_host(spec, tables, graph, rows, ranges)


def _with_host(
    spec: NeuronSpec, tables: Tables, graph: Graph, rows: np.ndarray, ranges: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Append the rows of Host calls, which access HBM."""
    found: list[np.ndarray] = [rows]
    length = len(rows)
    for index in np.flatnonzero(tables.instructions["opcode"] == Opcode.HOST_CALL).tolist():
        node = graph.nodes[int(tables.instructions["id"][index])]
        added = host_rows(spec, tables, node)
        ranges[index] = (length, len(added))
        found.append(added)
        length += len(added)
    return np.concatenate(found), ranges


def host_rows(spec: NeuronSpec, tables: Tables, node: Node) -> np.ndarray:
    """Return the rows of a Host call: all bytes of the variables of its inputs and outputs."""
    homes = {variable.tensor: variable for variable in tables.variables if variable.tensor >= 0}
    rows: list[tuple[int, ...]] = []
    for write, tensors in ((0, node.inputs), (1, node.outputs)):
        for tensor in tensors:
            if tensor in homes:
                home = homes[tensor]
                end = home.address + home.size_bytes
                rows.append((hbm_memory(spec), write, 0, 1, home.address, end, spec.hbm_bytes))
    return np.array(rows, dtype=np.int64).reshape(len(rows), sk.ACCESS.num_words)


def transfer_accesses(spec: NeuronSpec, tables: Tables) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of descriptors, and (transfers, 2) first row and number of rows of each transfer."""
    rows: list[tuple[int, ...]] = []
    ranges = np.zeros((len(tables.transfers), 2), dtype=np.int64)
    for number, transfer in enumerate(tables.transfers):
        first = len(rows)
        for descriptor in transfer.descriptors:
            rows += [_row(spec, tables, transfer, source, 0) for source in descriptor.sources]
            rows.append(_row(spec, tables, transfer, descriptor.to, 1))
        ranges[number] = (first, len(rows) - first)
    return np.array(rows, dtype=np.int64).reshape(len(rows), sk.ACCESS.num_words), ranges


def _row(spec: NeuronSpec, tables: Tables, transfer: Transfer, access: Access, write: int) -> tuple[int, ...]:
    low = high = access.offset
    for size, step in zip(access.sizes, access.steps, strict=True):
        reach = (size - 1) * step
        low, high = low + min(reach, 0), high + max(reach, 0)
    if access.variable != SBUF:
        base = tables.variables[access.variable].address
        return (hbm_memory(spec), write, 0, 1, base + low, base + high + 1, spec.hbm_bytes)
    pitch = partition_bytes(spec, Space.SBUF)
    first, last = low // pitch, high // pitch
    inside = access.offset % pitch
    low = high = inside
    for size, step in zip(access.sizes, access.steps, strict=True):
        if abs(step) < pitch:
            low, high = low + min((size - 1) * step, 0), high + max((size - 1) * step, 0)
    memory = memory_of_space(transfer.core, Space.SBUF)
    return (memory, write, first, last - first + 1, low, high + 1, pitch)
