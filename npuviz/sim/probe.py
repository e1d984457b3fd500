"""A probe is a named, typed point where a machine can be observed."""

from dataclasses import dataclass


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
