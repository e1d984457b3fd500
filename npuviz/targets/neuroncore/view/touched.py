"""Find the bytes of SBUF and PSUM that the access patterns of an instruction touch, masked ones left out."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from npuviz.program.instruction import Touched
from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.ids import memory_of_space, partition_bytes
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Tables

MAX_ELEMENTS = 1 << 18
MAX_RUNS = 1024
"""A pattern with more elements or separate pieces is given by the range from its first byte to its last."""
MAX_ACCESSES = 4096
"""Most accesses of a transfer that are looked at."""

_Run = tuple[int, int, bool, int]
"""Memory, length, whether it is written, and offset in the partition."""


def touched_by(tables: Tables, spec: NeuronSpec, index: int, core: int) -> tuple[Touched, ...]:
    """Return the bytes that an instruction and the transfer that it starts touch, reads first."""
    found: dict[_Run, set[int]] = {}
    for place, operand in enumerate(tables.instructions[index]["operands"]):
        space = int(operand["space"])
        if space not in (isa.Space.SBUF, isa.Space.PSUM):
            continue
        item = isa.DTYPE_BYTES[int(operand["dtype"])]
        steps = operand["steps"].astype(np.int64) * item
        memory, is_written = memory_of_space(core, space), place in (isa.DST, isa.RES)
        first = int(operand["partition"])
        partitions = range(first, first + int(operand["partitions"]))
        for low, length in _runs(int(operand["address"]), operand["sizes"].tolist(), steps.tolist(), item):
            found.setdefault((memory, length, is_written, low), set()).update(partitions)
    transfer = int(tables.transfer_of[index])
    if transfer >= 0:
        chosen, pitch = tables.transfers[transfer], partition_bytes(spec, isa.Space.SBUF)
        memory = memory_of_space(chosen.core, isa.Space.SBUF)
        accesses = [(each, False) for one in chosen.descriptors for each in one.sources]
        accesses += [(one.to, True) for one in chosen.descriptors]
        for access, is_written in [each for each in accesses if each[0].variable == SBUF][:MAX_ACCESSES]:
            first = access.offset // pitch
            for partition, low, length in _access_runs(access, pitch):
                found.setdefault((memory, length, is_written, low), set()).add(first + partition)
    joined = (
        Touched(memory, first * _pitch(spec, memory) + low, length, banks, is_written)
        for (memory, length, is_written, low), partitions in found.items()
        for first, banks in _ranges(sorted(partitions))
    )
    return tuple(sorted(joined, key=lambda each: (each.is_written, each.memory, each.address)))


def _pitch(spec: NeuronSpec, memory: int) -> int:
    return partition_bytes(spec, isa.Space.PSUM if memory % 2 else isa.Space.SBUF)


def _access_runs(access: Access, pitch: int) -> list[tuple[int, int, int]]:
    """Return (partition from the first one, offset in it, length) of the pieces of a descriptor's pattern."""
    dims = list(zip(access.sizes, access.steps, strict=True))
    unit = 1
    if dims and dims[0][1] == 1:
        unit, dims = dims[0][0], dims[1:]
    # Steps of whole partitions are kept apart, so that pieces are those of a partition.
    inside = [dim for dim in dims if dim[1] == 0 or dim[1] % pitch]
    partitions = np.zeros(1, dtype=np.int64)
    for size, step in (dim for dim in dims if dim not in inside):
        partitions = np.unique(np.add.outer(partitions, np.arange(size) * (step // pitch)))
    pieces = _runs(access.offset % pitch, [dim[0] for dim in inside], [dim[1] for dim in inside], unit)
    return [
        (each + low // pitch, low % pitch, length) for each in partitions.tolist() for low, length in pieces
    ]


def _runs(offset: int, sizes: Sequence[int], steps: Sequence[int], unit: int) -> list[tuple[int, int]]:
    """Return (offset, length) of the separate pieces of a pattern of elements of `unit` bytes, rising."""
    reach = [(size - 1) * step for size, step in zip(sizes, steps, strict=True)]
    low, high = offset + sum(min(each, 0) for each in reach), offset + sum(max(each, 0) for each in reach)
    whole = [(low, high + unit - low)]
    if prod(sizes) == 0:
        return []
    if prod(sizes) > MAX_ELEMENTS:
        return whole
    places = np.array([offset], dtype=np.int64)
    for size, step in zip(sizes, steps, strict=True):
        places = np.add.outer(places, np.arange(size, dtype=np.int64) * step).ravel()
    places = np.unique(places)
    begins = np.flatnonzero(np.diff(places, prepend=places[0] - unit - 1) > unit)
    ends = np.append(begins[1:], len(places)) - 1
    if len(begins) > MAX_RUNS:
        return whole
    return list(zip(places[begins].tolist(), (places[ends] + unit - places[begins]).tolist(), strict=True))


def _ranges(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of each range of consecutive numbers."""
    first = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            yield numbers[first], place + 1 - first
            first = place + 1
