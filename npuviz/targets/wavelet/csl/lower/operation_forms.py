"""List the DSD operations of CSL (`@fmacs`, `@mov32`, ...): operand forms and the types of their scalars.

csl.md section 5.5 (DSD): d destination DSD or DSR, s source DSD or DSR, v scalar, p pointer to a scalar.
"""

from dataclasses import dataclass

from npuviz.targets.wavelet.kernels import isa

_U16: tuple[str, ...] = ("u16", "i16")
_U32: tuple[str, ...] = ("u32", "i32")
_HALF: tuple[str, ...] = ("f16",)
_SINGLE: tuple[str, ...] = ("f32",)
_I16: tuple[str, ...] = ("i16",)

_MOVE = ("ds", "ps", "dv")
_INTEGER = ("dss", "dvs", "dsv")
_FLOAT = ("dss", "dvs", "dsv", "pvs")
_ONE = ("ds", "dv")


@dataclass(frozen=True, slots=True)
class DsdOperation:
    """The operands that an operation accepts.

    forms    one text per form: a letter per operand, destination first
    values   types that a scalar source may have
    pointee  types that a pointer destination may point to
    """

    code: int
    forms: tuple[str, ...]
    values: tuple[str, ...]
    pointee: tuple[str, ...]


def _operation(
    code: int, forms: tuple[str, ...], values: tuple[str, ...], pointee: tuple[str, ...] = ()
) -> DsdOperation:
    return DsdOperation(code, forms, values, pointee or values)


OPERATIONS: dict[str, DsdOperation] = {
    "mov16": _operation(isa.D_MOV16, _MOVE, _U16),
    "mov32": _operation(isa.D_MOV32, _MOVE, _U32),
    "fmovh": _operation(isa.D_FMOVH, _MOVE, _HALF),
    "fmovs": _operation(isa.D_FMOVS, _MOVE, _SINGLE),
    "add16": _operation(isa.D_ADD16, _INTEGER, _U16),
    "addc16": _operation(isa.D_ADDC16, _INTEGER, _U16),
    "sub16": _operation(isa.D_SUB16, ("dss", "dsv"), _U16),
    "and16": _operation(isa.D_AND16, _INTEGER, _U16),
    "or16": _operation(isa.D_OR16, _INTEGER, _U16),
    "xor16": _operation(isa.D_XOR16, _INTEGER, _U16),
    "sar16": _operation(isa.D_SAR16, _INTEGER, _U16),
    "sll16": _operation(isa.D_SLL16, _INTEGER, _U16),
    "slr16": _operation(isa.D_SLR16, _INTEGER, _U16),
    "faddh": _operation(isa.D_FADDH, _FLOAT, _HALF),
    "fadds": _operation(isa.D_FADDS, _FLOAT, _SINGLE),
    "fsubh": _operation(isa.D_FSUBH, _FLOAT, _HALF),
    "fsubs": _operation(isa.D_FSUBS, _FLOAT, _SINGLE),
    "fmulh": _operation(isa.D_FMULH, _FLOAT, _HALF),
    "fmuls": _operation(isa.D_FMULS, _FLOAT, _SINGLE),
    "fmaxh": _operation(isa.D_FMAXH, _FLOAT, _HALF),
    "fmaxs": _operation(isa.D_FMAXS, _FLOAT, _SINGLE),
    "faddhs": _operation(isa.D_FADDHS, _FLOAT, _HALF, _SINGLE),
    "fmach": _operation(isa.D_FMACH, ("dssv",), _HALF),
    "fmacs": _operation(isa.D_FMACS, ("dssv",), _SINGLE),
    "fmachs": _operation(isa.D_FMACHS, ("dssv",), _HALF),
    "fnegh": _operation(isa.D_FNEGH, _ONE, _HALF),
    "fnegs": _operation(isa.D_FNEGS, _ONE, _SINGLE),
    "fabsh": _operation(isa.D_FABSH, _ONE, _HALF),
    "fabss": _operation(isa.D_FABSS, _ONE, _SINGLE),
    "fh2s": _operation(isa.D_FH2S, _ONE, _HALF),
    "fs2h": _operation(isa.D_FS2H, _ONE, _SINGLE),
    "xp162fh": _operation(isa.D_XP162FH, _ONE, _U16),
    "xp162fs": _operation(isa.D_XP162FS, _ONE, _U16),
    "fh2xp16": _operation(isa.D_FH2XP16, ("ds", "dv", "pv"), _HALF, _I16),
    "fs2xp16": _operation(isa.D_FS2XP16, ("ds", "dv", "pv"), _SINGLE, _I16),
    "clz": _operation(isa.D_CLZ, _ONE, _U16),
    "ctz": _operation(isa.D_CTZ, _ONE, _U16),
    "popcnt": _operation(isa.D_POPCNT, _ONE, _U16),
    "fnormh": _operation(isa.D_FNORMH, ("pv",), _HALF),
    "fnorms": _operation(isa.D_FNORMS, ("pv",), _SINGLE),
    "fscaleh": _operation(isa.D_FSCALEH, ("pvv",), _HALF),
    "fscales": _operation(isa.D_FSCALES, ("pvv",), _SINGLE),
    "dfilt": _operation(isa.D_DFILT, ("s",), ()),
}


def describe_forms(name: str) -> str:
    """Return the forms of an operation for an error text: `@fmovs(dsd, dsd)`, `(pointer, dsd)`, ..."""
    words = {"d": "dsd", "s": "dsd", "p": "pointer", "v": "value"}
    forms = (", ".join(words[letter] for letter in form) for form in OPERATIONS[name].forms)
    return "; ".join(f"({form})" for form in forms)
