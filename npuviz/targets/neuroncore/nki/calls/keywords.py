"""Memories that kernels of generation 2 name without importing them: `sbuf.view(...)`, `hbm.view(...)`.

# Ref: aws-neuron-sdk db1586c3 (SDK 2.27), nki/get-started/quickstart-implement-run-kernel.rst, steps 4 and 6
"""

import builtins
from typing import Any

from npuviz.targets.neuroncore.nki.calls.language import ndarray, sbuf, shared_hbm


class Memory:
    """A memory by its name."""

    def __init__(self, buffer: str) -> None:
        self._buffer = buffer

    def view(self, dtype: Any, shape: Any, name: str = "") -> Any:
        """Take room for a tensor, not initialised."""
        return ndarray(shape, dtype, self._buffer, name)


_MEMORIES = {"sbuf": Memory(sbuf), "hbm": Memory(shared_hbm)}


_users: list[object] = []
"""One for each kernel that is recorded, in any thread."""


class keywords_known:
    """Lets all Python inside of a `with` read the memories' names; what a file calls so itself stays."""

    def __enter__(self) -> None:
        _users.append(self)
        for name, memory in _MEMORIES.items():
            setattr(builtins, name, memory)

    def __exit__(self, *_: object) -> None:
        _users.remove(self)
        if not _users:
            for name in _MEMORIES:
                delattr(builtins, name)
