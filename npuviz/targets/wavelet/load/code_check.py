"""Check that code, operation rows and calls of a PE program stay inside their tables.

Kernels use the columns of an instruction as indices of registers, tables and memory without checking them:
what a column may hold is checked here, once, for every instruction. The contents of registers are checked by
kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.kernels.dsd.dispatch import NUM_CURSORS
from npuviz.targets.wavelet.wafer import Function

MOST_REGISTERS = 4096 - sk.FRAME.num_words
"""Most registers of a function: what a frame may take of REGISTER_LIMIT words (machine/templates.py)."""
NUM_TYPES = isa.T_WORD + 1
_COLUMNS = {"a": isa.C_A, "b": isa.C_B, "c": isa.C_C, "x": isa.C_AUX}
_ARITHMETIC = range(isa.OP_ADD, isa.OP_ABS + 1)
_COMPARISONS = range(isa.OP_EQ, isa.OP_GE + 1)
REGISTERS: dict[int, str] = {
    isa.OP_NOP: "",
    isa.OP_LI: "a",
    isa.OP_MOV: "ab",
    isa.OP_LEA: "a",
    isa.OP_LD: "ab?",
    isa.OP_ST: "ab?",
    isa.OP_LDX: "ab?c",
    isa.OP_STX: "ab?c",
    isa.OP_COPY: "ab",
    isa.OP_FILL: "ab",
    isa.OP_JMP: "",
    isa.OP_JZ: "a",
    isa.OP_JNZ: "a",
    isa.OP_CALL: "a?",
    isa.OP_CALLI: "a?x",
    isa.OP_RET: "a?",
    isa.OP_ASSERT: "a",
    isa.OP_SELECT: "abcx",
    **dict.fromkeys((*_ARITHMETIC, *_COMPARISONS, isa.OP_MATH), "ab?c?"),
    isa.OP_CVT: "ab?",
    isa.OP_WRAP: "ab?",
    isa.OP_DSD_SET: "abc",
    isa.OP_DSD_MOVE: "abc",
    isa.OP_DSD: "",
    isa.OP_DSR_LOAD: "c",
    isa.OP_MAP_OPEN: "b",
    isa.OP_MAP_TEST: "",
    isa.OP_MAP_READ: "a",
    isa.OP_MAP_WRITE: "a",
    isa.OP_ACTIVATE: "a",
    isa.OP_BLOCK: "a",
    isa.OP_UNBLOCK: "a",
    isa.OP_SYS: "a?b?c?x?",
}
"""Instruction -> its columns that name registers; `?` after a column: it may be -1 for none."""
_IDS = (isa.ID_NONE, isa.ID_UT)
_TARGETS = (isa.OP_JMP, isa.OP_JZ, isa.OP_JNZ, isa.OP_MAP_TEST)
_CALLS = (isa.OP_CALL, isa.OP_CALLI)
_HALVES = (isa.T_U16, isa.T_I16, isa.T_F16, isa.T_BF16, isa.T_CB16)
_ELEMENTS = (*_HALVES, isa.T_U32, isa.T_I32, isa.T_F32)
_OPTIONAL = (isa.O_RESULT, isa.O_ACTIVATE, isa.O_UNBLOCK, isa.O_CONTROL_ID, isa.O_INDEX, isa.O_UT)
_SETTINGS = (isa.O_ACTIVATE, isa.O_UNBLOCK, isa.O_CONTROL_ID, isa.O_UT)
_KINDS = slice(isa.O_DST_KIND, isa.O_C_KIND + 1)
_OPERANDS = slice(isa.O_DST, isa.O_C + 1)


@dataclass(frozen=True)
class Wrong:
    """A row with a value that is not allowed: its table, its number, what was expected."""

    table: str
    row: int
    expected: str


def wrong_operation(operations: np.ndarray) -> Wrong | None:
    """Return the first row of an operation table (rows, isa.OPERATION_WORDS) with unknown numbers."""
    known = (
        _between(operations[:, isa.O_OPERATION], 0, isa.NUM_OPERATIONS - 1)
        & _between(operations[:, _KINDS], isa.OPERAND_NONE, isa.OPERAND_POINTER).all(axis=1)
        & _between(operations[:, isa.O_PRIORITY], -1, 2)
        & (operations[:, _OPTIONAL] >= -1).all(axis=1)
    )
    return _first(
        "operations", ~known, "a DSD operation with operands, priority and registers of the machine"
    )


def wrong_code(
    code: np.ndarray, functions: Sequence[Function], operations: np.ndarray, memory_bytes: int
) -> Wrong | None:
    """Return the first instruction that names something outside its tables, or leads out of its function.

    code        (instructions, isa.CODE_WORDS) int64
    functions   with entries inside the code
    operations  in which `wrong_operation` found nothing
    """
    return _Code(code, functions, operations, memory_bytes).wrong()


class _Code:
    def __init__(
        self, code: np.ndarray, functions: Sequence[Function], operations: np.ndarray, memory_bytes: int
    ) -> None:
        self._code = code
        self._op = code[:, isa.C_OP]
        self._functions = functions
        self._operations = operations
        self._memory_bytes = memory_bytes
        entries = np.unique(np.array([f.entry for f in functions], np.int64))
        # Code before the first function is never reached.
        self._owner = np.searchsorted(entries, np.arange(len(code)), side="right") - 1
        self._room = np.zeros(len(code), np.int64)
        """Registers of the function of an instruction; of several that begin together the fewest."""
        for function in sorted(functions, key=lambda f: -f.num_regs):
            group = self._owner == np.searchsorted(entries, function.entry)
            self._room[group] = function.num_regs

    def wrong(self) -> Wrong | None:
        known = np.isin(self._op, list(REGISTERS))
        kinds = _between(self._code[:, isa.C_TYPE], 0, NUM_TYPES - 1)
        tests = (
            (~known, "a known operation"),
            (~kinds, "a known type"),
            (self._wrong_registers(), "registers of its function"),
            (self._wrong_flow(), "to go on inside of its function"),
            (self._wrong_calls(), "a call of a function with as many registers"),
            (self._wrong_rows(), "a row of the operation table with registers of its function"),
            (self._wrong_numbers(), "numbers that the operation knows"),
        )
        found = (_first("code", wrong & (self._owner >= 0), expected) for wrong, expected in tests)
        return next(filter(None, found), None)

    def _is(self, *ops: int) -> np.ndarray:
        return np.isin(self._op, ops)

    def _wrong_registers(self) -> np.ndarray:
        wrong = np.zeros(len(self._code), bool)
        for op, text in REGISTERS.items():
            for place, letter in enumerate(text):
                if letter == "?":
                    continue
                least = -1 if text[place + 1 : place + 2] == "?" else 0
                values = self._code[:, _COLUMNS[letter]]
                wrong |= (self._op == op) & ~_between(values, least, self._room - 1)
        return wrong

    def _wrong_flow(self) -> np.ndarray:
        count = len(self._code)
        following = np.append(self._owner[1:], self._owner[-1:])
        falls = ~self._is(isa.OP_JMP, isa.OP_RET) & (following != self._owner)
        target = self._code[:, isa.C_IMM]
        inside = _between(target, 0, count - 1)
        led = self._owner[np.where(inside, target, 0)] if count else self._owner
        return falls | (self._is(*_TARGETS) & ~(inside & (led == self._owner)))

    def _wrong_calls(self) -> np.ndarray:
        first, count = self._code[:, isa.C_B], self._code[:, isa.C_C]
        given = (count == 0) | ((first >= 0) & (count > 0) & _between(count, 0, self._room - first))
        number = self._code[:, isa.C_IMM]
        named = _between(number, 0, len(self._functions) - 1)
        sizes = np.array([f.num_regs for f in self._functions] or [0], np.int64)
        taken = named & (count <= sizes[np.where(named, number, 0)])
        return (self._is(*_CALLS) & ~given) | (self._is(isa.OP_CALL) & ~taken)

    def _wrong_rows(self) -> np.ndarray:
        table, row = self._operations, self._code[:, isa.C_IMM]
        named = _between(row, 0, len(table) - 1)
        at = np.where(named, row, 0)
        nothing = np.zeros(len(self._code), np.int64)
        full = _registers_needed(table)[at] if len(table) else nothing
        part = table[:, _SETTINGS].max(axis=1)[at] if len(table) else nothing
        runs = named & (full < self._room)
        loads = (row == -1) | (row == isa.DSR_BASE) | (named & (part < self._room))
        return (self._is(isa.OP_DSD) & ~runs) | (self._is(isa.OP_DSR_LOAD) & ~loads)

    def _wrong_numbers(self) -> np.ndarray:
        a, b, imm = self._code[:, isa.C_A], self._code[:, isa.C_B], self._code[:, isa.C_IMM]
        aux, kind = self._code[:, isa.C_AUX], self._code[:, isa.C_TYPE]
        rules = (
            (isa.OP_COPY, _between(aux, 0, self._memory_bytes)),
            (isa.OP_FILL, _between(aux, 0, self._memory_bytes)),
            (isa.OP_CVT, _between(aux, 0, NUM_TYPES - 1)),
            (isa.OP_WRAP, _between(imm, 1, 64)),
            (isa.OP_MATH, _between(imm, isa.M_SQRT, isa.M_LDEXP)),
            (isa.OP_DSD_SET, _between(imm, isa.F_KIND, isa.F_DSR_ID)),
            (isa.OP_DSR_LOAD, _between(a, 0, 2) & _between(b, 0, 31)),
            (isa.OP_MAP_OPEN, _between(a, 0, NUM_CURSORS - 1) & np.isin(kind, _ELEMENTS)),
            (isa.OP_MAP_TEST, _between(a, 0, NUM_CURSORS)),
            (isa.OP_MAP_READ, _between(b, 0, NUM_CURSORS - 1)),
            (isa.OP_MAP_WRITE, _between(b, 0, NUM_CURSORS - 1)),
            (isa.OP_BLOCK, _between(aux, *_IDS)),
            (isa.OP_UNBLOCK, _between(aux, *_IDS)),
            (isa.OP_SYS, _between(imm, isa.S_TSC_ENABLE, isa.S_STOP)),
        )
        wrong = np.zeros(len(self._code), bool)
        for op, good in rules:
            wrong |= (self._op == op) & ~good
        return wrong


def _registers_needed(operations: np.ndarray) -> np.ndarray:
    """Return (rows,) int64: the highest register that an operation names; the largest int64 if a needed one
    is missing."""
    uses = operations[:, _KINDS] != isa.OPERAND_NONE
    operands = np.where(uses, operations[:, _OPERANDS], -1)
    missing = (uses & (operations[:, _OPERANDS] < 0)).any(axis=1)
    needed = np.maximum(operands.max(axis=1), operations[:, _OPTIONAL].max(axis=1))
    return np.where(missing, np.iinfo(np.int64).max, needed)


def _between(values: np.ndarray, least: int, most: "int | np.ndarray") -> np.ndarray:
    return (values >= least) & (values <= most)


def _first(table: str, wrong: np.ndarray, expected: str) -> Wrong | None:
    rows = np.flatnonzero(wrong)
    return Wrong(table, int(rows[0]), expected) if len(rows) else None
