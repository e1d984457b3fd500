"""The function that says what a kernel should compute."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ReferenceCall:
    """A function of the user's own that computes what a kernel computes.

    path        the kernel's file;  text  "module:function", "file.py:function" or "function" of that file
    parameters  the kernel's, in their order: values, None for tensors
    outputs     name and shape of each tensor that the kernel returns
    changed     tensors among the parameters that it writes
    """

    path: Path
    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    changed: tuple[str, ...] = ()
