"""Write instructions as text, one line each."""

from collections.abc import Sequence

import numpy as np

from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet import wafer as tables
from npuviz.targets.wavelet.kernels import isa as k

_TYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "bf16", "cb16", "word")
_THREE = range(k.OP_ADD, k.OP_MAX + 1)
_COMPARE = range(k.OP_EQ, k.OP_GE + 1)
_TWO = range(k.OP_NEG, k.OP_ABS + 1)


def instruction_text(
    row: Sequence[int] | np.ndarray,
    functions: Sequence[tables.Function] = (),
    operations: np.ndarray | None = None,
) -> str:
    """Return an instruction as text, as in `add.i16 r3, r1, 4`; function and operation tables give names."""
    op, a, b, c, imm, aux, kind, _ = (int(word) for word in row)
    name = isa.name_of("OP_", op)
    typed = f"{name}.{_TYPES[kind]}" if 0 <= kind < len(_TYPES) else name
    if op in _THREE or op in _COMPARE:
        return f"{typed} r{a}, r{b}, {imm if c < 0 else f'r{c}'}"
    if op in _TWO:
        return f"{typed} r{a}, r{b}"
    if op in (k.OP_LD, k.OP_ST):
        return f"{typed} r{a}, {_address(b, imm)}"
    if op in (k.OP_LDX, k.OP_STX):
        return f"{typed} r{a}, {_address(b, imm)}[r{c}*{aux}]"
    if op in (k.OP_JMP, k.OP_JZ, k.OP_JNZ, k.OP_MAP_TEST):
        return f"{name} {imm}" if op == k.OP_JMP else f"{name} {_subject(op, a)}, {imm}"
    if op in (k.OP_CALL, k.OP_CALLI):
        callee = f"r{aux}" if op == k.OP_CALLI else _function(imm, functions)
        return f"{_result(a)}{name} {callee}({', '.join(f'r{b + n}' for n in range(c))})"
    if op == k.OP_RET:
        return f"ret r{a}" if a >= 0 else "ret"
    if op == k.OP_DSD:
        return _operation(imm, operations)
    return _other(op, typed, (a, b, c, imm, aux))


def _other(op: int, typed: str, words: tuple[int, int, int, int, int]) -> str:
    a, b, c, imm, aux = words
    name = isa.name_of("OP_", op)
    texts = {
        k.OP_LI: f"{typed} r{a}, {imm}",
        k.OP_MOV: f"mov r{a}, r{b}",
        k.OP_LEA: f"lea r{a}, frame+{imm}",
        k.OP_COPY: f"copy [r{a}], [r{b}+{imm}], {aux} bytes",
        k.OP_FILL: f"{typed} [r{a}+{imm}] x {aux}, r{b}",
        k.OP_ASSERT: f"assert r{a}",
        k.OP_SELECT: f"select r{a}, r{aux} ? r{b} : r{c}",
        k.OP_CVT: f"{typed}.{_TYPES[aux] if 0 <= aux < len(_TYPES) else aux} r{a}, r{b}",
        k.OP_WRAP: f"wrap r{a}, r{b}, {'i' if aux else 'u'}{imm}",
        k.OP_MATH: f"{isa.name_of('M_', imm)}.{typed.partition('.')[2]} r{a}, r{b}"
        + (f", r{c}" if c >= 0 else ""),
        k.OP_DSD_SET: f"set_{isa.name_of('F_', imm)} r{a}, r{b}, r{c}",
        k.OP_DSD_MOVE: f"move_dsd r{a}, r{b}, r{c} * {imm}",
        k.OP_DSR_LOAD: f"{'dsr_base' if imm == k.DSR_BASE else 'load_dsr'} "
        f"{('dest', 'src0', 'src1')[a] if 0 <= a < 3 else a}{b}, r{c}",
        k.OP_MAP_OPEN: f"{typed} cursor{a}, r{b}",
        k.OP_MAP_READ: f"map_read r{a}, cursor{b}",
        k.OP_MAP_WRITE: f"map_write cursor{b}, r{a}",
        k.OP_ACTIVATE: f"activate r{a}",
        k.OP_BLOCK: f"block {isa.name_of('ID_', aux)} r{a}",
        k.OP_UNBLOCK: f"unblock {isa.name_of('ID_', aux)} r{a}",
        k.OP_SYS: f"{_result(a)}sys {isa.name_of('S_', imm)}"
        + "".join(f" r{register}" for register in (b, c, aux) if register >= 0),
        k.OP_NOP: "nop",
    }
    return texts.get(op, f"{name} {a}, {b}, {c}, {imm}, {aux}")


def _operation(row: int, operations: np.ndarray | None) -> str:
    if operations is None or not 0 <= row < len(operations):
        return f"dsd #{row}"
    words = [int(word) for word in operations[row]]
    operands: list[str] = []
    for kind, register in ((words[k.O_DST_KIND + n], words[k.O_DST + n]) for n in range(4)):
        if kind != k.OPERAND_NONE:
            operands.append(f"[r{register}]" if kind == k.OPERAND_POINTER else f"r{register}")
    text = f"{isa.name_of('D_', words[k.O_OPERATION])} {', '.join(operands)}"
    if words[k.O_ASYNC]:
        text += " async"
    for column, name in (
        (k.O_ACTIVATE, "activate"),
        (k.O_UNBLOCK, "unblock"),
        (k.O_INDEX, "index"),
        (k.O_UT, "ut"),
    ):
        if words[column] >= 0:
            text += f" {name}=r{words[column]}"
    return text


def _address(base: int, offset: int) -> str:
    return f"[{offset}]" if base < 0 else f"[r{base}+{offset}]"


def _result(register: int) -> str:
    return f"r{register} = " if register >= 0 else ""


def _subject(op: int, register: int) -> str:
    return f"{register} cursors" if op == k.OP_MAP_TEST else f"r{register}"


def _function(index: int, functions: Sequence[tables.Function]) -> str:
    return functions[index].name if 0 <= index < len(functions) else f"#{index}"
