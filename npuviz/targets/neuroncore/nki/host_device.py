"""What scripts ask of the device that they take tensors to: here that is the host, which is always done."""

import importlib
from typing import Any


def host_device(*_: object, **__: object) -> Any:
    """The device of tensors in the host's memory, as torch has it. Raises ImportError without torch."""
    return importlib.import_module("torch").device("cpu")


def ignore(*_: object, **__: object) -> None:
    """Nothing: what is asked for has been done already."""


def first(*_: object, **__: object) -> int:
    """The number of this process among those of a run."""
    return 0


def one(*_: object, **__: object) -> int:
    """How many processes a run has."""
    return 1
