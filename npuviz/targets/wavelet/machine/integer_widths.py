"""Count how many instructions of the 16-bit datapath an operation on wider integers takes."""

from collections.abc import Sequence

from npuviz.targets.wavelet.kernels import isa

_WORD = 16
"""Bits of an integer operation. Ref: CSL's integer operations have 16 bits, and one of them is `addc16`, an
addition with the carry of the one before (DSD builtins); registers have 16 bits (CSL syntax)."""
_BITS = {isa.T_U32: 32, isa.T_I32: 32, isa.T_U64: 64, isa.T_I64: 64}
_EACH_WORD = {isa.OP_ADD, isa.OP_SUB, isa.OP_AND, isa.OP_OR, isa.OP_XOR, isa.OP_NEG, isa.OP_INV}
_UP_TO_HIGHEST = {isa.OP_ADD, isa.OP_SUB, isa.OP_MUL, isa.OP_NEG}
"""Operations in which a bit of the result depends on the same bit and all lower bits of the operands."""
_COMPARISONS = range(isa.OP_EQ, isa.OP_GE + 1)
_SHORT_JUMPS = (isa.OP_JMP, isa.OP_JZ, isa.OP_JNZ, isa.OP_MAP_TEST)
_TWO_SOURCES = range(isa.OP_ADD, isa.OP_MAX + 1)
_ONE_SOURCE = (*range(isa.OP_NEG, isa.OP_ABS + 1), isa.OP_CVT, isa.OP_WRAP, isa.OP_MOV)
_LOADS = (isa.OP_LD, isa.OP_LDX)
_STORES = (isa.OP_ST, isa.OP_STX)
_INDEXED = (isa.OP_LDX, isa.OP_STX)
_ADDRESSES = {
    isa.OP_COPY: isa.C_A,
    isa.OP_FILL: isa.C_A,
    isa.OP_DSD_MOVE: isa.C_C,
}
"""Instruction -> the column that names a register with an address or an offset."""
_READS: dict[int, tuple[int, ...]] = {
    **dict.fromkeys((isa.OP_NOP, isa.OP_LI, isa.OP_LEA, isa.OP_JMP, isa.OP_MAP_TEST, isa.OP_MAP_READ), ()),
    **dict.fromkeys((isa.OP_JZ, isa.OP_JNZ, isa.OP_RET, isa.OP_ASSERT, isa.OP_MAP_WRITE), (isa.C_A,)),
    **dict.fromkeys((isa.OP_ACTIVATE, isa.OP_BLOCK, isa.OP_UNBLOCK), (isa.C_A,)),
    **dict.fromkeys((isa.OP_SELECT, isa.OP_SYS), (isa.C_B, isa.C_C, isa.C_AUX)),
}
"""Instruction -> columns of the registers that it reads; `b` and `c` for instructions not listed."""
_ALL = (1 << 64) - 1
_ADDRESS = (1 << _WORD) - 1
_FARTHEST = 256
"""Instructions after a result in which its readers are searched; beyond them all its bits count as read."""

Row = Sequence[int]


def extra_cycles(rows: Sequence[Row]) -> dict[int, int]:
    """Return position -> cycles beyond one instruction, for operations on wide integers.

    Sums, differences and logic take an instruction for each 16-bit word of the result that is read later,
    comparisons one for each word; addresses have 16 bits, so that the high words of an index are never
    computed. Products and shifts are composed of 16-bit ones (assumed).
    """
    found: dict[int, int] = {}
    demanded: dict[int, int] = {}
    for at in range(len(rows) - 1, -1, -1):
        row = rows[at]
        bits = _BITS.get(row[isa.C_TYPE], 0)
        if not _makes_integer(row):
            continue
        needed = _read_of(rows, at, demanded)
        demanded[at] = needed
        if bits:
            more = _instructions(row, bits, needed & ((1 << bits) - 1)) - 1
            if more > 0:
                found[at] = more
    return found


def _makes_integer(row: Row) -> bool:
    op, kind = row[isa.C_OP], row[isa.C_TYPE]
    is_operation = op in _TWO_SOURCES or op in _ONE_SOURCE or op in _COMPARISONS
    return is_operation and (kind < isa.T_F16 or op == isa.OP_MOV)


def _instructions(row: Row, bits: int, needed: int) -> int:
    """Return how many instructions an operation on `bits` bits takes; `needed` masks the bits of its result
    that are read."""
    op, words = row[isa.C_OP], bits // _WORD
    if op == isa.OP_AND and row[isa.C_C] < 0:
        needed &= row[isa.C_IMM]
    read = [word for word in range(words) if needed >> word * _WORD & _ADDRESS]
    if op in _COMPARISONS:
        return words
    if op in _EACH_WORD:
        # The carry comes from the lower words.
        return (max(read, default=0) + 1) if op in _UP_TO_HIGHEST else len(read)
    if op == isa.OP_MUL:
        count = max(read, default=0) + 1
        # Assumed: partial products of the words that are read, and the sums of their halves.
        return count * (count + 1) // 2 + count * (count - 1)
    if op in (isa.OP_SHL, isa.OP_SHR):
        return _shift(row, words, needed, read)
    if op in (isa.OP_MIN, isa.OP_MAX):
        return 1 + words  # a comparison, whose last step chooses
    return 1


