"""The user's function that computes the expected results of a kernel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ReferenceCall:
    """A call of the user's function that computes the expected results of a kernel.

    path        the kernel's file;  text  "module:function", "file.py:function" or "function" of that file
    parameters  values of the kernel's parameters in their order, None for tensors
    outputs     name and shape of each tensor that the kernel returns
    changed     tensors among the parameters that it writes
    """

    path: Path
    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: tuple[tuple[str, tuple[int, ...]], ...] = ()
    changed: tuple[str, ...] = ()
