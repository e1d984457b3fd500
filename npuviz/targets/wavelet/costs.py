"""What operations cost, per architecture, each figure with its status and source.

Status: "documented" by the vendor, "measured" by third parties, "assumed" for this project. Tags are those
of docs/wavelet.md: APP (SIMD mode appendix), FAB (WSE-3 characterisation), EX (example programs).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from npuviz.targets.wavelet.kernels import isa

Status = Literal["documented", "measured", "assumed"]


@dataclass(frozen=True, slots=True)
class Rate:
    """The speed of a DSD operation: elements per step, and cycles per step.

    reduce       cycles per element if the destination is a scalar
    two_sources  cycles per element with two sources in memory; 0: no different from one source
    is_by_bank   two_sources applies only if the sources of an element lie in banks equal modulo 4
    """

    elements: int
    cycles: int
    reduce: int
    status: Status
    source: str
    two_sources: int = 0
    is_by_bank: bool = False


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WIDTHS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (
        4,
        8,
        _names("add16 and16 or16 xor16 sub16 mov16 fabsh faddh fmach fmovh fmulh fnegh fnormh fscaleh fsubh"),
    ),
    (2, 4, _names("mov32 fabss fadds fmovs fnegs fnorms fscales fsubs faddhs fmachs")),
    (1, 8, _names("addc16 fmaxh fh2xp16 xp162fh")),
    (1, 4, _names("fmaxs fh2s fs2h fs2xp16 xp162fs sar16 sll16 slr16")),
)
"""(elements per cycle on WSE-2, on WSE-3, operations), at most. Ref: APP."""

_TWO_OPERANDS = _names("add16 and16 or16 xor16 sub16 faddh fsubh fmulh fmach fmaxh addc16")
"""16-bit operations with two memory operands: 8 elements in 2 cycles. Ref: FAB for add16, faddh, fmulh and
fmach; the others alike (assumed)."""


BANKS = (
    "APP: two reads of a cycle need banks that differ modulo 4, else 2 cycles; FAB: 2 for arrays that lie "
    "alike, 1.5 where every second element meets its other source (the attention kernels)"
)


def _documented(column: int) -> dict[str, Rate]:
    found: dict[str, Rate] = {}
    for row in _WIDTHS:
        for name in row[2]:
            found[name] = Rate(row[0] if column == 0 else row[1], 1, 2, "documented", "APP")
    for name in _names("fmacs fmuls clz ctz popcnt dfilt"):
        found[name] = Rate(1, 1, 2, "assumed", "not listed in APP: one element a cycle")
    return found


def _by_bank() -> dict[str, Rate]:
    """Return the rates of the operations that read 32 bits of each source in a cycle."""
    rate = Rate(1, 1, 2, "measured", BANKS, two_sources=2, is_by_bank=True)
    return {"fmacs": rate, "fmuls": rate}


def _wse2() -> dict[str, Rate]:
    found = _documented(0)
    found.update(_by_bank())
    return found


def _wse3() -> dict[str, Rate]:
    found = _documented(1)
    for name in _TWO_OPERANDS:
        found[name] = Rate(8, 2, 2, "measured", "FAB")
    found.update(_by_bank())
    return found


def _wse3_silicon() -> dict[str, Rate]:
    found = _wse3()
    for name in _names("mov16 fmovh"):
        found[name] = Rate(24, 5, 2, "measured", "FAB: 4.82 elements a cycle on silicon")
    for name in _names("mov32 fmovs"):
        found[name] = Rate(12, 5, 2, "measured", "FAB: 2.44 elements a cycle on silicon")
    for name in _TWO_OPERANDS:
        found[name] = Rate(6, 2, 2, "measured", "FAB: 2.92 elements a cycle on silicon")
    return found


RATES: Mapping[tuple[str, str], Mapping[str, Rate]] = {
    ("wse2", "sim"): _wse2(),
    ("wse2", "silicon"): _wse2(),
    ("wse3", "sim"): _wse3(),
    ("wse3", "silicon"): _wse3_silicon(),
}
"""(architecture, set of figures) -> rate of every DSD operation by name."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of a scalar instruction."""

    cycles: int
    status: Status
    source: str


_ONE = Cost(1, "measured", "FAB: one instruction a cycle")
_FREE = Cost(0, "assumed", "part of the instruction that uses it")
_DIVISION = Cost(50, "measured", "EX: about 50 cycles")
_FLOAT_DIVISION = Cost(100, "measured", "FAB: totals of the sigmoid kernels, less exp")

_FREE_OPS = _names("nop li mov lea dsd_set dsd_move map_test assert")
_ONE_OPS = _names(
    "ld st ldx stx add sub mul and or xor shl shr min max neg not inv abs eq ne lt le gt ge cvt wrap select "
    "map_read map_write map_open activate block unblock sys dsr_load copy fill"
)
COSTS: Mapping[str, Cost] = {
    **dict.fromkeys(_FREE_OPS, _FREE),
    **dict.fromkeys(_ONE_OPS, _ONE),
    "div": _DIVISION,
    "rem": _DIVISION,
    "math": Cost(1, "assumed", "see MATH"),
    "call": Cost(3, "assumed", "a jump without a wait for its condition"),
    "calli": Cost(4, "assumed", "a call through a register"),
    "ret": Cost(1, "assumed", "the end of a task is seen in the next cycle"),
    "jmp": Cost(0, "measured", "see branch_taken"),
    "jz": Cost(0, "measured", "see branch and branch_taken"),
    "jnz": Cost(0, "measured", "see branch and branch_taken"),
    "dsd": Cost(0, "measured", "see load_use"),
}
"""Name of an instruction -> its cycles."""

MATH: Mapping[str, Cost] = {
    **dict.fromkeys(_names("clz ctz popcount floor ceil ldexp"), _ONE),
    "inverse": _FLOAT_DIVISION,
    "exp": Cost(80, "measured", "FAB: totals of softmax and of the loss kernel"),
    **{
        name: Cost(60, "assumed", "a polynomial of some 20 multiply-adds")
        for name in _names("sqrt log sin cos tanh pow rsqrt sigmoid")
    },
}
"""Name of a function of OP_MATH -> its cycles."""


def operation_names() -> dict[str, int]:
    """Return the name of every DSD operation with its number."""
    found = {name: value for name, value in vars(isa).items() if name.startswith("D_")}
    return {name.removeprefix("D_").lower(): int(value) for name, value in found.items()}


def instruction_names() -> dict[str, int]:
    """Return the name of every scalar instruction with its number."""
    found = {name: value for name, value in vars(isa).items() if name.startswith("OP_")}
    return {name.removeprefix("OP_").lower(): int(value) for name, value in found.items()}


def math_names() -> dict[str, int]:
    """Return the name of every function of OP_MATH with its number."""
    found = {name: value for name, value in vars(isa).items() if name.startswith("M_")}
    return {name.removeprefix("M_").lower(): int(value) for name, value in found.items()}
