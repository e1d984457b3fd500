"""Mnemonics of the opcodes and the kind of unit that executes each."""

import numpy as np

from npuviz.targets.systolic.kernels import program_records as tk

UNIT_KINDS = ("LD", "EX", "VEC", "ST", "Host")
"""Kinds of units; their positions are the values of `UNIT_KIND_OF`."""

MNEMONICS: dict[int, str] = {
    opcode: name.removeprefix("OP_") for name, opcode in vars(tk).items() if name.startswith("OP_")
}

_KIND_OF_OPCODE = {
    tk.OP_MOVIN: "LD",
    tk.OP_MOVOUT: "ST",
    tk.OP_MOVOUT_POOL: "ST",
    tk.OP_GEMM_PRELOAD: "EX",
    tk.OP_GEMM: "EX",
    tk.OP_HOST: "Host",
}


def _unit_kinds() -> np.ndarray:
    table = np.full(max(MNEMONICS) + 1, UNIT_KINDS.index("VEC"), dtype=np.int64)
    for opcode, kind in _KIND_OF_OPCODE.items():
        table[opcode] = UNIT_KINDS.index(kind)
    return table


UNIT_KIND_OF = _unit_kinds()
"""Opcode -> position in UNIT_KINDS (int64)."""
