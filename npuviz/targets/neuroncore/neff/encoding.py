"""Encode programs as 64-byte slots: npuviz's own encoding, described in docs/neuron-isa.md.

An instruction is a head slot, then one slot for each two operands that are present. A DMA_COPY ends
with the transfer it starts: a transfer slot, and per descriptor a descriptor slot, slots of eight
scales, and a slot for each access. Little-endian.
"""

from collections.abc import Mapping

import numpy as np

from npuviz.targets.neuroncore.isa import (
    INSTRUCTION_DTYPE,
    OPERAND_DTYPE,
    SLOT_BYTES,
    Space,
)
from npuviz.targets.neuroncore.tables import Access, Descriptor, DescriptorOp, Transfer, TriggerKind

VERSION = 1
"""Version of the encoding: the high nibble of byte 1 of every head slot."""
MARK = 0x80
"""Bit 7 of byte 7 of every head slot; bits 0..5 tell which operands are present."""
TRANSFER_MARK, DESCRIPTOR_MARK, ACCESS_MARK = 0xD1, 0xD2, 0xD3
MAX_REMOTES = 8
MAX_DESCRIPTORS = 1 << 20

ACCESS_DTYPES = (
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16"),
    *("float32", "float64", "bool", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "int4", "uint4", "int2", "uint2"),
    *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
    "float8_e4m3",
)
"""Element types of DMA accesses, by number."""
OPS: tuple[DescriptorOp, ...] = ("copy", "cast", "add", "fma", "min", "max", "transpose")
TRIGGERS: tuple[TriggerKind, ...] = ("static", "hardware DGE", "software DGE")

TRANSFER_SLOT = np.dtype(
    {
        "names": [
            "mark",
            "trigger",
            "first_queue",
            "remotes",
            "queue",
            "descriptors",
            "semaphore",
            "event",
            "remote",
        ],
        "formats": ["u1", "u1", "u1", "u1", "<u4", "<u4", "<i4", "<i4", ("<u2", MAX_REMOTES)],
        "offsets": [0, 1, 2, 3, 4, 8, 12, 16, 20],
        "itemsize": SLOT_BYTES,
    }
)
DESCRIPTOR_SLOT = np.dtype(
    {
        "names": [
            "mark",
            "op",
            "sources",
            "scales",
            "has_constant",
            "transpose",
            "constant",
            "shape",
            "element_size",
        ],
        "formats": ["u1", "u1", "u1", "u1", "u1", "u1", "<f8", ("<u4", 4), "<u4"],
        "offsets": [0, 1, 2, 3, 4, 5, 8, 16, 32],
        "itemsize": SLOT_BYTES,
    }
)
ACCESS_SLOT = np.dtype(
    [
        ("mark", "u1"),
        ("rank", "u1"),
        ("dtype", "u1"),
        ("reserved", "u1"),
        ("variable", "<i4"),
        ("offset", "<i8"),
        ("steps", "<i8", 4),
        ("sizes", "<u4", 4),
    ]
)
OPERANDS_AT = 64
NUM_OPERANDS = 6


def encode(instructions: np.ndarray, transfers: Mapping[int, Transfer]) -> bytes:
    """Encode the slots of one program; `transfers` holds the transfer of each DMA_COPY by instruction.

    Raises ValueError for a transfer that does not fit its slots.
    """
    count = len(instructions)
    raw = np.ascontiguousarray(instructions).view(np.uint8).reshape(count, INSTRUCTION_DTYPE.itemsize)
    present = instructions["operands"]["space"] != Space.NONE
    num_present = present.sum(axis=1)
    tails = {index: _transfer_slots(transfer) for index, transfer in transfers.items()}
    lengths = 1 + (num_present + 1) // 2
    for index, tail in tails.items():
        lengths[index] += len(tail) // SLOT_BYTES
    starts = np.concatenate([[0], np.cumsum(lengths)])
    out = np.zeros((int(starts[-1]), SLOT_BYTES), np.uint8)
    heads = raw[:, :SLOT_BYTES].copy()
    heads[:, 1] |= VERSION << 4
    heads[:, 7] = MARK | (present << np.arange(NUM_OPERANDS)).sum(axis=1)
    out[starts[:-1]] = heads
    rank = np.cumsum(present, axis=1) - 1
    row, position = np.nonzero(present)
    at = starts[:-1][row] * SLOT_BYTES + SLOT_BYTES + rank[row, position] * OPERAND_DTYPE.itemsize
    flat = out.reshape(-1)
    operands = raw[:, OPERANDS_AT:].reshape(count, NUM_OPERANDS, OPERAND_DTYPE.itemsize)
    flat[at[:, None] + np.arange(OPERAND_DTYPE.itemsize)] = operands[row, position]
    for index, tail in tails.items():
        end = int(starts[index + 1]) * SLOT_BYTES
        flat[end - len(tail) : end] = np.frombuffer(tail, np.uint8)
    return out.tobytes()


def _transfer_slots(transfer: Transfer) -> bytes:
    slot = np.zeros(1, TRANSFER_SLOT)
    remotes = transfer.remote_semaphores
    if len(remotes) > MAX_REMOTES:
        raise ValueError(f"a transfer with {len(remotes)} remote semaphores; at most {MAX_REMOTES}")
    slot["mark"] = TRANSFER_MARK
    slot["trigger"] = TRIGGERS.index(transfer.trigger)
    slot["first_queue"] = transfer.first_queue
    slot["queue"] = transfer.queue
    slot["descriptors"] = len(transfer.descriptors)
    slot["semaphore"], slot["event"] = transfer.semaphore, transfer.event
    slot["remotes"] = len(remotes)
    slot["remote"][0, : len(remotes)] = remotes
    parts = [slot.tobytes()]
    for each in transfer.descriptors:
        parts += _descriptor_slots(each)
    return b"".join(parts)


def _descriptor_slots(descriptor: Descriptor) -> list[bytes]:
    slot = np.zeros(1, DESCRIPTOR_SLOT)
    shape = descriptor.transpose_shape
    if len(shape) > 4 or len(descriptor.sources) > 16 or len(descriptor.scales) > 16:
        raise ValueError("a descriptor takes 16 sources and scales, and a transpose shape of 4")
    slot["mark"] = DESCRIPTOR_MARK
    slot["op"] = OPS.index(descriptor.op)
    slot["sources"], slot["scales"] = len(descriptor.sources), len(descriptor.scales)
    slot["has_constant"] = descriptor.constant is not None
    slot["constant"] = descriptor.constant or 0.0
    slot["transpose"] = len(shape)
    slot["shape"][0, : len(shape)] = shape
    slot["element_size"] = descriptor.element_size
    parts = [slot.tobytes()]
    for first in range(0, len(descriptor.scales), 8):
        scales = np.zeros(8, "<f8")
        chosen = descriptor.scales[first : first + 8]
        scales[: len(chosen)] = chosen
        parts.append(scales.tobytes())
    return parts + [_access_slot(each) for each in (descriptor.to, *descriptor.sources)]


def _access_slot(access: Access) -> bytes:
    slot = np.zeros(1, ACCESS_SLOT)
    rank = len(access.sizes)
    if rank > 4 or len(access.steps) != rank:
        raise ValueError(f"an access of {rank} sizes and {len(access.steps)} steps; at most 4, and equal")
    slot["mark"], slot["rank"] = ACCESS_MARK, rank
    slot["dtype"] = ACCESS_DTYPES.index(access.dtype)
    slot["variable"], slot["offset"] = access.variable + 1, access.offset
    slot["steps"][0, :rank], slot["sizes"][0, :rank] = access.steps, access.sizes
    return slot.tobytes()
