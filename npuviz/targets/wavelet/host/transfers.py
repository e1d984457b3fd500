"""Convert host arrays to and from the words that PEs send or take: (height, width, words per PE) uint32."""

from enum import Enum

import numpy as np

from npuviz.base.errors import UsageError

LOW_HALF = 0xFFFF


class MemcpyDataType(Enum):
    """Width of an element. 16-bit elements lie in the low half of 32-bit host words."""

    MEMCPY_16BIT = 16
    MEMCPY_32BIT = 32


class MemcpyOrder(Enum):
    """How a host array [height][width][words] is flattened: last index fastest, or first."""

    ROW_MAJOR = "C"
    COL_MAJOR = "F"


def words_of(array: np.ndarray, shape: tuple[int, ...], order: MemcpyOrder, what: str) -> np.ndarray:
    """Return the first words of a host array, as a new array of this shape. Raises UsageError."""
    _check(array, shape, what, may_be_larger=True)
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint32)[: int(np.prod(shape))]
    return np.ascontiguousarray(flat.reshape(shape, order=order.value))


def put_words(words: np.ndarray, array: np.ndarray, order: MemcpyOrder, what: str) -> None:
    """Write words into a host array, in place. Raises UsageError."""
    _check(array, words.shape, what)
    flat = np.ascontiguousarray(words, dtype=np.uint32).reshape(-1, order=order.value)
    # Bit for bit: a time stamp in a float array may be a NaN that arithmetic would change.
    array.reshape(-1).view(np.uint32)[:] = flat


def check_room(array: object, shape: tuple[int, ...], what: str) -> None:
    """Raise UsageError unless words of this shape can later be put into the array."""
    _check(array, shape, what)
    assert isinstance(array, np.ndarray)
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise UsageError(f"{what}: expected a contiguous writable array")


def _check(array: object, shape: tuple[int, ...], what: str, *, may_be_larger: bool = False) -> None:
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{what}: expected a numpy array, found {type(array).__name__}")
    if array.dtype.itemsize != 4 or array.dtype.kind not in "iuf":
        raise UsageError(f"{what}: expected an array of 32-bit elements, found {array.dtype}")
    count = int(np.prod(shape))
    if array.size < count or (array.size > count and not may_be_larger):
        text = " x ".join(str(size) for size in shape)
        raise UsageError(f"{what}: expected {count} elements ({text}), found {array.size}")


def argument_word(value: object, kind: str, where: str) -> int:
    """Return the 32-bit word of a launch argument of an exported type ("f32", "i16", ..). Raises
    UsageError."""
    if kind in ("f32", "f16", "bf16"):
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
            raise UsageError(f"{where}: expected a number for {kind}, found {value!r}")
        if isinstance(value, np.number) and not isinstance(value, np.floating):
            raise UsageError(f"{where}: expected {kind}, found {value.dtype}")
        return _float_word(float(value), kind)
    bits, is_signed = int(kind[1:]), kind[0] == "i"
    if isinstance(value, np.floating | float) or not isinstance(value, int | np.integer | np.bool_):
        raise UsageError(f"{where}: expected an integer for {kind}, found {value!r}")
    number = int(value)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise UsageError(f"{where}: {number} does not fit {kind}")
    return number & ((1 << bits) - 1)


def _float_word(value: float, kind: str) -> int:
    if kind == "f32":
        return int(np.array(value, np.float32).view(np.uint32))
    if kind == "f16":
        return int(np.array(value, np.float16).view(np.uint16))
    return int(np.array(value, np.float32).view(np.uint32)) >> 16