def _shift(row: Row, words: int, needed: int, read: Sequence[int]) -> int:
    """Return the instructions of a shift.

    A word made of one word of the operand takes one shift (none for a shift by whole words), others two and
    an `or`.
    """
    if row[isa.C_C] >= 0:
        return 3 * len(read)  # by a register, a branch apart: assumed
    amount = row[isa.C_IMM] if row[isa.C_OP] == isa.OP_SHR else -row[isa.C_IMM]
    count = 0
    for word in read:
        bits = needed & (_ADDRESS << word * _WORD)
        source = bits << amount if amount >= 0 else bits >> -amount
        touched = [each for each in range(words) if source >> each * _WORD & _ADDRESS]
        count += 3 if len(touched) > 1 else int(amount % _WORD != 0)
    return count


def _read_of(rows: Sequence[Row], at: int, demanded: dict[int, int]) -> int:
    """Return a mask of the bits of the result of instruction `at` that later ones read, up to the next
    write."""
    register, found, farthest = rows[at][isa.C_A], 0, 0
    for position in range(at + 1, min(len(rows), at + 1 + _FARTHEST)):
        row = rows[position]
        op = row[isa.C_OP]
        found |= _demand(row, register, demanded.get(position, _ALL))
        if found == _ALL:
            return found
        if op in _SHORT_JUMPS:
            if row[isa.C_IMM] <= at:
                return _ALL  # a loop around it
            farthest = max(farthest, row[isa.C_IMM])
        elif _writes(row) and row[isa.C_A] == register and position >= farthest:
            return found
        if op == isa.OP_RET and position >= farthest:
            return found
    return _ALL


def _writes(row: Row) -> bool:
    op = row[isa.C_OP]
    return _makes_integer(row) or op in (*_LOADS, isa.OP_LI, isa.OP_LEA, isa.OP_SELECT) or op in _TWO_SOURCES


def _demand(row: Row, register: int, needed: int) -> int:
    """Return a mask of the bits of `register` that an instruction reads to make the bits `needed` of its
    result."""
    op, kind = row[isa.C_OP], row[isa.C_TYPE]
    a, b, c = row[isa.C_A], row[isa.C_B], row[isa.C_C]
    if op in _LOADS or op in _STORES:
        is_address = register == b or (op in _INDEXED and register == c)
        return (_ADDRESS if is_address else 0) | (_ALL if op in _STORES and register == a else 0)
    if kind < isa.T_F16 and op in _TWO_SOURCES:
        return _of_operand(row, needed) if register in (b, c) else 0
    if op in _ONE_SOURCE and (kind < isa.T_F16 or op == isa.OP_MOV):
        return _of_operand(row, needed) if register == b else 0
    if op in _ADDRESSES:
        return _ADDRESS if register == row[_ADDRESSES[op]] else _ALL if register == b else 0
    if op == isa.OP_DSR_LOAD:
        return 0 if register != c else _ADDRESS if row[isa.C_IMM] == isa.DSR_BASE else _ALL
    if op in (isa.OP_CALL, isa.OP_CALLI):
        is_callee = op == isa.OP_CALLI and register == row[isa.C_AUX]
        return _ALL if b <= register < b + c or is_callee else 0
    if op == isa.OP_DSD:
        return _ALL  # which registers stands in the table of operations
    return _ALL if register in [row[column] for column in _READS.get(op, (isa.C_B, isa.C_C))] else 0


def _of_operand(row: Row, needed: int) -> int:
    op, imm = row[isa.C_OP], row[isa.C_IMM]
    is_constant = row[isa.C_C] < 0
    if op in _UP_TO_HIGHEST:
        return (1 << needed.bit_length()) - 1
    if op == isa.OP_AND and is_constant:
        return needed & imm
    if op in (isa.OP_AND, isa.OP_OR, isa.OP_XOR, isa.OP_INV, isa.OP_MOV):
        return needed
    if op == isa.OP_WRAP:
        return needed & ((1 << imm) - 1)
    if op == isa.OP_CVT:
        bits = {isa.T_U8: 8, isa.T_I8: 8, isa.T_U16: 16, isa.T_I16: 16}.get(row[isa.C_AUX], 64)
        return needed & ((1 << bits) - 1) if row[isa.C_AUX] < isa.T_F16 else _ALL
    is_power = imm > 0 and imm & (imm - 1) == 0
    if is_constant and op == isa.OP_SHL:
        return needed >> imm
    if is_constant and (op == isa.OP_SHR or (op == isa.OP_DIV and is_power)):
        amount = imm if op == isa.OP_SHR else imm.bit_length() - 1
        return (needed << amount) & _ALL
    if is_constant and op == isa.OP_REM and is_power:
        return needed & (imm - 1)
    return _ALL
