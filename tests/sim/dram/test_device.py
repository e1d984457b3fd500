"""Devices: rules against the reference's tables, presets, mappings, impossible timings."""

import pytest

from npuviz.base.errors import TargetError
from npuviz.sim.dram.device import BANK, CHANNEL, GROUP, RANK, DramDevice, make_device, preset_device
from npuviz.sim.dram.presets import DEVICES, ORGANIZATIONS, TIMINGS, Organization

# Ref: systolic.md section 8, the table of both devices; "ACT4" is the window of four activations.
HBM2_TABLE = {
    (CHANNEL, "ACT", "ACT"): 2,
    (CHANNEL, "ACT", "PRE"): 2,
    (CHANNEL, "ACT", "PREA"): 2,
    (RANK, "ACT", "ACT"): 3,
    (RANK, "ACT4", "ACT"): 19,
    (RANK, "RD", "RD"): 2,
    (RANK, "WR", "WR"): 2,
    (RANK, "RD", "WR"): 10,
    (RANK, "WR", "RD"): 9,
    (GROUP, "ACT", "ACT"): 4,
    (GROUP, "RD", "RD"): 2,
    (GROUP, "WR", "WR"): 2,
    (GROUP, "WR", "RD"): 10,
    (BANK, "ACT", "ACT"): 23,
    (BANK, "ACT", "RD"): 9,
    (BANK, "ACT", "WR"): 9,
    (BANK, "ACT", "PRE"): 21,
    (BANK, "PRE", "ACT"): 9,
    (BANK, "RD", "PRE"): 4,
    (BANK, "WR", "PRE"): 15,
}
DDR4_TABLE = {
    (CHANNEL, "RD", "RD"): 4,
    (CHANNEL, "WR", "WR"): 4,
    (RANK, "ACT", "ACT"): 4,
    (RANK, "ACT4", "ACT"): 16,
    (RANK, "RD", "RD"): 4,
    (RANK, "WR", "WR"): 4,
    (RANK, "RD", "WR"): 7,
    (RANK, "WR", "RD"): 15,
    (RANK, "RD", "PREA"): 6,
    (RANK, "WR", "PREA"): 25,
    (RANK, "ACT", "PREA"): 28,
    (RANK, "PREA", "ACT"): 10,
    (RANK, "ACT", "REF"): 38,
    (RANK, "PRE", "REF"): 10,
    (RANK, "PREA", "REF"): 10,
    (RANK, "REF", "ACT"): 440,
    (GROUP, "ACT", "ACT"): 5,
    (GROUP, "RD", "RD"): 5,
    (GROUP, "WR", "WR"): 5,
    (GROUP, "WR", "RD"): 19,
    (BANK, "ACT", "ACT"): 38,
    (BANK, "ACT", "RD"): 10,
    (BANK, "ACT", "WR"): 10,
    (BANK, "ACT", "PRE"): 28,
    (BANK, "PRE", "ACT"): 10,
    (BANK, "RD", "PRE"): 6,
    (BANK, "WR", "PRE"): 25,
}


def table_of(device: DramDevice) -> dict[tuple[int, str, str], int]:
    return {
        (rule.level, rule.before + ("4" if rule.window == 4 else ""), rule.after): rule.cycles
        for rule in device.rules
        if not rule.is_sibling
    }


def hbm2() -> DramDevice:
    return make_device("HBM2", "HBM2_8Gb", "HBM2_2.5Gbps", is_exact=True)


def ddr4(**changes: float) -> DramDevice:
    return make_device("DDR4", "DDR4_16Gb_x4", "DDR4_1600J", changes)


def test_rules_of_the_reference() -> None:
    found = table_of(hbm2())
    assert {key: found.get(key) for key in HBM2_TABLE} == HBM2_TABLE
    found = table_of(ddr4())
    assert {key: found.get(key) for key in DDR4_TABLE} == DDR4_TABLE
    assert ddr4().timing["nREFI"] == 6240
    assert (hbm2().read_latency, ddr4().read_latency) == (11, 14)


