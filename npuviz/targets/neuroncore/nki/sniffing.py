"""Whether a Python file holds NKI kernels, and which, from its text: nothing is run."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from npuviz.targets.neuroncore.nki.user_python import parsed

_MAX_BYTES = 1 << 20
_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(?:neuronxcc|nki)\b", re.MULTILINE)
OWN_NAMES = ("kernel", "grid", "reference")
"""Settings of a kernel file that are no parameter's."""
SHAPE_PREFIX = "shape."
"""Before the name of a parameter that is a tensor."""


@dataclass(frozen=True, slots=True)
class ParameterText:
    """A parameter of a kernel.

    kind, default  annotation and default as Python texts, "" where absent
    is_tensor      the kernel takes elements or members of it
    """

    name: str
    kind: str
    default: str
    is_tensor: bool


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel as its file's text has it."""

    name: str
    parameters: tuple[ParameterText, ...]


def imports_nki(path: Path) -> bool:
    """Whether a file imports NKI of either generation. Never raises."""
    try:
        with path.open("rb") as file:
            return _IMPORT.search(file.read(_MAX_BYTES)) is not None
    except OSError:
        return False


def described(path: Path) -> Sequence[KernelText]:
    """The kernels that a file defines, in their order; where none is marked as one, its functions.

    Raises FormatError.
    """
    functions = [each for each in parsed(path, path.read_bytes()).body if isinstance(each, ast.FunctionDef)]
    marked = [each for each in functions if any("jit" in ast.unparse(part) for part in each.decorator_list)]
    return [KernelText(each.name, tuple(_parameters(each))) for each in marked or functions]


def _parameters(function: ast.FunctionDef) -> Iterator[ParameterText]:
    given = function.args
    places = [*given.posonlyargs, *given.args]
    # Defaults belong to the last of those that are given by place.
    defaults = [*[None] * (len(places) - len(given.defaults)), *given.defaults, *given.kw_defaults]
    tensors = {
        each.value.id
        for each in ast.walk(function)
        if isinstance(each, ast.Attribute | ast.Subscript) and isinstance(each.value, ast.Name)
    }
    for parameter, default in zip([*places, *given.kwonlyargs], defaults, strict=True):
        kind = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
        text = "" if default is None else ast.unparse(default)
        yield ParameterText(parameter.arg, kind, text, parameter.arg in tensors and not text)
