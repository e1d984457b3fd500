"""Stand in for debug_util: read what PEs hold after a run, in coordinates of the whole fabric."""

from functools import cached_property
from pathlib import Path

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.targets.wavelet.host.device import Device
from npuviz.targets.wavelet.host.finished import final_state
from npuviz.targets.wavelet.host.runtime import as_elements

TRACE_SYMBOL = "npuviz_trace_words"
"""End of the name of a buffer of the <debug> library; see library/debug.csl for its contents."""
HEADER_WORDS = 3
_STRING, _TIMESTAMP, _BOOL = 1, 2, 3
_SCALARS = {
    4: np.uint8,
    5: np.int8,
    6: np.uint16,
    7: np.int16,
    8: np.uint32,
    9: np.int32,
    10: np.float16,
    11: np.float32,
}
TraceEntry = str | int | float | bool


class debug_util:
    """Read variables and traces of a run, which must have ended when the first of them is read."""

    def __init__(self, folder: str | Path, cmaddr: str | None = None) -> None:
        """Open a compiled folder; its host program may not have run yet."""
        if cmaddr:
            raise UsageError(f"cmaddr={cmaddr!r}: npuviz simulates; leave the address of a system out")
        self._folder = Path(folder)

    @cached_property
    def _device(self) -> Device:
        return final_state(self._folder)

    @property
    def _offset(self) -> tuple[int, int]:
        return self._device.wafer.offset

    def get_symbol(self, x: int, y: int, name: str, dtype: str | np.dtype | type) -> np.ndarray:
        """Return the elements of a variable of one PE."""
        column, row = x - self._offset[0], y - self._offset[1]
        symbol = self._device.symbol(column, row, name)
        return as_elements(self._device.read(column, row, symbol), symbol, dtype)

    def get_symbol_rect(
        self,
        rectangle: tuple[tuple[int, int], tuple[int, int]],
        name: str,
        dtype: str | np.dtype | type,
    ) -> np.ndarray:
        """Return the elements of a variable of the PEs of ((x, y), (width, height)): (width, height,
        elements)."""
        (x, y), (width, height) = rectangle
        columns = [
            np.stack([self.get_symbol(x + i, y + j, name, dtype) for j in range(height)])
            for i in range(width)
        ]
        return np.stack(columns)

    def read_trace(self, x: int, y: int, key: str) -> list[TraceEntry]:
        """Return the entries of the trace of a key on one PE, in order."""
        column, row = x - self._offset[0], y - self._offset[1]
        wafer = self._device.wafer
        self_check = 0 <= column < wafer.columns and 0 <= row < wafer.rows
        index = int(wafer.program_of[row, column]) if self_check else -1
        if index < 0:
            raise UsageError(f"PE ({x}, {y}): not in the program")
        has_buffers = False
        for symbol in wafer.programs[index].symbols:
            if not symbol.name.endswith(TRACE_SYMBOL):
                continue
            has_buffers = True
            words = np.frombuffer(self._device.read(column, row, symbol), np.uint16)
            if int(words[1]) == len(key.encode()) and int(words[2]) == key_hash(key):
                return decode_trace(words)
        if not has_buffers:
            raise UsageError(f"PE ({x}, {y}): its program does not import <debug>")
        return []


def key_hash(key: str) -> int:
    """Return the number by which library/debug.csl marks the buffer of a key."""
    number = 7
    for byte in key.encode():
        number = (number * 31 + byte) % 65521
    return number


def decode_trace(words: np.ndarray) -> list[TraceEntry]:
    """Return the entries of a trace buffer, (n,) uint16."""
    found: list[TraceEntry] = []
    used = min(int(words[0]), len(words))
    at = HEADER_WORDS
    while at < used:
        kind, length = int(words[at]) & 0xFF, int(words[at]) >> 8
        body = words[at + 1 : at + 1 + length]
        at += 1 + length
        if kind == _STRING:
            found.append(bytes(body.astype(np.uint8)).decode("latin-1"))
        elif kind == _TIMESTAMP:
            found.append(sum(int(word) << 16 * place for place, word in enumerate(body)))
        elif kind == _BOOL:
            found.append(bool(body[0]))
        elif kind in _SCALARS:
            found.append(np.frombuffer(body.tobytes(), _SCALARS[kind])[0].item())
    return found
