"""Find instructions whose results overwrite operands that they have not read yet.


Assumed: engines take the elements of a partition in the order of the access patterns, and write an element
when they have read its operands. How far they read ahead is not published, so a chip may compute some of
these correctly. A result in exactly the place of its operand is correct.
"""

import numpy as np

from npuviz.targets.neuroncore.isa import DST, DTYPE_BYTES, SRC0, SRC1, Opcode, Space
from npuviz.targets.neuroncore.tables import Tables

_IN_ORDER = (
    *(Opcode.ACTIVATION, Opcode.TENSOR_COPY, Opcode.TENSOR_COPY_PREDICATED, Opcode.TENSOR_TENSOR),
    *(Opcode.TENSOR_SCALAR, Opcode.SCALAR_TENSOR_TENSOR, Opcode.TENSOR_TENSOR_SCAN, Opcode.TENSOR_REDUCE),
    *(Opcode.RECIPROCAL, Opcode.AFFINE_SELECT, Opcode.TENSOR_SCALAR_CUMULATIVE, Opcode.RANGE_SELECT),
    *(Opcode.SELECT_REDUCE, Opcode.TENSOR_SCALAR_REDUCE, Opcode.EXPONENTIAL, Opcode.STREAM_SHUFFLE),
)
"""Opcodes that read the n-th element, or group of elements, of each operand for the n-th of the result."""
_BYTES = np.array(DTYPE_BYTES, np.int64)


def overlaps(tables: Tables) -> dict[int, str]:
    """Return {instruction: text that names the bytes it overwrites before it has read them}."""
    code = tables.instructions
    operands = code["operands"]
    space = operands["space"]
    low, high = _reach(operands)
    first = operands["partition"].astype(np.int64)
    end = first + operands["partitions"]
    is_on_chip = (space[:, DST] == Space.SBUF) | (space[:, DST] == Space.PSUM)
    chosen = is_on_chip & np.isin(code["opcode"], _IN_ORDER)
    found: dict[int, str] = {}
    for source in (SRC0, SRC1):
        meets = chosen & (space[:, source] == space[:, DST])
        meets &= (low[:, source] < high[:, DST]) & (low[:, DST] < high[:, source])
        meets &= (first[:, source] < end[:, DST]) & (first[:, DST] < end[:, source])
        for index in np.flatnonzero(meets).tolist():
            place = _overwritten(operands[index, DST], operands[index, source])
            if place >= 0 and index not in found:
                bank = max(first[index, source], first[index, DST])
                name = Space(int(space[index, DST])).name
                found[index] = f"{name} {place:#x} of bank {bank}"
    return found


def _reach(operands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first byte, and one past the last, that each operand touches in a partition."""
    item = _BYTES[operands["dtype"]]
    reach = (operands["sizes"].astype(np.int64) - 1) * operands["steps"]
    address = operands["address"].astype(np.int64)
    low = address + np.minimum(reach, 0).sum(axis=2) * item
    return low, address + (np.maximum(reach, 0).sum(axis=2) + 1) * item


def _starts(operand: np.void) -> tuple[np.ndarray, int]:
    """Return the byte addresses of an operand's elements in a partition, in order, and the bytes of one."""
    item = DTYPE_BYTES[int(operand["dtype"])]
    starts = np.array([int(operand["address"])], np.int64)
    for size, step in zip(operand["sizes"].tolist(), operand["steps"].tolist(), strict=True):
        starts = (starts[:, None] + np.arange(size) * (step * item)).reshape(-1)
    return starts, item


def _overwritten(target: np.void, source: np.void) -> int:
    """Return a byte that an element writes and a later element reads, -1 if there is none."""
    written, item = _starts(target)
    read, width = _starts(source)
    # Operands of one value, or repeated in a way that depends on the opcode, are not checked.
    if len(read) % len(written) or (len(read) == len(written) == 1):
        return -1
    if item == width and len(read) == len(written) and np.array_equal(read, written):
        return -1
    base = min(int(written.min()), int(read.min()))
    room = max(int(written.max()) + item, int(read.max()) + width) - base
    never = len(written)
    by = np.full(room, never, np.int64)
    for byte in range(item):
        np.minimum.at(by, written - base + byte, np.arange(len(written)))
    share = len(read) // len(written)
    turn = np.arange(len(read)) // share
    for byte in range(width):
        late = np.flatnonzero(by[read - base + byte] < turn)
        if len(late):
            return int(read[late[0]]) + byte
    return -1