def test_mapping_of_the_reference() -> None:
    # From bit 0: 5 unused, column 4, pseudo-channel 1, bank group 2, bank 2, row 15.
    assert hbm2().mapping.place((1 << 9) | (2 << 10) | (3 << 12) | (5 << 14)) == (1, 2, 3, 5)
    assert hbm2().mapping.place(1 << 29) == (0, 0, 0, 0)
    # 6 unused, column 7, bank group 2, bank 2, row 18.
    assert ddr4().mapping.place((1 << 13) | (2 << 15) | (77 << 17)) == (0, 1, 2, 77)


@pytest.mark.parametrize("name", ["RoBaRaCoCh", "ChRaBaRoCo", "MOP4CLXOR"])
def test_mappings_are_one_to_one(name: str) -> None:
    sizes = Organization(2, 2, 4, 8, 128, 8, 64, 1 << 20)
    device = make_device("DDR4", sizes, "DDR4_2400R", {"nRRDS": 4, "nRRDL": 6, "nFAW": 26}, name)
    places = [device.mapping.place(address) for address in range(0, 2 * 2 * 4 * 8 * 16 * 64, 64)]
    assert len(set(places)) == 2 * 2 * 4 * 8
    # Every row holds as many accesses as it has columns.
    assert {places.count(place) for place in set(places)} == {16}


def test_every_preset_makes_a_device() -> None:
    for standard, organization, timing in DEVICES.values():
        assert make_device(standard, organization, timing).standard == standard
    for name in TIMINGS:
        standard = name.split("_")[0]
        organization = next(key for key, (of, _) in ORGANIZATIONS.items() if of == standard)
        device = make_device(standard, organization, name)
        assert device.timing["nRC"] >= device.timing["nRAS"] + device.timing["nRP"]


def test_a_preset_that_breaks_a_rule() -> None:
    # Ramulator's HBM2 says tRC 23 with tRAS 21 and tRP 9.
    assert hbm2().timing["nRC"] == 23
    assert "kept" in hbm2().notes[0]
    corrected = preset_device("HBM2")
    assert corrected.timing["nRC"] == 30
    assert "tRC >= tRAS + tRP" in corrected.notes[0]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"nRC": 37}, "tRC >= tRAS + tRP"),
        ({"nRP": 11}, "tRC >= tRAS + tRP"),
        ({"tRAS": 100}, "tRC >= tRAS + tRP"),
        ({"nRAS": 9}, "tRAS >= tRCD"),
        ({"nCCDL": 3}, "tCCD_L >= tCCD_S"),
        ({"nRRDL": 3}, "tRRD_L >= tRRD_S"),
        ({"nWTRL": 1}, "tWTR_L >= tWTR_S"),
        ({"nREFI": 440}, "tREFI > tRFC + tRP"),
        ({"nCWL": 17}, "tCWL"),
        ({"nRCD": 0}, "nRCD"),
        ({"nRCD": 1.5}, "nRCD"),
        ({"tRCD": -1}, "tRCD"),
        ({"rate": 1600}, "rate"),
    ],
)
def test_impossible_timings_are_refused(changes: dict[str, float], rule: str) -> None:
    with pytest.raises(TargetError) as caught:
        ddr4(**changes)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_are_refused() -> None:
    for arguments in (
        ("DDR9", "DDR4_2Gb_x4", "DDR4_1600J"),
        ("DDR4", "HBM2_8Gb", "DDR4_1600J"),
        ("DDR4", "DDR4_2Gb_x4", "HBM2_2Gbps"),
        ("DDR4", "DDR4_2Gb_x4", ""),
        ("DDR4", Organization(3, 1, 1, 1, 8, 8, 64, 1), "DDR4_1600J"),
        ("DDR4", Organization(8, 4, 4, 1, 8, 8, 64, 1), "DDR4_1600J"),
    ):
        with pytest.raises(TargetError):
            make_device(*arguments)
    with pytest.raises(TargetError, match="RoBaRaCoCh"):
        make_device("DDR4", "DDR4_2Gb_x4", "DDR4_1600J", mapping="x")


def test_nanoseconds() -> None:
    assert ddr4(tRCD=13.75).timing["nRCD"] == 11
