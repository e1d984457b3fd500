"""Activation table sets: the functions that are loaded together, and the choice of loads of a program.

Ref: the 21 names and the functions of `exp_and_others` are measured on a real NEFF (act_info.json).
Assumed: the functions of the other sets, from their names; and that every set has the functions without
a table (copy, square, sign, abs, relu, prelu), as `exp_and_others` does.
"""

from collections.abc import Sequence

from npuviz.targets.neuroncore.isa import Activation

TABLELESS = frozenset(
    {
        Activation.COPY,
        Activation.SQUARE,
        Activation.SIGN,
        Activation.ABS,
        Activation.RELU,
        Activation.PRELU,
    }
)
"""Functions without a table, which every set has."""

_SETS: tuple[tuple[str, tuple[Activation, ...]], ...] = (
    ("exp_and_others", (Activation.EXP, Activation.TANH)),
    ("softplus_and_others", (Activation.SOFTPLUS,)),
    ("sigmoid_and_others", (Activation.SIGMOID,)),
    ("sqrt_and_others", (Activation.SQRT,)),
    ("small", ()),
    ("natural_log", (Activation.LOG,)),
    ("natural_log_exp_and_others", (Activation.LOG, Activation.EXP)),
    ("sigmoid_derivative", (Activation.SIGMOID,)),
    ("tanh_and_derivative", (Activation.TANH,)),
    ("trig_and_small", (Activation.SIN, Activation.ARCTAN)),
    ("gelu_and_others", (Activation.GELU, Activation.GELU_DX, Activation.ERF)),
    ("gelu_apprx_tanh_and_others", (Activation.GELU_APPRX_TANH,)),
    ("gelu_apprx_sigmoid_and_others", (Activation.GELU_APPRX_SIGMOID,)),
    ("reciprocal_and_small", (Activation.RECIPROCAL,)),
    ("reciprocal_sqrt_and_small", (Activation.RSQRT,)),
    ("abs_reciprocal_sqrt_and_small", (Activation.RSQRT,)),
    ("mish_and_others", (Activation.MISH,)),
    ("erf_derivative", (Activation.ERF_DX,)),
    ("silu_and_others", (Activation.SILU,)),
    ("derivative_silu_and_others", (Activation.SILU_DX,)),
    ("derivative_gelu_apprx_sigmoid_and_others", (Activation.GELU_APPRX_SIGMOID_DX,)),
)

TABLE_SETS: tuple[str, ...] = tuple(name for name, _ in _SETS)
"""Names of the sets, indexed by the `id` of a TABLE_LOAD."""
SET_FUNCTIONS: tuple[frozenset[Activation], ...] = tuple(TABLELESS.union(functions) for _, functions in _SETS)
"""Functions of each set, in the same order."""


def sets_of(function: Activation) -> tuple[int, ...]:
    """Return the ids of the sets that have a function, rising; at least one."""
    return tuple(index for index, held in enumerate(SET_FUNCTIONS) if function in held)


def choose_loads(functions: Sequence[Activation], loaded: int = -1) -> list[int]:
    """Choose the set to load right before each activation instruction in program order, -1 for none.

    loaded  the set loaded at the start, -1 for none. A set stays as long as it has the functions; then the
    set that serves the most following instructions is loaded, which gives the fewest loads.
    """
    loads = [-1] * len(functions)
    ends = _stretch_ends(functions)
    current = loaded
    for index, function in enumerate(functions):
        if current >= 0 and function in SET_FUNCTIONS[current]:
            continue
        current = max(sets_of(function), key=lambda each: (ends[index][each], -each))
        loads[index] = current
    return loads


def _stretch_ends(functions: Sequence[Activation]) -> list[list[int]]:
    """Return, by position and set, the first position from there on whose function the set lacks."""
    ends = [[0] * len(TABLE_SETS) for _ in functions]
    reach = [len(functions)] * len(TABLE_SETS)
    for index in range(len(functions) - 1, -1, -1):
        for each, held in enumerate(SET_FUNCTIONS):
            if functions[index] not in held:
                reach[each] = index
        ends[index] = reach.copy()
    return ends
