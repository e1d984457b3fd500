"""Single cases of onnx's own: to make those of all operators takes seven seconds."""

import importlib
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def node_case(name: str) -> Any:
    """The case `test_NAME`, as `load_cases` of the backend gives it among all others."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Making the expected values overflows and divides by zero on purpose.
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        folder = Path(node.__file__).parent
        path = _file_of(name, folder)
        importlib.import_module(".".join((node.__name__, *path.relative_to(folder).with_suffix("").parts)))
        made: list[Any] = node._NodeTestCases
    return next(case for case in made if case.name == f"test_{name}")


def _file_of(name: str, folder: Path) -> Path:
    """The file that makes a case: it has its name, or is called like its operator."""
    files = sorted(folder.rglob("*.py"))
    # The body of an operator is a case that is made with the operator.
    written = f'"test_{re.sub(r"_expanded(_ver[0-9]+)?$", "", name)}"'
    for path in files:
        if written in path.read_text():
            return path
    bare = name.replace("_", "")
    return max(
        (path for path in files if bare.startswith(path.stem.replace("_", ""))), key=lambda p: len(p.stem)
    )
