"""Bytes of memories changed by hand, each at its place in the machine's log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes written by hand when `position` log entries had been applied.

    memory   id of the machine's description (memories.py); address  linear byte address in it
    """

    position: int
    memory: int
    address: int
    data: bytes
