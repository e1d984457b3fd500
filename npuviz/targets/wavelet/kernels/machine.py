"""Bundle what the kernels of the wafer pass to each other."""

from typing import Any, NamedTuple


class Machine(NamedTuple):
    """The rows and words that a call of `advance` works on."""

    wafer: Any
    """Row WAFER: the root state."""
    program: Any
    """Row PROGRAM."""
    host: Any
    """Pointer to the host's commands, their data and results."""
    call: Any
    """Row CALL of watch_kernels."""
    events: Any
    """Row EVENTS: the event rows."""
