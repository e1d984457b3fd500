"""Hold DDR for the values engine: one array per range of buffers, copied when written."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.sim.parts.spans import overlay
from npuviz.targets.rk3588.tables import Buffer

PAGE = 4096

Loose = dict[int, tuple[bytes, bytes]]
"""Page address -> (its bytes, a mask with 1 for each byte that exists)."""


class ValueFault(Exception):
    """A task cannot be executed; the text says why. Never leaves the values engine."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A whole state: arrays of the ranges that differ from the initial state, not to be written any more."""

    ranges: dict[int, np.ndarray]
    loose: Loose

    def arrays(self) -> Iterable[np.ndarray]:
        """Return all arrays."""
        return self.ranges.values()


class Memory:
    """The 32-bit address space: buffers, and single bytes outside them that were written by hand.

    Buffers that share addresses share bytes.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._starts: list[int] = []
        self._initial: list[np.ndarray] = []
        self._loose: Loose = {}
        for group in _groups(buffers):
            start = group[0].address
            end = max(buffer.address + buffer.size_bytes for buffer in group)
            self._starts.append(start)
            self._initial.append(_contents(group, start, end - start))
        self._ends = [start + len(array) for start, array in zip(self._starts, self._initial, strict=True)]
        self._arrays = list(self._initial)
        self._is_private = [False] * len(self._arrays)

    # Whole states -------------------------------------------------------------------------------

    def keep(self) -> Kept:
        """Return the present state; later writes go to copies."""
        self._is_private = [False] * len(self._arrays)
        changed = {
            number: array for number, array in enumerate(self._arrays) if array is not self._initial[number]
        }
        return Kept(changed, dict(self._loose))

    def restore(self, kept: Kept | None) -> None:
        """Return to a kept state, None: to the initial one."""
        self._arrays = list(self._initial)
        if kept is not None:
            for number, array in kept.ranges.items():
                self._arrays[number] = array
        self._is_private = [False] * len(self._arrays)
        self._loose = {} if kept is None else dict(kept.loose)

    # Reading ------------------------------------------------------------------------------------

    def _range_of(self, address: int) -> int:
        """Return the index of the range that holds an address, -1 if none does."""
        number = bisect_right(self._starts, address) - 1
        return number if number >= 0 and address < self._ends[number] else -1

    def view(self, address: int, size: int, what: str) -> np.ndarray:
        """Return the bytes (uint8, read-only) of a range. Raises ValueFault if there is no memory."""
        number = self._range_of(address)
        if number >= 0 and address + size <= self._ends[number]:
            offset = address - self._starts[number]
            found = self._arrays[number][offset : offset + size]
            found.flags.writeable = False
            return found
        missing = self._first_missing(address, size)
        if missing >= 0:
            raise ValueFault(
                f"{what} at {address:#x}..{address + size:#x} leave the buffers of the program: "
                f"nothing is mapped at {missing:#x}"
            )
        return self.read(address, size)

    def _first_missing(self, address: int, size: int) -> int:
        """Return the first address of a range that does not exist, -1 if all do."""
        at, end = address, address + size
        while at < end:
            number = self._range_of(at)
            if number >= 0:
                at = self._ends[number]
                continue
            page = self._loose.get(at // PAGE * PAGE)
            if page is None or not page[1][at % PAGE]:
                return at
            at += 1
        return -1

    def read(self, address: int, size: int) -> np.ndarray:
        """Return a copy (uint8) of a range; bytes that do not exist are 0."""
        made = np.zeros(size, np.uint8)
        for page, (data, _) in self._loose.items():
            overlay(made, address, page, np.frombuffer(data, np.uint8))
        first = max(0, bisect_right(self._starts, address) - 1)
        for number in range(first, len(self._starts)):
            if self._starts[number] >= address + size:
                break
            overlay(made, address, self._starts[number], self._arrays[number])
        return made

    # Writing ------------------------------------------------------------------------------------

    def target(self, address: int, size: int, what: str) -> np.ndarray:
        """Return a writable view of a range. Raises ValueFault unless it lies in one range of buffers."""
        number = self._range_of(address)
        if number < 0 or address + size > self._ends[number]:
            missing = max(self._first_missing(address, size), address)
            raise ValueFault(
                f"{what} at {address:#x}..{address + size:#x} leave the program's buffers at {missing:#x}"
            )
        if not self._is_private[number]:
            self._arrays[number] = self._arrays[number].copy()
            self._is_private[number] = True
        offset = address - self._starts[number]
        return self._arrays[number][offset : offset + size]

    def write_by_hand(self, address: int, data: bytes) -> None:
        """Write bytes at any address; bytes outside buffers exist from now on."""
        at, end = address, address + len(data)
        while at < end:
            number = self._range_of(at)
            if number >= 0:
                stop = min(end, self._ends[number])
                part = np.frombuffer(data[at - address : stop - address], np.uint8)
                self.target(at, stop - at, "bytes")[:] = part
            else:
                following = bisect_right(self._starts, at)
                limit = self._starts[following] if following < len(self._starts) else end
                stop = min(end, limit, at // PAGE * PAGE + PAGE)
                self._write_loose(at, data[at - address : stop - address])
            at = stop

    def _write_loose(self, address: int, data: bytes) -> None:
        page = address // PAGE * PAGE
        held, known = self._loose.get(page, (bytes(PAGE), bytes(PAGE)))
        low, high = address - page, address - page + len(data)
        self._loose[page] = (
            held[:low] + data + held[high:],
            known[:low] + b"\1" * len(data) + known[high:],
        )


def _groups(buffers: Sequence[Buffer]) -> list[list[Buffer]]:
    """Return the buffers grouped by ranges of addresses that do not overlap."""
    groups: list[list[Buffer]] = []
    end = -1
    for buffer in sorted(buffers, key=lambda item: item.address):
        if buffer.size_bytes <= 0:
            continue
        if groups and buffer.address < end:
            groups[-1].append(buffer)
        else:
            groups.append([buffer])
        end = max(end, buffer.address + buffer.size_bytes)
    return groups


def _contents(group: list[Buffer], start: int, size: int) -> np.ndarray:
    """Return the initial bytes of a range; for a single buffer its own data, not copied."""
    if len(group) == 1 and group[0].data is not None and len(group[0].data) == size:
        return group[0].data.view(np.uint8)
    made = np.zeros(size, np.uint8)
    for buffer in group:
        if buffer.data is not None:
            overlay(made, start, buffer.address, buffer.data.view(np.uint8)[: buffer.size_bytes])
    return made
