"""Translate words of RK3588 registers to named fields and back.

The facts (offsets, bits, meanings, sources) are in `registers.toml` beside this module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import NamedTuple

from npuviz.base.errors import FormatError
from npuviz.formats.rk3588.register_data import (
    TARGETS_WITHOUT_REGISTER,
    Block,
    Register,
    load_blocks,
)


@dataclass(frozen=True, slots=True)
class Word:
    """One 64-bit command: `value` goes to the register at `offset` of the block with code `target`."""

    target: int
    value: int
    offset: int

    @property
    def packed(self) -> int:
        """The word as one number: target 63:48, value 47:16, offset 15:0 (source: D TRM, XML)."""
        return self.target << 48 | self.value << 16 | self.offset

    @classmethod
    def unpacked(cls, packed: int) -> "Word":
        """Make a word from one number below 2^64."""
        return cls(packed >> 48 & 0xFFFF, packed >> 16 & 0xFFFFFFFF, packed & 0xFFFF)

    def __str__(self) -> str:
        return f"{self.packed:016x}"


EMPTY = Word(0, 0, 0)
"""The word that fills streams and ends chains."""


class DecodedField(NamedTuple):
    """One field of a register value.

    `value` is the number in the bits (two's complement for signed fields); `text` shows it, e.g.
    "4 columns" for a width stored minus 1.
    """

    name: str
    value: int
    text: str


@dataclass(frozen=True, slots=True)
class DecodedRegister:
    """A decoded register write; reserved bits appear as fields only if they are not 0."""

    block: str
    name: str
    fields: tuple[DecodedField, ...]

    def __getitem__(self, field: str) -> int:
        for each in self.fields:
            if each.name == field:
                return each.value
        raise KeyError(field)

    def __str__(self) -> str:
        return f"{self.block} {self.name}: " + ", ".join(f"{each.name} {each.text}" for each in self.fields)


class RegisterDatabase:
    """All known registers, found by stream target and offset or by name."""

    def __init__(self, blocks: Mapping[str, Block]) -> None:
        self.blocks = blocks
        self._block_of_target = {block.target: block for block in blocks.values() if block.target is not None}

    @cached_property
    def by_offset(self) -> dict[int, Register]:
        """Register by its 16-bit offset, only those that belong to a window (PC to GLOBAL)."""
        return {
            register.offset: register
            for block in self.blocks.values()
            if block.target not in TARGETS_WITHOUT_REGISTER
            for register in block.registers.values()
        }

    def block_of(self, target: int, *, file: str = "register word", at: int | None = None) -> Block:
        """Return the block with this stream target code. Raises FormatError if there is none."""
        block = self._block_of_target.get(target)
        if block is None:
            known = ", ".join(f"{code:04x}" for code in sorted(self._block_of_target))
            raise FormatError(
                file, offset=at, field="target", expected=f"one of {known}", found=f"{target:04x}"
            )
        return block

    def register(self, block: str, name: str) -> Register:
        """Return the register of a block by name. Raises FormatError if either is unknown."""
        owner = self.blocks.get(block)
        if owner is None:
            raise FormatError(
                "register database", field="block", expected=", ".join(self.blocks), found=block
            )
        found = owner.registers.get(name)
        if found is None:
            raise FormatError(
                "register database", field=f"block {block}", expected="a register of it", found=name
            )
        return found

    def find(
        self, target: int, offset: int, *, file: str = "register word", at: int | None = None
    ) -> Register:
        """Return the register that a word writes. Raises FormatError for unknown targets and offsets."""
        block = self.block_of(target, file=file, at=at)
        register = block.by_offset.get(offset)
        if register is None:
            owner = self.by_offset.get(offset)
            hint = f"{offset:#06x} is {owner.block} {owner.name}" if owner else ""
            raise FormatError(
                file,
                offset=at,
                field=f"register {offset:#06x}",
                expected=f"a register of {block.name} (target {target:04x})",
                found=f"offset {offset:#06x}",
                hint=hint,
            )
        return register

    def decode(
        self, target: int, offset: int, value: int, *, file: str = "register word", at: int | None = None
    ) -> DecodedRegister:
        """Decode a register write into named fields, highest bits first.

        `file` and `at` (a byte offset) are for the message only. Raises FormatError if the target or
        the register is unknown or the value has more than 32 bits.
        """
        register = self.find(target, offset, file=file, at=at)
        if not 0 <= value < 1 << 32:
            raise FormatError(file, offset=at, field=register.name, expected="32 bits", found=str(value))
        shown = []
        for field in register.fields:
            held = field.extract(value)
            if held or not field.reserved:
                shown.append(DecodedField(field.name, held, field.text(held)))
        return DecodedRegister(register.block, register.name, tuple(shown))

    def encode(self, block: str, register: str, **fields: int) -> Word:
        """Make the word that writes a register; fields not named are 0.

        Values are those in the bits, as `decode` returns them: a width of 4 stored minus 1 is 3.
        Raises FormatError for unknown names, values that do not fit, and blocks no stream can reach.
        """
        found = self.register(block, register)
        target = self.blocks[block].target
        if target is None:
            raise FormatError(
                found.where,
                field="target",
                expected="a block that streams reach",
                found=f"block {block}, which has no target code",
            )
        return Word(target, found.encode(fields), found.offset)


def writer(block: str) -> Callable[..., Word]:
    """Return a function that makes words of one block: (register, field=value ...) -> word, see
    `RegisterDatabase.encode`."""

    # Cached: most words of a task equal those of the task before, and tables are written again and again.
    @lru_cache(maxsize=1 << 16)
    def write(register: str, **fields: int) -> Word:
        return registers().encode(block, register, **fields)

    return write


@cache
def registers() -> RegisterDatabase:
    """Return the package's database, loaded once; it must not be changed."""
    return RegisterDatabase(load_blocks())
