"""Find the first wrong instruction: trace wrong elements to the transfer and instruction that wrote them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.targets.neuroncore.isa import DST, DTYPE_BYTES, ENGINE_NAMES, NUM_ENGINES, RES, Opcode, Space
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor
from npuviz.targets.neuroncore.values.engine import ValueEngine


@dataclass(frozen=True, slots=True)
class Bad:
    """Wrong elements of a tensor.

    elements     flat bool: which are wrong
    position, instruction  where in the log the first of them was computed, and by which instruction; -1: to
    be found from the transfers that stored the tensor
    """

    tensor: int
    elements: np.ndarray
    position: int = -1
    instruction: int = -1


Where = Callable[[int], str]
"""Function that returns an instruction's place in a program text, "" if it has none."""


def _nowhere(instruction: int) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Located:
    """The instruction that wrote the first wrong element of a tensor.

    position     place in the log, -1 if unknown
    text         description of the instruction, "" if unknown;  instruction  its number, -1 if unknown
    """

    tensor: int
    position: int
    text: str
    instruction: int


def first_divergence(
    engine: ValueEngine, graph: Graph, log: np.ndarray, failed: list[Bad], where: Where = _nowhere
) -> tuple[str, int]:
    """Return a text about the tensor that is wrong first in the log and its instruction, and the number
    of that instruction, -1 if unknown."""
    if not failed:
        return "", -1
    found = [_located(engine, log, bad, where) for bad in failed]
    known = [each for each in found if each.position >= 0]
    first = min(known, key=lambda each: each.position) if known else found[0]
    name = graph.tensors[first.tensor].name
    return f"{name} ({first.text})" if first.text else name, first.instruction


def _located(engine: ValueEngine, log: np.ndarray, bad: Bad, where_of: Where = _nowhere) -> Located:
    if bad.instruction >= 0:
        return Located(bad.tensor, bad.position, _name(engine, bad.instruction), bad.instruction)
    number = engine.variable_of(bad.tensor)
    variable = engine.tables.variables[number]
    writers = _writers(engine, log, number)
    item = numpy_dtype(variable.dtype).itemsize
    last = np.full(len(bad.elements), -1, np.int64)
    for position, descriptor in writers:
        indices = _element_offsets(descriptor.to, item) // item
        inside = indices[(indices >= 0) & (indices < len(last))]
        last[inside] = position
    wrong = np.flatnonzero(bad.elements)
    positions = last[wrong]
    if (positions < 0).all():
        return _host_call(engine, log, bad.tensor)
    wrong, positions = wrong[positions >= 0], positions[positions >= 0]
    first = int(positions.argmin())
    position, element = int(positions[first]), int(wrong[first])
    trigger = -1 - int(log[position])
    text = f"stored by the transfer of instruction {trigger}{_at(where_of(trigger))}"
    for where, descriptor in writers:
        if where == position:
            computed = _computed_by(engine, log, position, descriptor, element * item, item)
            if computed >= 0:
                text = f"{_name(engine, computed)}{_at(where_of(computed))}, {text}"
                return Located(bad.tensor, position, text, computed)
    return Located(bad.tensor, position, text, trigger)


def _at(place: str) -> str:
    return f" at {place}" if place else ""


def _host_call(engine: ValueEngine, log: np.ndarray, tensor: int) -> Located:
    producer = engine.graph.tensors[tensor].producer
    rows = engine.tables.instructions
    calls = np.flatnonzero((rows["opcode"] == Opcode.HOST_CALL) & (rows["id"] == producer))
    for index in calls.tolist():
        positions = np.flatnonzero(log == index)
        if len(positions):
            return Located(tensor, int(positions[0]), _name(engine, index), index)
    return Located(tensor, -1, "never written", -1)


def _name(engine: ValueEngine, index: int) -> str:
    row = engine.tables.instructions[index]
    return f"instruction {index}, {Opcode(int(row['opcode'])).name} on {ENGINE_NAMES[int(row['engine'])]}"


def _writers(engine: ValueEngine, log: np.ndarray, number: int) -> list[tuple[int, Descriptor]]:
    """Return (position, descriptor) of the transfers in the log that write a variable."""
    found: list[tuple[int, Descriptor]] = []
    transfers, transfer_of = engine.tables.transfers, engine.tables.transfer_of
    touching = [any(d.to.variable == number for d in transfer.descriptors) for transfer in transfers]
    for position in np.flatnonzero(log < 0).tolist():
        which = int(transfer_of[-1 - int(log[position])])
        if which >= 0 and touching[which]:
            found += [(position, d) for d in transfers[which].descriptors if d.to.variable == number]
    return found


def _element_offsets(access: Access, item: int) -> np.ndarray:
    """Return the byte offsets of an access' elements in its order; of its bytes if elements are divided."""
    dims = list(zip(reversed(access.sizes), reversed(access.steps), strict=True))
    if dims[-1][1] == 1 and dims[-1][0] % item == 0:
        dims[-1] = (dims[-1][0] // item, item)
    found = np.array([access.offset], np.int64)
    for size, step in dims:
        found = (found[:, None] + np.arange(size, dtype=np.int64) * step).reshape(-1)
    return found


def _computed_by(
    engine: ValueEngine, log: np.ndarray, position: int, descriptor: Descriptor, to_byte: int, item: int
) -> int:
    """Return the last instruction before `position` that wrote the source of an element; -1 if unknown."""
    source = descriptor.sources[0]
    if source.variable != SBUF:
        return -1
    targets = _element_offsets(descriptor.to, item)
    place = np.flatnonzero(targets // item == to_byte // item)
    if not len(place):
        return -1
    # A cast moves elements of other sizes: take the one at the same relative position in the pattern.
    origins = _element_offsets(source, max(1, source.num_bytes * item // descriptor.to.num_bytes))
    at = int(place[0]) * len(origins) // len(targets)
    partition, byte = divmod(int(origins[at]), engine.spec.sbuf_partition_bytes)
    trigger = -1 - int(log[position])
    core = engine.tables.transfers[int(engine.tables.transfer_of[trigger])].core
    rows = engine.tables.instructions
    bounds = engine.tables.sequencers
    for where in range(position - 1, -1, -1):
        entry = int(log[where])
        if entry < 0:
            continue
        sequencer = int(np.searchsorted(bounds[:, 1], entry, side="right"))
        if sequencer // NUM_ENGINES == core and _covers(rows[entry], partition, byte):
            return entry
    return -1


def _covers(row: np.ndarray, partition: int, byte: int) -> bool:
    """Return whether the box around an instruction's results includes a byte of SBUF."""
    for position in (DST, RES):
        operand = row["operands"][position]
        if int(operand["space"]) != Space.SBUF:
            continue
        first = int(operand["partition"])
        if not first <= partition < first + int(operand["partitions"]):
            continue
        item = DTYPE_BYTES[int(operand["dtype"])]
        low = high = int(operand["address"])
        for size, step in zip(operand["sizes"].tolist(), operand["steps"].tolist(), strict=True):
            reach = (size - 1) * step * item
            low, high = low + min(0, reach), high + max(0, reach)
        if low <= byte < high + item:
            return True
    return False
