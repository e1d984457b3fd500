"""Find computations with integers whose result an earlier instruction has left in a register.

Compilers compute such values once. Ref: FAB section 10j: seven operations share two loads, a product and a
multiply-add share the product; section 12c, rule M3: what the rounds of a loop have in common is computed
once. Floats are left as written: whether an instruction waits for a float is found while the program runs.
"""

from collections.abc import Sequence

from npuviz.targets.wavelet.kernels import isa

_TWO_SOURCES = range(isa.OP_ADD, isa.OP_MAX + 1)
_ONE_SOURCE = (*range(isa.OP_NEG, isa.OP_ABS + 1), isa.OP_CVT, isa.OP_WRAP)
_COMMUTE = (isa.OP_ADD, isa.OP_MUL, isa.OP_AND, isa.OP_OR, isa.OP_XOR, isa.OP_MIN, isa.OP_MAX)
_JUMPS = (isa.OP_JMP, isa.OP_JZ, isa.OP_JNZ, isa.OP_MAP_TEST)
_ONLY_READS = {isa.OP_ST, isa.OP_STX, *_JUMPS, isa.OP_RET, isa.OP_ASSERT, isa.OP_ACTIVATE, isa.OP_DSD}

Row = Sequence[int]


def repeated(rows: Sequence[Row]) -> dict[int, int]:
    """Map the position of each repeated computation to that of an earlier one with the same result.

    An instruction that a jump leads to, a call and an unconditional jump make all earlier results unknown.
    """
    targets = {row[isa.C_IMM] for row in rows if row[isa.C_OP] in _JUMPS}
    found: dict[int, int] = {}
    values: dict[int, int] = {}  # register -> number of the value in it
    known: dict[tuple[int, ...], int] = {}  # computation -> number of its value
    made: dict[int, int] = {}  # number of a value -> position of what computed it
    fresh = 0
    for at, row in enumerate(rows):
        if at in targets:
            values, known = {}, {}
        op, to = row[isa.C_OP], row[isa.C_A]
        for register in (row[isa.C_B], row[isa.C_C]):
            if register not in values:
                fresh += 1
                values[register] = fresh
        key = _computation(row, values)
        if op == isa.OP_MOV:
            values[to] = values[row[isa.C_B]]
        elif key and key in known:
            values[to] = known[key]
            if op != isa.OP_LI:
                found[at] = made[known[key]]
        elif op in (isa.OP_JMP, isa.OP_RET, isa.OP_CALL, isa.OP_CALLI):
            values, known = {}, {}
        elif op not in _ONLY_READS:
            fresh += 1
            values[to] = fresh
            if key:
                known[key], made[fresh] = fresh, at
    return found


def _computation(row: Row, values: dict[int, int]) -> tuple[int, ...]:
    """Return a key that is equal for equal computations, () if the result is no function of registers."""
    op, kind = row[isa.C_OP], row[isa.C_TYPE]
    if op == isa.OP_LI:
        return op, kind, row[isa.C_IMM]
    if kind >= isa.T_F16:
        return ()
    if op in _ONE_SOURCE:
        return op, kind, values[row[isa.C_B]], row[isa.C_IMM], row[isa.C_AUX]
    if op not in _TWO_SOURCES:
        return ()
    left = values[row[isa.C_B]]
    if row[isa.C_C] < 0:
        return op, kind, left, -1, row[isa.C_IMM]
    right = values[row[isa.C_C]]
    if op in _COMMUTE:
        left, right = min(left, right), max(left, right)
    return op, kind, left, right, 0
