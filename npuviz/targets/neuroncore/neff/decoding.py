"""Decode the slots of a program to instructions; every field is checked before it is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.neff import encoding
from npuviz.targets.neuroncore.tables import Access, Descriptor, Transfer

_SCALE_SLOT = np.dtype([("scales", "<f8", 8)])


@dataclass(frozen=True)
class Decoded:
    """The decoded instructions of one program.

    instructions  (n,) INSTRUCTION_DTYPE
    offsets       (n,) int64: byte offset of each head slot
    transfers     instruction -> the transfer of a DMA_COPY; its queue is the number that stands in the
                  file, its variables are var_ids less one (SBUF is var_id 0)
    """

    instructions: np.ndarray
    offsets: np.ndarray
    transfers: Mapping[int, Transfer]


def decode(program: bytes | memoryview, file: str, engine: isa.Engine, core: int = 0) -> Decoded:
    """Decode the instructions of a program; messages call it `file`.

    Raises FormatError with the slot's offset for anything that `encode` does not write.
    """
    if len(program) % isa.SLOT_BYTES:
        raise FormatError(
            file,
            offset=len(program) - len(program) % isa.SLOT_BYTES,
            expected=f"whole slots of {isa.SLOT_BYTES} bytes",
            found=f"{len(program) % isa.SLOT_BYTES} bytes at the end",
        )
    slots = np.frombuffer(program, np.uint8).reshape(-1, isa.SLOT_BYTES)
    walk = _Walk(slots, file, engine, core)
    walk.run()
    starts = np.array(walk.starts, np.int64)
    if not len(starts):
        return Decoded(np.zeros(0, isa.INSTRUCTION_DTYPE), starts, {})
    raw = np.zeros((len(starts), isa.INSTRUCTION_DTYPE.itemsize), np.uint8)
    raw[:, : isa.SLOT_BYTES] = slots[starts]
    present = (raw[:, 7:8] >> np.arange(encoding.NUM_OPERANDS)) & 1
    raw[:, 1] &= 0x0F
    raw[:, 7] = 0
    row, position = np.nonzero(present)
    rank = (np.cumsum(present, axis=1) - 1)[row, position]
    flat = slots.reshape(-1)
    at = (starts[row] + 1) * isa.SLOT_BYTES + rank * isa.OPERAND_DTYPE.itemsize
    operands = raw[:, encoding.OPERANDS_AT :].reshape(
        len(starts), encoding.NUM_OPERANDS, isa.OPERAND_DTYPE.itemsize
    )
    operands[row, position] = flat[at[:, None] + np.arange(isa.OPERAND_DTYPE.itemsize)]
    instructions = raw.view(isa.INSTRUCTION_DTYPE).reshape(-1)
    offsets = starts * isa.SLOT_BYTES
    _check(instructions, present.astype(bool), offsets, file)
    _refuse_waste(encoding.encode(instructions, walk.transfers), program, file)
    return Decoded(instructions, offsets, walk.transfers)


def _refuse_waste(written: bytes, program: bytes | memoryview, file: str) -> None:
    """Raise FormatError if bytes of the program differ from those that `encode` writes for its
    instructions.
    """
    if written == program:
        return
    different = np.frombuffer(written, np.uint8) != np.frombuffer(program, np.uint8)
    at = int(np.argmax(different))
    raise FormatError(
        file,
        offset=at - at % isa.SLOT_BYTES,
        field=f"byte {at % isa.SLOT_BYTES}",
        expected="zero where nothing is kept",
        found=f"0x{program[at]:02x}",
    )


class _Walk:
    """Walks through the slots of a program: finds the head slots, and decodes the transfers between them."""

    def __init__(self, slots: np.ndarray, file: str, engine: isa.Engine, core: int) -> None:
        self.slots, self.file, self.engine, self.core = slots, file, engine, core
        self.starts: list[int] = []
        self.transfers: dict[int, Transfer] = {}
        self.at = 0

    def run(self) -> None:
        """Collect the head slots in `starts`, and the transfers."""
        # Bytes instead of array elements: a program has a hundred thousand slots.
        opcodes, marks, masks = (self.slots[:, column].tobytes() for column in (0, 1, 7))
        expected = encoding.VERSION << 4 | self.engine
        known = frozenset(int(each) for each in isa.Opcode)
        lengths = [(mask.bit_count() + 1) // 2 + 1 for mask in range(64)]
        while self.at < len(self.slots):
            at = self.at
            if marks[at] != expected:
                self._foreign(marks[at])
            if opcodes[at] not in known:
                self.fail("opcode", "a known opcode", str(opcodes[at]))
            if masks[at] & 0xC0 != encoding.MARK:
                self.fail("byte 7", f"0x{encoding.MARK:02x} and the operands", f"0x{masks[at]:02x}")
            self.at += lengths[masks[at] & 0x3F]
            if self.at > len(self.slots):
                self.at = at
                self.fail("operands", "slots for all operands", "the end of the program")
            if opcodes[at] == isa.Opcode.DMA_COPY:
                number = int(self.slots[at, 20:24].view("<u4")[0])
                self.transfers[len(self.starts)] = self.transfer(number)
            self.starts.append(at)

    def _foreign(self, found: int) -> NoReturn:
        if found >> 4 == encoding.VERSION and found & 15 < len(isa.ENGINE_NAMES):
            self.fail("engine", isa.ENGINE_NAMES[self.engine], isa.ENGINE_NAMES[found & 15])
        self.fail(
            "byte 1",
            f"an instruction of npuviz's encoding (version {encoding.VERSION})",
            f"0x{found:02x}",
            "the vendor's own encoding is not public and cannot be run",
        )

    def fail(self, field: str, expected: str, found: str, hint: str = "") -> NoReturn:
        """Raise a FormatError at the current slot."""
        raise FormatError(
            self.file, offset=self.at * isa.SLOT_BYTES, field=field, expected=expected, found=found, hint=hint
        )

    def _take(self, dtype: np.dtype, mark: int, what: str) -> np.void:
        if self.at >= len(self.slots):
            self.fail(what, "a slot", "the end of the program")
        slot = self.slots[self.at].view(dtype)[0]
        if mark and slot["mark"] != mark:
            self.fail(what, f"mark 0x{mark:02x}", f"0x{int(slot['mark']):02x}")
        return slot

    def transfer(self, number: int) -> Transfer:
        """Decode the transfer that starts at the current slot."""
        slot = self._take(encoding.TRANSFER_SLOT, encoding.TRANSFER_MARK, "transfer")
        count, remotes, trigger = int(slot["descriptors"]), int(slot["remotes"]), int(slot["trigger"])
        if trigger >= len(encoding.TRIGGERS) or slot["first_queue"] > 1 or remotes > encoding.MAX_REMOTES:
            self.fail("transfer", "a known trigger and at most 8 remote semaphores", f"{trigger}, {remotes}")
        left = len(self.slots) - self.at - 1
        if count > encoding.MAX_DESCRIPTORS or count * 3 > left:
            self.fail("transfer", f"descriptors in the {left} slots that follow", f"{count} descriptors")
        self.at += 1
        descriptors = tuple(self._descriptor() for _ in range(count))
        return Transfer(
            number,
            self.core,
            int(slot["queue"]),
            descriptors,
            encoding.TRIGGERS[trigger],
            int(slot["semaphore"]),
            int(slot["event"]),
            tuple(slot["remote"][:remotes].tolist()),
            bool(slot["first_queue"]),
        )

    def _descriptor(self) -> Descriptor:
        slot = self._take(encoding.DESCRIPTOR_SLOT, encoding.DESCRIPTOR_MARK, "descriptor")
        op, sources, num_scales = int(slot["op"]), int(slot["sources"]), int(slot["scales"])
        rank = int(slot["transpose"])
        if op >= len(encoding.OPS) or not 1 <= sources <= 16 or num_scales > 16 or rank > 4:
            self.fail("descriptor", "a known op, 1 to 16 sources, rank up to 4", f"{op}, {sources}, {rank}")
        self.at += 1
        scales: list[float] = []
        while len(scales) < num_scales:
            scales += self._take(_SCALE_SLOT, 0, "scales")["scales"].tolist()
            self.at += 1
        accesses = [self._access() for _ in range(sources + 1)]
        return Descriptor(
            encoding.OPS[op],
            accesses[0],
            tuple(accesses[1:]),
            tuple(scales[:num_scales]),
            float(slot["constant"]) if slot["has_constant"] else None,
            tuple(slot["shape"][:rank].tolist()),
            int(slot["element_size"]),
        )

    def _access(self) -> Access:
        slot = self._take(encoding.ACCESS_SLOT, encoding.ACCESS_MARK, "access")
        rank, dtype, variable = int(slot["rank"]), int(slot["dtype"]), int(slot["variable"])
        if not 1 <= rank <= 4 or dtype >= len(encoding.ACCESS_DTYPES) or variable < 0:
            self.fail("access", "rank 1 to 4, a known dtype, a variable", f"{rank}, {dtype}, {variable}")
        self.at += 1
        return Access(
            variable - 1,
            int(slot["offset"]),
            tuple(slot["steps"][:rank].tolist()),
            tuple(slot["sizes"][:rank].tolist()),
            encoding.ACCESS_DTYPES[dtype],
        )


def _check(instructions: np.ndarray, present: np.ndarray, offsets: np.ndarray, file: str) -> None:
    """Raise FormatError for meaningless fields, and for unused ones that are not zero."""
    operands, waits, updates = instructions["operands"], instructions["waits"], instructions["updates"]
    unused_wait = (waits["used"] == 0) & (
        (waits["semaphore"] != 0) | (waits["condition"] != 0) | (waits["value"] != 0)
    )
    unused_update = (updates["kind"] == isa.Update.NONE) & (
        (updates["semaphore"] != 0) | (updates["when"] != 0) | (updates["value"] != 0)
    )
    on_chip = (operands["space"] == isa.Space.SBUF) | (operands["space"] == isa.Space.PSUM)
    last = operands["partition"].astype(np.int64) + operands["partitions"]
    rules: Sequence[tuple[str, str, np.ndarray]] = (
        (
            "wait",
            "0 to 2 in `used`, a known condition",
            (waits["used"] > 2) | (waits["condition"] > max(isa.Condition)),
        ),
        ("wait", "zeros where there is none", unused_wait),
        (
            "update",
            "a known kind and moment",
            (updates["kind"] > max(isa.Update)) | (updates["when"] > max(isa.When)),
        ),
        ("update", "zeros where there is none", unused_update),
        (
            "operand",
            "SBUF, PSUM or a pattern",
            present & ((operands["space"] == 0) | (operands["space"] > 3)),
        ),
        ("operand", "a known dtype", present & (operands["dtype"] >= len(isa.DTYPE_NAMES))),
        ("operand", "sizes of at least 1", present & (operands["sizes"] == 0).any(axis=2)),
        (
            "operand",
            f"partitions within 0..{isa.NUM_PARTITIONS - 1}",
            on_chip & ((operands["partitions"] == 0) | (last > isa.NUM_PARTITIONS)),
        ),
    )
    for field, expected, is_wrong in rules:
        found = np.flatnonzero(is_wrong.reshape(len(instructions), -1).any(axis=1))
        if len(found):
            raise FormatError(
                file, offset=int(offsets[found[0]]), field=field, expected=expected, found="something else"
            )
