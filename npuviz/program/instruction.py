"""Describe instructions as the debugger shows them; a program may generate them on demand."""

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True, slots=True)
class Operand:
    """A range of a memory that an instruction reads or writes.

    memory   id of a memory of the machine description
    address  byte address; for banked memories relative to the bank the instruction runs in
    size_bytes, tensor  length, and the tensor the bytes belong to (-1: none)
    """

    memory: int
    address: int
    size_bytes: int
    tensor: int = -1


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, decoded for people.

    index    position in the program, 0-based, unique
    unit     id of the unit of the machine description that executes it
    opcode   mnemonic; text is the whole line of the listing (mnemonic and operands)
    node     id of the graph node it belongs to, -1 if none; tile is its tile, -1 if none
    """

    index: int
    unit: int
    opcode: str
    text: str
    node: int = -1
    tile: int = -1
    reads: tuple[Operand, ...] = ()
    writes: tuple[Operand, ...] = ()


class Listing(Protocol):
    """All instructions of a program, addressable by index without being stored one by one."""

    def __len__(self) -> int: ...

    def describe(self, index: int) -> Instruction:
        """Decode one instruction. Raises IndexError outside 0..len-1."""
        ...

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the graph node ids (int32, -1 none) of instruction indices (int64), same shape."""
        ...

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the unit ids (int32, -1 none) of instruction indices (int64), same shape."""
        ...

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first written operand of each instruction:
        (address int64, size_bytes int64, tensor int32)."""
        ...

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a graph node, rising."""
        ...

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        """Return the half-open ranges of instructions that a unit's sequencer holds, in program order."""
        ...


DependencyKind = Literal["flow", "anti", "output", "accumulate"]


@dataclass(frozen=True, slots=True)
class Dependency:
    """`sink` must wait for `source` (instruction indices).

    flow        sink reads what source wrote
    anti        sink overwrites what source read
    output      sink overwrites what source wrote
    accumulate  sink adds to what source wrote
    """

    source: int
    sink: int
    kind: DependencyKind


@runtime_checkable
class HasDependencies(Protocol):
    """A listing that knows which instructions depend on each other."""

    def dependencies_of(self, index: int) -> tuple[Dependency, ...]:
        """Return all dependencies that have this instruction as source or sink, by source then sink."""
        ...


@dataclass(frozen=True, slots=True)
class DetailTable:
    """A small table about one instruction: columns of text, one row for each item."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@runtime_checkable
class HasDetails(Protocol):
    """A listing that has tables about its instructions: operands, DMA descriptors."""

    def details_of(self, index: int) -> tuple[DetailTable, ...]:
        """Return tables about one instruction. Raises IndexError outside 0..len-1."""
        ...


@dataclass(frozen=True, slots=True)
class Touched:
    """Bytes that an instruction's access patterns touch: the same ones of `banks` consecutive banks.

    address  byte address in the memory, in the first of the banks
    """

    memory: int
    address: int
    size_bytes: int
    banks: int
    is_written: bool


@runtime_checkable
class HasTouched(Protocol):
    """A listing that knows which bytes of a memory an instruction touches, without those between them."""

    def touched_by(self, index: int) -> tuple[Touched, ...]:
        """Return the separate pieces that an instruction reads and writes, those read first.
        Raises IndexError outside the listing."""
        ...
