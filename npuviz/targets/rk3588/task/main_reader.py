"""Decode what the DPU's main reader fetches from memory in place of CORE's results (flying mode)."""

from collections.abc import Mapping
from dataclasses import dataclass

from npuviz.targets.rk3588.task.work import Output, bits

_COLUMNS, _ROWS, _CHANNELS, _FEATURE_MODE = 0x500C, 0x5010, 0x5014, 0x5044
_ROW_NOTCH, _SURFACE_NOTCH = 0x5048, 0x504C


@dataclass(frozen=True, slots=True)
class MainCube:
    """A cube in memory.

    row, surface  atoms from one row, and one group of channels, to the next
    """

    channels: int
    height: int
    width: int
    row: int
    surface: int
    precision: int


def main_cube(registers: Mapping[int, int], output: Output) -> MainCube:
    """Return the cube that the main reader fetches, at `output.main_address`.

    Notches count from the end of the last position read (TRM; measured in vendor copies of rows and columns).
    """
    found = bits(registers.get(_FEATURE_MODE, 0), 17, 15)
    width, height = bits(registers.get(_COLUMNS, 0), 12, 0) + 1, bits(registers.get(_ROWS, 0), 12, 0) + 1
    row = width + bits(registers.get(_ROW_NOTCH, 0), 31, 19)
    return MainCube(
        channels=bits(registers.get(_CHANNELS, 0), 12, 0) + 1,
        height=height,
        width=width,
        row=row,
        surface=row * (height - 1) + width + bits(registers.get(_SURFACE_NOTCH, 0), 31, 4),
        precision=found if _FEATURE_MODE in registers else output.precision_in,
    )
