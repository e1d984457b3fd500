"""Find the operands of the DPU's stages BS and BN that lie in memory, one per channel: which kinds, and
where."""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.targets.rk3588.task.work import FLOATS, Output, Stage, bits

BLOCK = 8
"""Channels per block of operands. Ref: measured in vendor int8 files, see `sizes_of`."""
KINDS = ("alu", "cpend", "mul", "shift")
_SIZES = (4, 2, 2, 1)
_CPEND = 2
_DATA_FORMAT = 0x4010


@dataclass(frozen=True, slots=True)
class StageRegisters:
    """Offsets of a stage's registers: configuration, reader's configuration, address of the operands."""

    config: int
    reader: int
    address: int


BS = StageRegisters(0x4040, 0x501C, 0x5020)
BN = StageRegisters(0x4060, 0x5028, 0x502C)


def calculates_floats(registers: Mapping[int, int]) -> bool:
    """Return whether the DPU calculates in fp32."""
    return bits(registers.get(_DATA_FORMAT, 0), 2, 0) in FLOATS


def wanted_kinds(registers: Mapping[int, int], stage: Stage, at: StageRegisters) -> set[str]:
    """Return the kinds of operands that a stage takes from memory. CPEND is not among them: CORE takes it."""
    found: set[str] = set()
    if stage.alu >= 0 and stage.alu_from_memory:
        found.add("alu")
    if stage.has_mul and stage.mul_from_memory:
        found.add("mul")
    if stage.has_mul and registers.get(at.config + 8, 0) & 2 and not calculates_floats(registers):
        found.add("shift")
    return found


def data_use(registers: Mapping[int, int], at: StageRegisters, wanted: set[str]) -> int:
    """Return the reader's data_use (TRM): bit n says that it reads KINDS[n]. If it is 0, the wanted kinds."""
    told = bits(registers.get(at.reader, 0), 4, 1)
    return told or sum(1 << number for number, kind in enumerate(KINDS) if kind in wanted)


def sizes_of(use: int) -> list[tuple[str, int]]:
    """Return (kind, bytes per operand) of what a reader reads, in the order of each block.

    Blocks of 8 channels hold 8 of each kind: measured in vendor int8 files, whose blocks are 8 ALU, 8 CPEND
    and 8 MUL operands, 64 bytes. Assumed: shifts, which no such file has.
    """
    return [(kind, _SIZES[number]) for number, kind in enumerate(KINDS) if use >> number & 1]


def operand_bytes(channels: int, use: int) -> int:
    """Return the bytes from the first operand to the end of the last one that the channels need."""
    sizes = [size for _, size in sizes_of(use)]
    if not sizes or channels <= 0:
        return 0
    blocks = -(-channels // BLOCK)
    missing = blocks * BLOCK - channels
    return blocks * BLOCK * sum(sizes) - missing * sizes[-1]


def takes_weight_offsets(registers: Mapping[int, int]) -> bool:
    """Return whether CORE adds a CPEND operand of its kernel to every weight."""
    return bool(registers.get(0x4050, 0) & 1 and bits(registers.get(BS.reader, 0), 4, 1) & _CPEND)


def operand_ranges(registers: Mapping[int, int], output: Output) -> list[tuple[str, int, int]]:
    """Return (stage, low, high) of what BS and BN, and CORE by the reader of BS, read from memory."""
    found: list[tuple[str, int, int]] = []
    for name, stage, at in (("BS", output.bs, BS), ("BN", output.bn, BN)):
        wanted = wanted_kinds(registers, stage, at)
        if wanted or (at is BS and takes_weight_offsets(registers)):
            low = registers.get(at.address, 0)
            size = operand_bytes(output.channels, data_use(registers, at, wanted))
            found.append((name, low, low + size))
    return found
