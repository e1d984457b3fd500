"""Names and signs of the text form of instructions, shared by disassembler, listing and verifier."""

from collections.abc import Mapping
from enum import IntEnum

from npuviz.targets.neuroncore.isa import (
    DTYPE_NAMES,
    Activation,
    Alu,
    Condition,
    Flag,
    MxFormat,
    Opcode,
    ReduceCmd,
    Space,
    Update,
)

SHORT_DTYPES: tuple[str, ...] = tuple(
    {
        "float32": "f32",
        "bfloat16": "bf16",
        "float16": "f16",
        "tfloat32": "tf32",
        "float8_e4m3": "f8e4",
        "float8_e4m3fn": "f8e4fn",
        "float8_e5m2": "f8e5",
    }.get(name, name.replace("uint", "u").replace("int", "i"))
    for name in DTYPE_NAMES
)
"""Short names of element types, indexed by isa.Dtype."""
SPACES: Mapping[int, str] = {Space.SBUF: "sbuf", Space.PSUM: "psum", Space.PATTERN: "pattern"}
CONDITIONS: Mapping[int, str] = {
    Condition.GE: ">=",
    Condition.GT: ">",
    Condition.LE: "<=",
    Condition.LT: "<",
    Condition.EQ: "==",
    Condition.NE: "!=",
    Condition.ALWAYS: "?",
}
WAIT_LETTERS = ("-", "S", "E")
"""Letters of waits, indexed by their `used`: nothing, a semaphore, an event."""
UPDATES: Mapping[int, tuple[str, str]] = {
    Update.SEM_INC: ("S", "++"),
    Update.SEM_DEC: ("S", "--"),
    Update.SEM_ADD: ("S", "+="),
    Update.SEM_SUB: ("S", "-="),
    Update.SEM_WRITE: ("S", ":="),
    Update.EVENT_SET: ("E", "!"),
    Update.EVENT_CLEAR: ("E", "~"),
}
"""{kind of update: (letter of its semaphore or event, sign)}."""

_ACCUMULATING = frozenset(
    {
        Opcode.ACTIVATION,
        Opcode.TENSOR_SCALAR_CUMULATIVE,
        Opcode.RANGE_SELECT,
        Opcode.SELECT_REDUCE,
        Opcode.TENSOR_SCALAR_REDUCE,
        Opcode.EXPONENTIAL,
    }
)
_ALU_PAIR = frozenset(
    {
        Opcode.TENSOR_SCALAR,
        Opcode.SCALAR_TENSOR_TENSOR,
        Opcode.TENSOR_TENSOR_SCAN,
        Opcode.TENSOR_SCALAR_CUMULATIVE,
        Opcode.RANGE_SELECT,
        Opcode.TENSOR_SCALAR_REDUCE,
    }
)
_ALU = frozenset({Opcode.TENSOR_TENSOR, Opcode.TENSOR_REDUCE, Opcode.AFFINE_SELECT, Opcode.PARTITION_REDUCE})


def _lower(names: type[IntEnum]) -> Mapping[int, str]:
    return {each.value: each.name.lower() for each in names}


_ALUS = _lower(Alu)
_FUNCTIONS = _lower(Activation)
_FORMATS = _lower(MxFormat)
_REGISTERS: Mapping[int, str] = {number: f"r{number}" for number in range(64)}


def op_names(opcode: int) -> tuple[Mapping[int, str], ...]:
    """Return the name tables of op0 and op1 of an opcode: none, one or two."""
    if opcode == Opcode.ACTIVATION:
        return (_FUNCTIONS,)
    if opcode in _ALU_PAIR:
        return (_ALUS, _ALUS)
    if opcode == Opcode.NC_MATMUL_MX:
        return (_FORMATS, _FORMATS)
    if opcode == Opcode.QUANTIZE_MX:
        return (_FORMATS,)
    if opcode in _ALU:
        return (_ALUS,)
    if opcode == Opcode.REG_ALU:
        return (_REGISTERS, _REGISTERS)
    if opcode in (Opcode.REG_MOVE, Opcode.BRANCH):
        return (_REGISTERS,)
    return ()


def cmd_names(opcode: int) -> Mapping[int, str]:
    """Return the name table of an opcode's `cmd`; empty if it is a plain number."""
    if opcode in _ACCUMULATING:
        return _lower(ReduceCmd)
    if opcode in (Opcode.REG_ALU, Opcode.TENSOR_SCALAR):
        return _ALUS
    if opcode == Opcode.BRANCH:
        return _lower(Condition)
    return {}


def has_integers(opcode: int, flags: int) -> bool:
    """Return whether the immediates are int32."""
    return bool(flags & Flag.INTEGER) or opcode in (Opcode.REG_MOVE, Opcode.REG_ALU, Opcode.BRANCH)
