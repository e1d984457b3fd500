"""Compute the cycles of each scalar instruction of a program.

The cost table is corrected for what a compiler does with the text: accesses by 16-bit words, computed
addresses, predicated moves. The rules are those that the totals of published programs show (docs/wavelet.md).
"""

from collections import defaultdict

import numpy as np

from npuviz.targets.wavelet.csl.lower.emitter import LONGEST_PREDICATED
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels.program_records import PREDICATED
from npuviz.targets.wavelet.machine.equal_values import repeated
from npuviz.targets.wavelet.machine.integer_widths import extra_cycles

_MEMORY_WORD = 2
"""Bytes that one load or store of the scalar pipeline moves. Ref: wavelet-fabric.md 1.1; FAB (ld16, st16)."""
_JUMPS = (isa.OP_JMP, isa.OP_JZ, isa.OP_JNZ, isa.OP_MAP_TEST)
_INDEXED = (isa.OP_LDX, isa.OP_STX)
_MOVES = (isa.OP_MOV, isa.OP_LI, isa.OP_NOP)
_ONLY_READS = {isa.OP_ST, isa.OP_STX, *_JUMPS, isa.OP_RET, isa.OP_ASSERT, isa.OP_ACTIVATE, isa.OP_DSD}
_BYTES = {isa.T_U32: 4, isa.T_I32: 4, isa.T_F32: 4, isa.T_U64: 8, isa.T_I64: 8}

Row = list[int]
Key = tuple[int, ...]


def instruction_cycles(code: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Return the cycles of each instruction: (n,) int64, for (n, CODE_WORDS) code and (128,) cycles per OP_
    number.

    A scalar access takes as many loads or stores as the value has 16-bit words; an access to a descriptor
    takes what the table says. The address of `a[i]` takes a shift of the index and an addition of the array's
    address. A value that has been computed already costs nothing. A jump over moves gets the bit PREDICATED:
    it costs the moves, whether it is taken or not.
    """
    ops = code[:, isa.C_OP]
    cycles = costs[ops].astype(np.int64)
    words = np.ones(isa.T_WORD + 1, np.int64)
    for kind, size in _BYTES.items():
        words[kind] = size // _MEMORY_WORD
    is_access = (ops >= isa.OP_LD) & (ops <= isa.OP_STX)
    cycles[is_access] *= words[code[is_access, isa.C_TYPE]]
    rows = code.tolist()
    is_wide = np.isin(code[:, isa.C_TYPE], (isa.T_U32, isa.T_I32, isa.T_U64, isa.T_I64))
    if (is_wide & (ops >= isa.OP_ADD) & (ops <= isa.OP_GE)).any():
        for at, more in extra_cycles(rows).items():
            cycles[at] += more
    if np.isin(ops, _INDEXED).any():
        _Addresses(rows).add_to(cycles)
    for at, first in repeated(rows).items():
        if cycles[first]:  # else it became a part of an address
            cycles[at] = 0
    for at in np.flatnonzero(np.isin(ops, (isa.OP_JZ, isa.OP_JNZ))).tolist():
        _predicate(rows, at, cycles)
    return cycles


def _predicate(rows: list[Row], at: int, cycles: np.ndarray) -> None:
    """Mark a branch over nothing but moves as predicated, and the jump over the moves of its `else`."""
    target = rows[at][isa.C_IMM]
    if not at < target <= at + 1 + LONGEST_PREDICATED:
        return
    last = rows[target - 1]
    has_else = last[isa.C_OP] == isa.OP_JMP and target <= last[isa.C_IMM] <= target + LONGEST_PREDICATED
    then = rows[at + 1 : target - has_else]
    other = rows[target : last[isa.C_IMM]] if has_else else []
    moves = [row for row in (*then, *other) if row[isa.C_OP] != isa.OP_NOP]
    if moves and all(row[isa.C_OP] in _MOVES for row in moves):
        cycles[at] = PREDICATED + len(moves)
        if has_else:
            cycles[target - 1] = PREDICATED


class _Addresses:
    """The addresses that are known to be computed, while one walks through the instructions of a program.

    An address is known if all paths to an instruction have computed it; at the start of a loop, only those
    stay known that the loop does not change.
    """

    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows
        self._known: dict[Key, None] = {}
        self._sums: dict[int, tuple[int, int, int]] = {}
        self._at_target: dict[int, list[set[Key]]] = defaultdict(list)
        self._loop_end: dict[int, int] = {}
        for at, row in enumerate(rows):
            if row[isa.C_OP] in _JUMPS and row[isa.C_IMM] <= at:
                self._loop_end[row[isa.C_IMM]] = at

    def add_to(self, cycles: np.ndarray) -> None:
        """Add to `cycles` the instructions that compute addresses; one that the program has as a sum is not
        counted twice."""
        is_reached = True
        for at, row in enumerate(self._rows):
            self._arrive(at, is_reached)
            op = row[isa.C_OP]
            is_reached = op not in (isa.OP_JMP, isa.OP_RET)
            if op in _INDEXED:
                cycles[at] += self._access(row, cycles)
            if op in _JUMPS and row[isa.C_IMM] > at:
                self._at_target[row[isa.C_IMM]].append(set(self._known))
            elif op not in _ONLY_READS:
                self._write(row[isa.C_A])
            # i + 1 and i - 1 become a part of the address.
            if op in (isa.OP_ADD, isa.OP_SUB) and row[isa.C_C] < 0 and row[isa.C_A] != row[isa.C_B]:
                change = row[isa.C_IMM] if op == isa.OP_ADD else -row[isa.C_IMM]
                self._sums[row[isa.C_A]] = (row[isa.C_B], change, at)

    def _arrive(self, at: int, is_reached: bool) -> None:
        ways = self._at_target.pop(at, [])
        if ways or not is_reached:
            kept = (
                set.intersection(*ways, *([set(self._known)] if is_reached else [])) if ways else set[Key]()
            )
            self._known = {key: None for key in self._known if key in kept} | dict.fromkeys(sorted(kept))
            self._sums = {}
        if at in self._loop_end:
            self._sums = {}
            for row in self._rows[at : self._loop_end[at] + 1]:
                if row[isa.C_OP] not in _ONLY_READS:
                    self._write(row[isa.C_A])

    def _access(self, row: Row, cycles: np.ndarray) -> int:
        index, scale, offset = row[isa.C_C], row[isa.C_AUX], row[isa.C_IMM]
        if index in self._sums:
            index, change, at = self._sums[index]
            cycles[at] = 0
            offset += change * scale
        shift, address = (index, -1, scale), (index, row[isa.C_B], scale, offset)
        count = (scale != 1 and shift not in self._known) + (address not in self._known)
        self._known |= {shift: None, address: None}
        return count

    def _write(self, register: int) -> None:
        self._sums.pop(register, None)
        self._sums = {to: each for to, each in self._sums.items() if each[0] != register}
        self._known = {key: None for key in self._known if register not in key[:2]}
