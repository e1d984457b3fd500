"""Energy of a run, estimated: events counted by the machine times a table of energies per event.

The table is one technology, whatever chip is simulated: results compare schedules and tilings on one
machine, and are no statement about a product. Leakage and clocks are not in it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EnergyPerEvent:
    """Picojoules of one event, and the source of the figure ("Assumed: ..." if there is none)."""

    picojoules: float
    source: str


_HOROWITZ = "M. Horowitz, Computing's Energy Problem, ISSCC 2014, 45 nm, 0.9 V"

MAC: dict[int, EnergyPerEvent] = {
    1: EnergyPerEvent(0.2 + 0.1, f"{_HOROWITZ}: 8-bit multiply 0.2 pJ, 32-bit add 0.1 pJ"),
    2: EnergyPerEvent(1.1 + 0.9, f"{_HOROWITZ}: 16-bit float multiply 1.1 pJ, 32-bit float add 0.9 pJ"),
    4: EnergyPerEvent(3.7 + 0.9, f"{_HOROWITZ}: 32-bit float multiply 3.7 pJ, add 0.9 pJ"),
    8: EnergyPerEvent(4 * 3.7 + 2 * 0.9, "Assumed: four times the 32-bit multiply, twice the add"),
}
"""A multiply-accumulate, by bytes of an element."""

VECTOR_BYTE = EnergyPerEvent(0.9 / 4, f"{_HOROWITZ}: a 32-bit float add 0.9 pJ, for each of its 4 bytes")
"""A byte that the vector unit works on, per instruction."""

SRAM_BYTE: tuple[tuple[int, EnergyPerEvent], ...] = (
    (8 << 10, EnergyPerEvent(10 / 8, f"{_HOROWITZ}: 64 bits of an 8 KB cache 10 pJ")),
    (32 << 10, EnergyPerEvent(20 / 8, f"{_HOROWITZ}: 64 bits of a 32 KB cache 20 pJ")),
    (1 << 62, EnergyPerEvent(100 / 8, f"{_HOROWITZ}: 64 bits of a 1 MB cache 100 pJ; larger ones as that")),
)
"""A byte read from or written to an SRAM, by the size of its bank."""

NOC_BYTE = EnergyPerEvent(8 * 0.1, "Assumed: 0.1 pJ a bit from core to memory controller")

DRAM_BYTE: dict[str, EnergyPerEvent] = {
    "hbm": EnergyPerEvent(8 * 3.9, "M. O'Connor et al., Fine-Grained DRAM, MICRO 2017: HBM2 3.9 pJ a bit"),
    "ddr": EnergyPerEvent(1300 / 8, f"{_HOROWITZ}: 64 bits of DRAM 1.3 nJ at least"),
}
"""A byte moved to or from DRAM."""

WIDE_DRAM_CHANNELS = 8
"""Assumed: a chip with at least this number of channels has stacked memory (hbm), others have modules
(ddr)."""


def sram_byte(size_bytes: int) -> EnergyPerEvent:
    """Return the row of SRAM_BYTE for an SRAM of this size."""
    return next(energy for limit, energy in SRAM_BYTE if size_bytes <= limit)


def dram_byte(channels: int) -> EnergyPerEvent:
    """Return the row of DRAM_BYTE for a chip with this number of channels."""
    return DRAM_BYTE["hbm" if channels >= WIDE_DRAM_CHANNELS else "ddr"]


def mac(precision: int) -> EnergyPerEvent:
    """Return the row of MAC for elements of this number of bytes."""
    return MAC[precision]
