"""Make DRAM devices from presets or sizes: units, timing rules and address mapping of one channel.

The command-level model (`command_kernels`) runs a device. Rules have the form "after
BEFORE at a unit of LEVEL, no AFTER at the same unit for CYCLES". Ref: systolic.md section 8.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from npuviz.base.errors import TargetError
from npuviz.sim.dram import presets

CHANNEL, RANK, GROUP, BANK = range(4)
"""Levels of a channel's units; a rank is a pseudo-channel where the standard has those."""
MAX_BANKS = 62
"""Most banks of a channel, all ranks together: each is a bit of one word."""
MAX_RANKS = 8
MAX_CYCLES = 1_000_000
MAPPINGS = ("RoBaRaCoCh", "ChRaBaRoCo", "MOP4CLXOR")
"""Address mappings by the names of Ramulator, highest bits first."""
QUEUE_DEPTH = 256
"""A buffer takes a request while it holds at most this many. Ref: systolic.md section 8."""


def watermarks(depth: int) -> tuple[int, int]:
    """Return (few, many) for a buffer of a depth: write mode ends below `few` writes and begins above `many`.

    Ref: systolic.md section 8, 0.2 and 0.8 of the buffer: 52 and 204 of 256.
    """
    return -(-depth // 5), depth * 4 // 5


@dataclass(frozen=True, slots=True)
class TimingRule:
    """After command `before` at a unit of `level`, the next `after` there comes at least `cycles` later.

    window      counts from the window-th last `before` instead of the last
    is_sibling  applies to the other ranks of the channel instead of the same one
    """

    level: int
    before: str
    after: str
    cycles: int
    window: int = 1
    is_sibling: bool = False


@dataclass(frozen=True, slots=True)
class AddressField:
    """(address >> shift) & (2**bits - 1), with parts (shift, bits, place) of the address added modulo 2."""

    shift: int
    bits: int
    added: tuple[tuple[int, int, int], ...] = ()

    def of(self, address: int) -> int:
        """Return the field's value for a byte address inside the channel."""
        value = (address >> self.shift) & ((1 << self.bits) - 1)
        for shift, bits, place in self.added:
            value ^= ((address >> shift) & ((1 << bits) - 1)) << place
        return value


@dataclass(frozen=True, slots=True)
class AddressMapping:
    """Fields for rank, bank group, bank and row in a byte address inside a channel."""

    name: str
    rank: AddressField
    group: AddressField
    bank: AddressField
    row: AddressField

    def place(self, address: int) -> tuple[int, int, int, int]:
        """Return (rank, group, bank, row) of a byte address inside the channel."""
        return self.rank.of(address), self.group.of(address), self.bank.of(address), self.row.of(address)


@dataclass(frozen=True, slots=True)
class DramDevice:
    """One channel's device and controller.

    timing        names as in `presets`, cycles of the device; rules follow from it
    read_latency  cycles from RD to the response
    watermarks    (few, many): fewer writes than the first end write mode, more than the second begin it
    period_ps     the device's own clock period; a simulator may run it at another
    notes         what was assumed or corrected, one sentence each
    """

    standard: str
    organization: presets.Organization
    timing: Mapping[str, int]
    mapping: AddressMapping
    rules: tuple[TimingRule, ...]
    read_latency: int
    period_ps: int
    queue_depth: int = QUEUE_DEPTH
    watermarks: tuple[int, int] = watermarks(QUEUE_DEPTH)
    notes: tuple[str, ...] = field(default=())

    @property
    def ranks(self) -> int:
        """Number of ranks, or pseudo-channels, of the channel."""
        return self.organization.ranks

    @property
    def banks(self) -> int:
        """Number of banks of the channel, all ranks together."""
        return self.organization.ranks * self.organization.groups * self.organization.banks

    @property
    def access_bytes(self) -> int:
        """Bytes of one access (burst)."""
        return self.organization.prefetch * self.organization.width // 8

    @property
    def rank_name(self) -> str:
        """Name of a rank in the standard."""
        return "pseudo-channel" if self.standard.startswith("HBM") else "rank"


def make_device(
    standard: str,
    organization: str | presets.Organization,
    timing: str = "",
    changes: Mapping[str, float] | None = None,
    mapping: str = "RoBaRaCoCh",
    *,
    is_exact: bool = False,
) -> DramDevice:
    """Make a device from presets, with timings changed by `changes`.

    organization  a preset's name, or custom sizes
    timing        a preset's name, or "" if `changes` has all timings, with `rate`
    changes       nXXX in cycles or tXXX in nanoseconds
    is_exact      keep a preset's own numbers even where they break a rule of the standard
    Raises TargetError for unknown names, missing or impossible timings (the rule is named).
    """
    if standard not in presets.STANDARDS:
        raise TargetError(
            f"DRAM standard {standard[:40]!r} is not known; there are {', '.join(presets.STANDARDS)}"
        )
    sizes = _organization(standard, organization)
    given = dict(changes or {})
    values = _preset_timing(standard, timing)
    if "rate" in given:
        if timing:
            raise TargetError(f"DRAM timing: rate cannot be changed together with the preset {timing}")
        values["rate"] = _cycles("rate", given.pop("rate"))
    if not values.get("rate"):
        raise TargetError("DRAM timing: no preset and no rate; give one of them")
    period = presets.clock_ps(standard, values["rate"])
    values = {**presets.derived_timings(standard, sizes, values["rate"]), **values}
    for name, value in given.items():
        if name.startswith("t"):
            values["n" + name[1:]] = _cycles(name, presets.in_cycles(_finite(name, value), period))
        else:
            values[name] = _cycles(name, value)
    _complete(values)
    notes = _check(values, {"n" + name[1:] for name in given}, timing, is_exact)
    rules = tuple(rule for rule in timing_rules(standard, values) if rule.cycles > 0)
    if mapping not in MAPPINGS:
        raise TargetError(f"address mapping {mapping[:40]!r} is not known; there are {', '.join(MAPPINGS)}")
    return DramDevice(
        standard,
        sizes,
        values,
        _mapping(mapping, sizes),
        rules,
        values["nCL"] + values["nBL"],
        period,
        notes=notes,
    )


def preset_device(name: str, *, is_exact: bool = False) -> DramDevice:
    """Make a device by its name in `presets.DEVICES`. Raises TargetError."""
    if name not in presets.DEVICES:
        raise TargetError(f"DRAM device {name[:40]!r} is not known; there are {', '.join(presets.DEVICES)}")
    return make_device(*presets.DEVICES[name], is_exact=is_exact)


def _organization(standard: str, organization: str | presets.Organization) -> presets.Organization:
    if isinstance(organization, str):
        known = [name for name, (of, _) in presets.ORGANIZATIONS.items() if of == standard]
        if organization not in known:
            raise TargetError(
                f"DRAM organization {organization[:40]!r} is not known; {standard} has {', '.join(known)}"
            )
        return presets.ORGANIZATIONS[organization][1]
    for name in ("ranks", "groups", "banks", "rows", "columns", "prefetch", "width"):
        value = getattr(organization, name)
        if value < 1 or value & (value - 1):
            raise TargetError(f"DRAM organization: {name} must be a power of two, found {value}")
    banks = organization.ranks * organization.groups * organization.banks
    if banks > MAX_BANKS or organization.ranks > MAX_RANKS:
        raise TargetError(
            f"DRAM organization: {organization.ranks} ranks with {banks} banks in all; "
            f"at most {MAX_RANKS} ranks and {MAX_BANKS} banks a channel"
        )
    if organization.columns < organization.prefetch or organization.width < 8:
        raise TargetError("DRAM organization: a row must hold one access, and a word at least 8 bits")
    if organization.rows > 1 << 30 or organization.columns > 1 << 20 or organization.width > 1 << 12:
        raise TargetError("DRAM organization: at most 2**30 rows, 2**20 columns and 4096 data bits")
    return organization


def _preset_timing(standard: str, name: str) -> dict[str, int]:
    if not name:
        return {}
    known = [key for key in presets.TIMINGS if key.split("_")[0] == standard]
    if name not in known:
        raise TargetError(f"DRAM timing {name[:40]!r} is not known; {standard} has {', '.join(known)}")
    return dict(presets.TIMINGS[name])


def _finite(name: str, value: float) -> float:
    if not 0 <= value <= 1e9:
        raise TargetError(f"DRAM timing {name[:40]}: expected nanoseconds from 0 to 1e9, found {value:g}")
    return value


def _cycles(name: str, value: float) -> int:
    if not 0 <= value <= MAX_CYCLES or value != int(value):
        raise TargetError(
            f"DRAM timing {name[:40]}: expected whole cycles from 0 to {MAX_CYCLES}, found {value:g}"
        )
    return int(value)


_SAME = {
    "nRCDWR": "nRCD",
    "nRPab": "nRP",
    "nRTPS": "nRTP",
    "nCCDL": "nCCDS",
    "nRRDL": "nRRDS",
    "nWTRL": "nWTRS",
}
_NEEDED = (
    *("nBL", "nCL", "nCWL", "nRCD", "nRP", "nRAS", "nRC", "nWR", "nRTP"),
    *("nCCDS", "nRRDS", "nWTRS", "nFAW", "nRFC", "nREFI"),
)


def _complete(values: dict[str, int]) -> None:
    missing = [name for name in _NEEDED if name not in values]
    if missing:
        raise TargetError(f"DRAM timing: {', '.join(missing)} is missing; give it or a timing preset")
    for name, same in _SAME.items():
        values.setdefault(name, values[same])
    values.setdefault("nCS", 0)


def _check(values: dict[str, int], changed: set[str], preset: str, is_exact: bool) -> tuple[str, ...]:
    """Refuse impossible timings; correct a preset that breaks a rule itself, unless `is_exact`.
    Return notes."""
    for name in ("nBL", "nCL", "nRCD", "nRP", "nRAS", "nRC", "nCCDS", "nRFC", "nREFI"):
        if values[name] < 1:
            raise TargetError(f"DRAM timing {name}: expected at least 1 cycle, found {values[name]}")
    rules = (
        ("tRC >= tRAS + tRP", "nRC", ("nRAS", "nRP")),
        ("tRAS >= tRCD", "nRAS", ("nRCD",)),
        ("tCCD_L >= tCCD_S", "nCCDL", ("nCCDS",)),
        ("tRRD_L >= tRRD_S", "nRRDL", ("nRRDS",)),
        ("tWTR_L >= tWTR_S", "nWTRL", ("nWTRS",)),
        ("tREFI > tRFC + tRP", "nREFI", ("nRFC", "nRP")),
        ("tCL + tBL + 2 >= tCWL", "nCL", ()),
    )
    notes: list[str] = []
    for text, name, parts in rules:
        least = sum(values[part] for part in parts)
        parts = (*parts,) if parts else ("nCWL", "nBL")
        if name == "nCL":
            least = values["nCWL"] - values["nBL"] - 2
        if name == "nREFI":
            least += 1
        if values[name] >= least:
            continue
        numbers = ", ".join(f"{part} = {values[part]}" for part in (name, *parts))
        if not preset or changed & {name, *parts}:
            raise TargetError(f"impossible DRAM timings: {text} does not hold ({numbers} cycles)")
        if is_exact:
            notes.append(f"DRAM preset {preset} breaks {text} ({numbers}); kept as it is")
        else:
            notes.append(f"DRAM preset {preset} breaks {text} ({numbers}); {name} is taken as {least}")
            values[name] = least
    return tuple(notes)


def timing_rules(standard: str, t: Mapping[str, int]) -> list[TimingRule]:
    """Return the timing rules of a standard. Ref: systolic.md section 8 (HBM2, DDR4); RAM2 LPDDR5.cpp."""
    write_end = t["nCWL"] + t["nBL"] + t["nWR"]
    turn = t["nCL"] + t["nBL"] + 2 - t["nCWL"]
    to_read = t["nCWL"] + t["nBL"]
    found: list[TimingRule] = []

    def add(level: int, before: str, after: str, cycles: int, window: int = 1, sibling: bool = False) -> None:
        found.extend(TimingRule(level, before, name, cycles, window, sibling) for name in after.split())

    if standard.startswith("HBM"):
        # A row command of HBM takes two cycles of the channel's row bus.
        add(CHANNEL, "ACT", "ACT PRE PREA REF", 2)
    else:
        add(CHANNEL, "RD", "RD", t["nBL"])
        add(CHANNEL, "WR", "WR", t["nBL"])
        add(RANK, "RD", "RD WR", t["nBL"] + t["nCS"], sibling=True)
        add(RANK, "WR", "RD", t["nCL"] + t["nBL"] + t["nCS"] - t["nCWL"], sibling=True)
    add(RANK, "RD", "RD", max(t["nBL"], t["nCCDS"]))
    add(RANK, "WR", "WR", max(t["nBL"], t["nCCDS"]))
    add(RANK, "RD", "WR", turn)
    add(RANK, "WR", "RD", to_read + t["nWTRS"])
    add(RANK, "RD", "PREA", t["nRTPS"])
    add(RANK, "WR", "PREA", write_end)
    add(RANK, "ACT", "ACT", t["nRRDS"])
    add(RANK, "ACT", "ACT", t["nFAW"], window=4)
    add(RANK, "ACT", "PREA", t["nRAS"])
    add(RANK, "ACT", "REF", t["nRC"])
    add(RANK, "PREA", "ACT REF", t["nRPab"])
    add(RANK, "PRE", "REF", t["nRP"])
    add(RANK, "REF", "ACT REF", t["nRFC"])
    add(GROUP, "RD", "RD", t["nCCDL"])
    add(GROUP, "WR", "WR", t["nCCDL"])
    add(GROUP, "WR", "RD", to_read + t["nWTRL"])
    add(GROUP, "ACT", "ACT", t["nRRDL"])
    add(BANK, "ACT", "ACT", t["nRC"])
    add(BANK, "ACT", "RD", t["nRCD"])
    add(BANK, "ACT", "WR", t["nRCDWR"])
    add(BANK, "ACT", "PRE", t["nRAS"])
    add(BANK, "PRE", "ACT", t["nRP"])
    add(BANK, "RD", "PRE", t["nRTP"])
    add(BANK, "WR", "PRE", write_end)
    return found


def _mapping(name: str, sizes: presets.Organization) -> AddressMapping:
    """Return the fields of a mapping. Ref: RAM2 linear_mappers.cpp (without the bits of
    the channel number)."""
    offset = (sizes.prefetch * sizes.width // 8).bit_length() - 1
    bits = {
        "rank": sizes.ranks.bit_length() - 1,
        "group": sizes.groups.bit_length() - 1,
        "bank": sizes.banks.bit_length() - 1,
        "row": sizes.rows.bit_length() - 1,
    }
    column = (sizes.columns // sizes.prefetch).bit_length() - 1
    if name == "ChRaBaRoCo":
        order, first = ("row", "bank", "group", "rank"), column
    elif name == "RoBaRaCoCh":
        order, first = ("rank", "group", "bank", "row"), column
    else:
        order, first = ("rank", "group", "bank"), min(column, 2)
    fields: dict[str, AddressField] = {}
    place = offset + first
    for part in order:
        fields[part] = AddressField(place, bits[part])
        place += bits[part]
    if name == "MOP4CLXOR":
        # Two low column bits, the banks, the other column bits, the row; column bits are added modulo 2 to
        # all fields.
        fields["row"] = AddressField(place + max(column - 2, 0), 30)
        low, used = min(column, 2), 0
        for part in ("rank", "group", "bank", "row"):
            end = min(used + bits[part], column)
            added: list[tuple[int, int, int]] = []
            if used < min(end, low):
                added.append((offset + used, min(end, low) - used, 0))
            if max(used, low) < end:
                begin = max(used, low)
                added.append((place + begin - low, end - begin, begin - used))
            fields[part] = replace(fields[part], added=tuple(added))
            used += bits[part]
    return AddressMapping(name, **fields)
