"""List sizes and timings of DRAM devices by name: data only, see `device` for the rules that use them.

Timings are in cycles of the device's clock. Sources, per table below: RAM2 = PSAL-POSTECH/ramulator2,
branch onnxim-frontend, src/dram/impl (facts); DS3 = umd-memsys/DRAMsim3, configs; else "Assumed:".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Organization:
    """Units of one channel: `ranks` are pseudo-channels where the standard has them.

    columns       words of `width` bits in a row
    prefetch      words of one access
    width         data bits of a rank (pseudo-channel)
    density       Mbit of a chip, which determines how long a refresh takes
    chip_bits     data bits of a chip ("DQ"); 0 where a rank is one chip
    """

    ranks: int
    groups: int
    banks: int
    rows: int
    columns: int
    prefetch: int
    width: int
    density: int
    chip_bits: int = 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _hbm2(banks: int, rows: int, density: int) -> Organization:
    return Organization(2, 4, banks, rows, 64, 4, 64, density)


def _ddr4(density_gbit: int, bits: int) -> Organization:
    groups = 2 if bits == 16 else 4
    rows = (density_gbit << 30) // (groups * 4 * 1024 * bits)
    return Organization(1, groups, 4, rows, 1024, 8, 64, density_gbit << 10, bits)


ORGANIZATIONS: Mapping[str, tuple[str, Organization]] = {
    # RAM2 HBM2.cpp
    "HBM2_2Gb": ("HBM2", _hbm2(2, 1 << 14, 2 << 10)),
    "HBM2_4Gb": ("HBM2", _hbm2(4, 1 << 14, 4 << 10)),
    "HBM2_8Gb": ("HBM2", _hbm2(4, 1 << 15, 8 << 10)),
    # Assumed: HBM2E doubles the rows of HBM2 (16 Gbit a channel pair).
    "HBM2E_16Gb": ("HBM2E", _hbm2(4, 1 << 16, 16 << 10)),
    # RAM2 DDR4.cpp
    **{
        f"DDR4_{density}Gb_x{bits}": ("DDR4", _ddr4(density, bits))
        for density in (2, 4, 8, 16)
        for bits in (4, 8, 16)
    },
    # Assumed: a 16-bit channel with bursts of 16, 8 banks without groups, pages of 2 KiB (JESD209-4).
    "LPDDR4X_4Gb_x16": ("LPDDR4X", Organization(1, 1, 8, 1 << 15, 1024, 16, 16, 4 << 10)),
    "LPDDR4X_8Gb_x16": ("LPDDR4X", Organization(1, 1, 8, 1 << 16, 1024, 16, 16, 8 << 10)),
    # RAM2 LPDDR5.cpp; bursts of 16.
    **{
        f"LPDDR5_{density}Gb_x16": (
            "LPDDR5",
            Organization(1, 4, 4, density << 12, 1024, 16, 16, density << 10),
        )
        for density in (2, 4, 8, 16, 32)
    },
}
"""Preset name -> (standard, organization)."""

_HBM2_NAMES = _names(
    "rate nBL nCL nRCD nRCDWR nRP nRAS nRC nWR nRTPS nRTP nCWL nCCDS nCCDL nRRDS nRRDL nWTRS nWTRL nFAW nREFI"
)
_HBM2_ROWS = {
    # RAM2 HBM2.cpp
    "HBM2_2Gbps": (2000, 2, 7, 7, 7, 7, 17, 19, 8, 2, 3, 2, 1, 2, 2, 3, 3, 4, 15, 3900),
    "HBM2_2.5Gbps": (2400, 2, 9, 9, 9, 9, 21, 23, 10, 3, 4, 3, 1, 2, 3, 4, 4, 5, 19, 4680),
    # Assumed: the nanoseconds of DS3 HBM2_8Gb_x128.ini at 1.6 and 1.8 GHz; nREFI 3.9 us.
    "HBM2E_3.2Gbps": (3200, 2, 23, 23, 23, 23, 55, 78, 26, 7, 10, 7, 1, 2, 7, 10, 10, 13, 48, 6240),
    "HBM2E_3.6Gbps": (3600, 2, 26, 26, 26, 26, 62, 88, 29, 8, 11, 8, 1, 2, 8, 11, 11, 15, 54, 7020),
}
_DDR4_NAMES = _names("rate nBL nCL nRCD nRP nRAS nRC nWR nRTP nCWL nCCDS nCCDL nWTRS nWTRL nCS")
_DDR4_ROWS = {
    # RAM2 DDR4.cpp
    "DDR4_1600J": (1600, 4, 10, 10, 10, 28, 38, 12, 6, 9, 4, 5, 2, 6, 2),
    "DDR4_1600K": (1600, 4, 11, 11, 11, 28, 39, 12, 6, 9, 4, 5, 2, 6, 2),
    "DDR4_1600L": (1600, 4, 12, 12, 12, 28, 40, 12, 6, 9, 4, 5, 2, 6, 2),
    "DDR4_1866L": (1866, 4, 12, 12, 12, 32, 44, 14, 7, 10, 4, 5, 3, 7, 2),
    "DDR4_1866M": (1866, 4, 13, 13, 13, 32, 45, 14, 7, 10, 4, 5, 3, 7, 2),
    "DDR4_1866N": (1866, 4, 14, 14, 14, 32, 46, 14, 7, 10, 4, 5, 3, 7, 2),
    "DDR4_2133N": (2133, 4, 14, 14, 14, 36, 50, 16, 8, 11, 4, 6, 3, 8, 2),
    "DDR4_2133P": (2133, 4, 15, 15, 15, 36, 51, 16, 8, 11, 4, 6, 3, 8, 2),
    "DDR4_2133R": (2133, 4, 16, 16, 16, 36, 52, 16, 8, 11, 4, 6, 3, 8, 2),
    "DDR4_2400P": (2400, 4, 15, 15, 15, 39, 54, 18, 9, 12, 4, 6, 3, 9, 2),
    "DDR4_2400R": (2400, 4, 16, 16, 16, 39, 55, 18, 9, 12, 4, 6, 3, 9, 2),
    "DDR4_2400U": (2400, 4, 17, 17, 17, 39, 56, 18, 9, 12, 4, 6, 3, 9, 2),
    "DDR4_2400T": (2400, 4, 18, 18, 18, 39, 57, 18, 9, 12, 4, 6, 3, 9, 2),
    "DDR4_2666T": (2666, 4, 17, 17, 17, 43, 60, 20, 10, 14, 4, 7, 4, 10, 2),
    "DDR4_2666U": (2666, 4, 18, 18, 18, 43, 61, 20, 10, 14, 4, 7, 4, 10, 2),
    "DDR4_2666V": (2666, 4, 19, 19, 19, 43, 62, 20, 10, 14, 4, 7, 4, 10, 2),
    "DDR4_2666W": (2666, 4, 20, 20, 20, 43, 63, 20, 10, 14, 4, 7, 4, 10, 2),
    "DDR4_2933V": (2933, 4, 19, 19, 19, 47, 66, 22, 11, 16, 4, 8, 4, 11, 2),
    "DDR4_2933W": (2933, 4, 20, 20, 20, 47, 67, 22, 11, 16, 4, 8, 4, 11, 2),
    "DDR4_2933Y": (2933, 4, 21, 21, 21, 47, 68, 22, 11, 16, 4, 8, 4, 11, 2),
    "DDR4_2933AA": (2933, 4, 22, 22, 22, 47, 69, 22, 11, 16, 4, 8, 4, 11, 2),
    "DDR4_3200W": (3200, 4, 20, 20, 20, 52, 72, 24, 12, 16, 4, 8, 4, 12, 2),
    "DDR4_3200AA": (3200, 4, 22, 22, 22, 52, 74, 24, 12, 16, 4, 8, 4, 12, 2),
    "DDR4_3200AC": (3200, 4, 24, 24, 24, 52, 76, 24, 12, 16, 4, 8, 4, 12, 2),
}
_LPDDR_NAMES = _names(
    "rate nBL nCL nRCD nRPab nRP nRAS nRC nWR nRTP nCWL nCCDS nCCDL nRRDS nRRDL nWTRS nWTRL nFAW nCS"
)
_LPDDR_ROWS = {
    # Assumed: JESD209-4 nanoseconds (tRCD 18, tRPpb 18, tRPab 21, tRAS 42, tWR 18, tRTP 7.5, tWTR 10,
    # tRRD 10 or 7.5, tFAW 40 or 30) at 1.6 and 2.133 GHz, read latency 28 and 36, write latency 14 and 18.
    "LPDDR4X_3200": (3200, 8, 28, 29, 34, 29, 68, 97, 29, 12, 14, 8, 8, 16, 16, 16, 16, 64, 2),
    "LPDDR4X_4266": (4266, 8, 36, 39, 45, 39, 90, 129, 39, 17, 18, 8, 8, 16, 16, 22, 22, 64, 2),
    # RAM2 LPDDR5.cpp, cycles of CK (800 MHz); one ACT stands for ACT-1 and ACT-2, no CAS for WCK.
    "LPDDR5_6400": (6400, 2, 20, 15, 17, 15, 34, 49, 28, 4, 11, 2, 4, 4, 4, 5, 10, 16, 2),
}


def _table(names: Sequence[str], rows: Mapping[str, tuple[int, ...]]) -> dict[str, Mapping[str, int]]:
    return {name: dict(zip(names, values, strict=True)) for name, values in rows.items()}


TIMINGS: Mapping[str, Mapping[str, int]] = {
    **_table(_HBM2_NAMES, _HBM2_ROWS),
    **_table(_DDR4_NAMES, _DDR4_ROWS),
    **_table(_LPDDR_NAMES, _LPDDR_ROWS),
}
"""Preset name -> timings; `derived_timings` gives those that a table leaves out."""

DEVICES: Mapping[str, tuple[str, str, str]] = {
    "HBM2": ("HBM2", "HBM2_8Gb", "HBM2_2.5Gbps"),
    "HBM2E": ("HBM2E", "HBM2E_16Gb", "HBM2E_3.2Gbps"),
    "DDR4": ("DDR4", "DDR4_8Gb_x8", "DDR4_3200AA"),
    "LPDDR4X": ("LPDDR4X", "LPDDR4X_4Gb_x16", "LPDDR4X_4266"),
    "LPDDR5": ("LPDDR5", "LPDDR5_8Gb_x16", "LPDDR5_6400"),
}
"""Device name -> (standard, organization preset, timing preset)."""

_RATES = (1600, 1866, 2133, 2400, 2666, 2933, 3200)
# Ref: JESD79-4C tables 169, 170 as RAM2 DDR4.cpp quotes them, by chip width and rate.
_DDR4_BY_RATE: Mapping[tuple[str, int], tuple[int, ...]] = {
    ("nRRDS", 4): (4, 4, 4, 4, 4, 4, 4),
    ("nRRDS", 8): (4, 4, 4, 4, 4, 4, 4),
    ("nRRDS", 16): (5, 5, 6, 7, 8, 8, 9),
    ("nRRDL", 4): (5, 5, 6, 6, 7, 8, 8),
    ("nRRDL", 8): (5, 5, 6, 6, 7, 8, 8),
    ("nRRDL", 16): (6, 6, 7, 8, 9, 10, 11),
    ("nFAW", 4): (16, 16, 16, 16, 16, 16, 16),
    ("nFAW", 8): (20, 22, 23, 26, 28, 31, 34),
    ("nFAW", 16): (28, 28, 32, 36, 40, 44, 48),
}
# Nanoseconds of a refresh of all banks, by Mbit of a chip. Ref: RAM2; Assumed: LPDDR4X (JESD209-4).
_REFRESH_NS: Mapping[str, Mapping[int, int]] = {
    "HBM2": {2048: 160, 4096: 260, 8192: 350, 16384: 450},
    "HBM2E": {2048: 160, 4096: 260, 8192: 350, 16384: 450},
    "DDR4": {2048: 160, 4096: 260, 8192: 360, 16384: 550},
    "LPDDR4X": {4096: 180, 8192: 280, 16384: 380},
    "LPDDR5": {2048: 130, 4096: 180, 8192: 210, 16384: 280, 32768: 380},
}
# Nanoseconds between two refreshes. Ref: RAM2; Assumed: LPDDR4X.
_INTERVAL_NS: Mapping[str, int] = {
    "HBM2": 3900,
    "HBM2E": 3900,
    "DDR4": 7800,
    "LPDDR4X": 3904,
    "LPDDR5": 3906,
}

STANDARDS = tuple(_INTERVAL_NS)
"""All known standards."""


def clock_ps(standard: str, rate: int) -> int:
    """Return the clock period of a device of `rate` MT/s;
    LPDDR5's command clock runs at an eighth of it (WCK 4:1)."""
    return 1_000_000 * (8 if standard == "LPDDR5" else 2) // rate


def in_cycles(nanoseconds: float, period_ps: int) -> int:
    """Return the cycles that cover a time. Ref: JESD79-4C section 13.5, rounding with a guard of 2.5 %."""
    return int((int(nanoseconds * 1000) * 1000 // period_ps + 974) // 1000)


def derived_timings(standard: str, organization: Organization, rate: int) -> dict[str, int]:
    """Return timings that follow from rate and chip:
    refresh, and for DDR4 those that depend on the chip's width."""
    period = clock_ps(standard, rate)
    found: dict[str, int] = {"nREFI": in_cycles(_INTERVAL_NS[standard], period)}
    refresh = _REFRESH_NS[standard]
    # Chips of a density that the table lacks take the time of the largest.
    found["nRFC"] = in_cycles(refresh.get(organization.density, max(refresh.values())), period)
    if standard == "DDR4" and rate in _RATES:
        for name in ("nRRDS", "nRRDL", "nFAW"):
            row = _DDR4_BY_RATE.get((name, organization.chip_bits))
            if row is not None:
                found[name] = row[_RATES.index(rate)]
    return found
