"""Stand in for sdk_utils: views of the 32-bit words that transfers use."""

import numpy as np

from npuviz.base.errors import UsageError


def memcpy_view(array: np.ndarray, dtype: np.dtype | type | str) -> np.ndarray:
    """Return the low bits of every 32-bit word as elements of a narrower type: a view of the same memory."""
    kind = np.dtype(dtype)
    if array.dtype.itemsize != 4:
        raise UsageError(f"memcpy_view: expected 32-bit words, found {array.dtype}")
    if kind.itemsize not in (1, 2, 4):
        raise UsageError(f"memcpy_view: expected a type of 8, 16 or 32 bits, found {kind}")
    return array.view(kind)[..., :: 4 // kind.itemsize]


def input_array_to_u32(np_arr: np.ndarray, sentinel: int | None, fast_dim_sz: int) -> np.ndarray:
    """Return 16-bit elements as 32-bit words, with zero or their index in the high half.

    sentinel     None: the high half is 0; else it holds the index within the fastest dimension
    fast_dim_sz  size of that dimension
    """
    if np_arr.dtype.itemsize != 2:
        raise UsageError(f"input_array_to_u32: expected 16-bit elements, found {np_arr.dtype}")
    words = np_arr.reshape(-1).view(np.uint16).astype(np.uint32)
    if sentinel is not None:
        index = np.arange(words.size, dtype=np.uint32) % np.uint32(max(fast_dim_sz, 1))
        words |= index << np.uint32(16)
    return words


def calculate_cycles(timestamp_buf: np.ndarray) -> int:
    """Return the cycles between two 48-bit time stamps packed into three 32-bit words, the first stamp
    low."""
    words = np.ascontiguousarray(timestamp_buf).reshape(-1).view(np.uint16)[:6].astype(object)
    start = words[0] | words[1] << 16 | words[2] << 32
    end = words[3] | words[4] << 16 | words[5] << 32
    return int(end - start)


def output_array_from_u32(words: np.ndarray, dtype: np.dtype | type | str) -> np.ndarray:
    """Return the low bits of every 32-bit word as elements of a type, in a new array (SDK 0.9 and before)."""
    return memcpy_view(words, dtype).copy()
