"""Whether a Python file holds NKI kernels, from its text."""

import re
from pathlib import Path

_MAX_BYTES = 1 << 20
_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(?:neuronxcc|nki)\b", re.MULTILINE)


def imports_nki(path: Path) -> bool:
    """Whether a file imports NKI of either generation. Never raises."""
    try:
        with path.open("rb") as file:
            return _IMPORT.search(file.read(_MAX_BYTES)) is not None
    except OSError:
        return False
