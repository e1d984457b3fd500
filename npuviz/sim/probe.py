"""Define probes: named, typed points where a machine can be observed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Probe:
    """One observation point.

    id        hierarchical name, e.g. "Core[0].LD.occupancy"
    shape     () for a scalar; dtype a name of npuviz.program.dtypes
    measure   unit of the number: "cycles", "bytes", "entries", ...; empty for plain counts
    writable  whether `Machine.write` accepts it
    """

    id: str
    title: str
    shape: tuple[int, ...] = ()
    dtype: str = "int64"
    measure: str = ""
    group: str = ""
    doc: str = ""
    writable: bool = False


class ProbeTable:
    """A machine's probes in order, each with the function that reads it and, for a few, the one that sets it.

    settable  names of the probes that can be set, for an error's text
    """

    def __init__(self, settable: str = "") -> None:
        self._settable = settable
        self._probes: dict[str, Probe] = {}
        self._readers: dict[str, Callable[[], Any]] = {}
        self._writers: dict[str, Callable[[np.ndarray], None]] = {}

    def add(
        self,
        probe: str,
        title: str,
        read: Callable[[], Any],
        measure: str = "",
        group: str = "",
        doc: str = "",
        *,
        shape: tuple[int, ...] = (),
        dtype: str = "int64",
        write: Callable[[np.ndarray], None] | None = None,
    ) -> None:
        """Add a probe. `write` takes any value and raises ValueError, without the probe's name,
        for a bad one."""
        self._probes[probe] = Probe(probe, title, shape, dtype, measure, group, doc, write is not None)
        self._readers[probe] = read
        if write is not None:
            self._writers[probe] = write

    @property
    def probes(self) -> tuple[Probe, ...]:
        """All probes, in the order in which they were added."""
        return tuple(self._probes.values())

    def read(self, probe: str) -> Any:
        """Return the value of a probe. Raises KeyError for an unknown one."""
        return self._readers[probe]()

    def write(self, probe: str, value: Any) -> None:
        """Set a probe. Raises KeyError (unknown) or ValueError (read-only, bad value)."""
        if probe not in self._probes:
            raise KeyError(probe)
        write = self._writers.get(probe)
        if write is None:
            hint = f"; {self._settable} can" if self._settable else ""
            raise ValueError(f"probe {probe} cannot be written{hint}")
        try:
            write(np.asarray(value))
        except ValueError as error:
            raise ValueError(f"probe {probe}: {error}") from None


def positive_number(value: np.ndarray, least: float, largest: float) -> float:
    """Return a probe's new value, a number from `least` to `largest`.
    Raises ValueError for any other value."""
    if value.shape != () or value.dtype.kind not in "iuf" or not least <= float(value) <= largest:
        raise ValueError(f"expected a number from {least:g} to {largest:g}")
    return float(value)


def whole_number(value: np.ndarray, largest: int) -> int:
    """Return a probe's new value, a whole number from 0 to `largest`.
    Raises ValueError for any other value."""
    if value.shape != () or value.dtype.kind not in "iu" or not 0 <= int(value) <= largest:
        raise ValueError(f"expected a whole number from 0 to {largest}")
    return int(value)
