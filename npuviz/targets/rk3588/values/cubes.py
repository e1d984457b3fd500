"""Read and write feature cubes (NC1HWC2) in memory, with any strides."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from npuviz.targets.rk3588.task import work
from npuviz.targets.rk3588.values.memory import Memory, ValueFault

NUMPY_TYPES = {
    work.INT8: np.dtype(np.int8),
    work.INT16: np.dtype(np.int16),
    work.FP16: np.dtype(np.float16),
    work.BF16: np.dtype(ml_dtypes.bfloat16),
    work.INT32: np.dtype(np.int32),
    work.FP32: np.dtype(np.float32),
    work.TF32: np.dtype(np.float32),
}
"""Element types by precision code, without int4."""

MAX_ELEMENTS = 1 << 28
"""Most elements of one operand of a task; more means a wrong size in a register."""


def element_type(precision: int, what: str) -> np.dtype:
    """Return the numpy type of a precision code. Raises ValueFault for int4."""
    if precision not in NUMPY_TYPES:
        raise ValueFault(f"{what}: values of precision {work.PRECISION_NAMES[precision]} are not computed")
    return NUMPY_TYPES[precision]


def read_cube(
    memory: Memory,
    address: int,
    size: tuple[int, int, int],
    pitches: tuple[int, int],
    dtype: np.dtype,
    what: str,
) -> np.ndarray:
    """Return a feature cube (C, H, W) in NC1HWC2, a new array of `dtype`; channels are filled up to whole
    atoms.

    size     channels, height, width
    pitches  bytes between surfaces and between rows
    """
    atoms = cube_atoms(memory, address, size, pitches, dtype.itemsize, what)
    surfaces, height, width, _ = atoms.shape
    cube = np.ascontiguousarray(atoms).view(dtype).transpose(0, 3, 1, 2)
    return cube.reshape(surfaces * (work.ATOM_BYTES // dtype.itemsize), height, width)


def cube_atoms(
    memory: Memory, address: int, size: tuple[int, int, int], pitches: tuple[int, int], item: int, what: str
) -> np.ndarray:
    """Return the atoms of a cube where they lie: uint8 (surfaces, H, W, 16), read-only."""
    channels, height, width = size
    surfaces = -(-channels * item // work.ATOM_BYTES)
    if min(surfaces, height, width) < 1:
        raise ValueFault(f"{what}: a cube of {channels} x {height} x {width} holds nothing")
    if surfaces * height * width * (work.ATOM_BYTES // item) > MAX_ELEMENTS:
        raise ValueFault(f"{what}: a cube of {channels} x {height} x {width} is too large")
    surface, row = pitches
    surface = surface if surfaces > 1 else 0
    row = row if height > 1 else 0
    if surface < 0 or row < 0:
        raise ValueFault(f"{what}: {surface} bytes between surfaces, {row} between rows: they lead back")
    span = (surfaces - 1) * surface + (height - 1) * row + width * work.ATOM_BYTES
    data = memory.view(address, span, what)
    return np.lib.stride_tricks.as_strided(
        data, (surfaces, height, width, work.ATOM_BYTES), (surface, row, work.ATOM_BYTES, 1), writeable=False
    )


@dataclass(frozen=True, slots=True)
class Strides:
    """Atoms between surfaces, rows and positions of a written cube."""

    surface: int
    row: int
    column: int = 1


def write_cube(memory: Memory, address: int, values: np.ndarray, strides: Strides, what: str) -> None:
    """Write a cube (C, H, W) as NC1HWC2.

    Atoms are written whole: channels that fill up the last one are 0 (Assumed).
    """
    group = work.ATOM_BYTES // values.dtype.itemsize
    channels, height, width = values.shape
    surfaces = -(-channels // group)
    axes = sorted(((strides.surface, surfaces), (strides.row, height), (strides.column, width)))
    span = 1
    for step, count in axes:
        if count > 1 and step < span:
            raise ValueFault(
                f"{what}: {surfaces} surfaces {strides.surface} atoms apart, {height} rows {strides.row} and "
                f"{width} positions {strides.column} apart overwrite each other"
            )
        span += (count - 1) * step
    data = memory.target(address, span * work.ATOM_BYTES, what)
    packed = np.zeros((surfaces, group, height, width), values.dtype)
    packed.reshape(-1, height, width)[:channels] = values
    atoms = np.ascontiguousarray(packed.transpose(0, 2, 3, 1)).view(np.uint8)
    pitches = tuple(step * work.ATOM_BYTES for step in (strides.surface, strides.row, strides.column))
    place = np.lib.stride_tricks.as_strided(data, (surfaces, height, width, work.ATOM_BYTES), (*pitches, 1))
    place[:] = atoms
