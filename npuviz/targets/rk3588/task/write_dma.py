"""Decode the DPU's write DMA: how many positions a task writes, and how far apart."""

from collections.abc import Mapping

from npuviz.targets.rk3588.task.work import Output, bits

_NOTCH, _CHANNELS, _WRITTEN = 0x4038, 0x4058, 0x405C


def is_scattered(registers: Mapping[int, int], output: Output) -> bool:
    """Return whether positions of a row are written apart: the DMA has one column, with the channels of all.

    Measured in vendor Resize tasks, which write every other position.
    """
    channels = bits(registers.get(_CHANNELS, 0), 12, 0) + 1
    columns = bits(registers.get(_WRITTEN, 1), 12, 0) + 1
    return columns == 1 and output.width > 1 and channels == output.width * output.channels


def written_size(registers: Mapping[int, int], output: Output) -> tuple[int, int]:
    """Return the rows and columns that go through the stages: those of the write DMA, else of the cube.

    Vendor copies of a row or column write less than their cube (measured).
    """
    if _WRITTEN not in registers or is_scattered(registers, output):
        return output.height, output.width
    written = registers[_WRITTEN]
    return bits(written, 28, 16) + 1, bits(written, 12, 0) + 1


def write_pitches(registers: Mapping[int, int], output: Output) -> tuple[int, int, int]:
    """Return the atoms between surfaces, rows and columns. Ref: TRM, a notch counts from the end of one to
    the next."""
    notch = bits(registers.get(_NOTCH, 0), 12, 0)
    if is_scattered(registers, output):
        return output.surface_stride, output.surface_add, 1 + notch
    return output.surface_stride, written_size(registers, output)[1] + notch, 1
