"""Small CSL programs compiled to a wafer, for the tests of the lowering."""

import re
from pathlib import Path

from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.csl.compiler import compile_program
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.view.disassembly import instruction_text
from npuviz.targets.wavelet.wafer import Function, PeProgram, Wafer
from tests.targets.wavelet.csl.programs import write

EXPORT = "\ncomptime { @export_symbol(f); }\n"


def wafer(folder: Path, text: str, arch: str = "wse3", **files: str) -> Wafer:
    """Compile a PE program of one file (and more files) that exports function `f`."""
    named = {f"{name}.csl": content for name, content in files.items()}
    return compile_program(write(folder, {"pe.csl": text + EXPORT, **named}), arch)


def program(folder: Path, text: str, arch: str = "wse3") -> PeProgram:
    """The only PE program of `wafer`."""
    return wafer(folder, text, arch).programs[0]


def function(found: PeProgram, name: str) -> Function:
    """A function by its name."""
    return next(candidate for candidate in found.functions if candidate.name == name)


def function_text(program: PeProgram, function: Function) -> str:
    """The instructions of a function, one per line with their positions."""
    entries = sorted(other.entry for other in program.functions if other.entry > function.entry)
    end = entries[0] if entries else len(program.code)
    lines = (
        f"{position:5d}  {instruction_text(program.code[position], program.functions, program.operations)}"
        for position in range(function.entry, end)
    )
    return "\n".join(lines)


def code(found: PeProgram, name: str = "f") -> list[str]:
    """The instructions of a function as text, without positions."""
    lines = function_text(found, function(found, name)).splitlines()
    return [re.sub(r"^ *\d+ +", "", line) for line in lines]


def constants(found: PeProgram, name: str = "f") -> list[int]:
    """The words that a function loads as immediates."""
    entry = function(found, name).entry
    end = entry + len(code(found, name))
    return [int(row[k.C_IMM]) for row in found.code[entry:end] if row[k.C_OP] == k.OP_LI]


def descriptors(found: PeProgram, name: str = "f") -> list[dict[str, int]]:
    """The DSD words among these constants, by field."""
    fields = {key.removeprefix("F_").lower(): value for key, value in vars(k).items() if key.startswith("F_")}
    words = [
        int(row[k.C_IMM])
        for row in found.code[function(found, name).entry :]
        if row[k.C_OP] == k.OP_LI and row[k.C_TYPE] == k.T_WORD
    ]
    return [{key: isa.unpack(word, number) for key, number in fields.items()} for word in words]


def operations(found: PeProgram) -> list[dict[str, int]]:
    """The rows of the operation table, by column."""
    columns = {
        key.removeprefix("O_").lower(): value for key, value in vars(k).items() if re.match("O_[A-Z]", key)
    }
    return [{key: int(row[number]) for key, number in columns.items()} for row in found.operations]
