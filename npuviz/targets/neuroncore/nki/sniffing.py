"""Whether a Python file holds NKI kernels, and which, from its text: nothing is run."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from npuviz.targets.neuroncore.nki.user_python import parsed

_MAX_BYTES = 1 << 20
_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(?:neuronxcc|nki)\b", re.MULTILINE)


def imports_nki(path: Path) -> bool:
    """Whether a file imports NKI of either generation. Never raises."""
    try:
        with path.open("rb") as file:
            return _IMPORT.search(file.read(_MAX_BYTES)) is not None
    except OSError:
        return False


def described(path: Path) -> Sequence[tuple[str, Sequence[str]]]:
    """Names and parameters of the kernels that a file defines, in their order.

    Raises FormatError.
    """
    found: list[tuple[str, Sequence[str]]] = []
    for node in parsed(path, path.read_bytes()).body:
        if isinstance(node, ast.FunctionDef) and any(
            "jit" in ast.unparse(each) for each in node.decorator_list
        ):
            found.append((node.name, [argument.arg for argument in node.args.args]))
    return found
