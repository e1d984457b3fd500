"""The DRAM of a machine: found beside the hardware file, refused with one line, refreshed by mode."""

import json
from pathlib import Path

import pytest

from npuviz.base.errors import FormatError, NpuvizError, TargetError
from npuviz.targets.systolic.spec import SystolicSpec, make_spec
from tests.targets.systolic.parity_data import ONNXIM

CONFIGS = ONNXIM / "configs"
TPU = "systolic_ws_128x128_c4_simple_noc_tpuv4.json"
EDGE = "systolic_ws_8x8_c1_simple_noc_transformer.json"


def spec_of(name: str, **settings: str) -> SystolicSpec:
    return make_spec(config=CONFIGS / name, settings=settings)[0]


def test_devices_of_the_shipped_files() -> None:
    device = spec_of(TPU, mode="parity").device
    assert device is not None
    assert (device.standard, device.timing["nRC"]) == ("HBM2", 23)
    device = spec_of(EDGE, mode="parity").device
    assert device is not None
    assert (device.standard, device.organization.rows) == ("DDR4", 1 << 18)
    assert spec_of(TPU, dram_type="simple").device is None


def test_refresh_by_mode() -> None:
    assert not spec_of(TPU, mode="parity").is_refreshed
    assert spec_of(EDGE, mode="parity").is_refreshed
    assert spec_of(TPU).is_refreshed
    assert not spec_of(TPU, dram_refresh="off").is_refreshed
    assert spec_of(TPU, mode="parity", dram_refresh="on").is_refreshed


def test_true_mode_tells_what_does_not_fit() -> None:
    notes = " ".join(note.text for note in make_spec(config=CONFIGS / EDGE)[1])
    assert "800 MHz" in notes
    assert "a burst of this DDR4 64" in notes
    notes = " ".join(note.text for note in make_spec(config=CONFIGS / TPU)[1])
    assert "nRC is taken as 30" in notes


def test_named_device() -> None:
    spec, _ = make_spec("tpuv4", settings={"dram_type": "ramulator2", "dram_device": "HBM2E"})
    assert spec.device is not None
    assert spec.device.standard == "HBM2E"


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="dram_device="):
        make_spec("tpuv4", settings={"dram_type": "ramulator2"})
    with pytest.raises(TargetError, match="version 1"):
        make_spec("tpuv4", settings={"dram_type": "ramulator"})
    hardware = json.loads((CONFIGS / TPU).read_text())
    hardware["dram_config_path"] = "../missing.yaml"
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(hardware))
    with pytest.raises(FormatError, match="dram_config_path"):
        make_spec(config=path)


@pytest.mark.parametrize(
    ("dram", "word"),
    [
        (
            "impl: DDR4\n    org: {preset: DDR4_8Gb_x8}\n    timing: {preset: DDR4_1600J, nRC: 30}",
            "tRC >= tRAS",
        ),
        ("impl: DDR4\n    org: {preset: DDR4_8Gb_x8}\n    timing: {preset: DDR4_1700}", "DDR4_1600J"),
        ("impl: DDR4\n    org: {preset: nothing, rank: 2}\n    timing: {preset: DDR4_1600J}", "DDR4_2Gb_x4"),
        ("impl: DDR4\n    org: {bank: 4}\n    timing: {preset: DDR4_1600J}", "groups"),
        ("impl: DDR4\n    timing: {preset: DDR4_1600J}", "org.preset"),
        ("impl: SRAM\n    org: {preset: x}", "HBM2"),
    ],
)
def test_impossible_devices_name_the_file(tmp_path: Path, dram: str, word: str) -> None:
    hardware = json.loads((CONFIGS / TPU).read_text())
    hardware["dram_config_path"] = "dram.yaml"
    (tmp_path / "chip.json").write_text(json.dumps(hardware))
    (tmp_path / "dram.yaml").write_text(f"MemorySystem:\n  DRAM:\n    {dram}\n")
    with pytest.raises(NpuvizError) as caught:
        make_spec(config=tmp_path / "chip.json")
    assert word in str(caught.value)
    assert "dram.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_of_ones_own(tmp_path: Path) -> None:
    hardware = json.loads((CONFIGS / TPU).read_text())
    hardware["dram_config_path"] = "dram.yaml"
    (tmp_path / "chip.json").write_text(json.dumps(hardware))
    (tmp_path / "dram.yaml").write_text(
        "MemorySystem:\n  DRAM:\n    impl: HBM2\n"
        "    org: {pseudochannel: 2, bankgroup: 2, bank: 2, row: 1024, column: 64}\n"
        "    timing: {preset: HBM2_2Gbps}\n"
    )
    device = make_spec(config=tmp_path / "chip.json")[0].device
    assert device is not None
    assert (device.banks, device.access_bytes) == (8, 32)
