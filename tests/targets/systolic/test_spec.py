import json
from pathlib import Path

import pytest

from npuviz.base.errors import TargetError, UsageError
from npuviz.formats.onnxim.hardware import read_config
from npuviz.targets.systolic.presets import PRESETS
from npuviz.targets.systolic.spec import SETTING_NAMES, make_spec
from tests.targets.systolic.parity_data import ONNXIM

TPUV4 = ONNXIM / "configs" / "systolic_ws_128x128_c4_simple_noc_tpuv4_dramsimple.json"


def test_default_preset_is_the_shipped_file() -> None:
    spec, notes = make_spec()
    shipped, _ = read_config(TPUV4)
    assert notes == ()
    assert spec.cores == shipped.cores
    for name in ("core_freq", "dram_freq", "dram_channels", "dram_latency", "icnt_freq", "precision"):
        assert getattr(spec.config, name) == getattr(shipped, name)
    assert spec.config.icnt_injection_ports_per_core == 16
    assert (spec.mode, spec.core_period_ps, spec.dram_period_ps, spec.noc_period_ps) == (
        "true",
        1000,
        833,
        1000,
    )
    assert (spec.spad_half_bytes(), spec.acc_half_bytes()) == (16 << 20, 2 << 20)


def test_edge_presets_are_the_shipped_files() -> None:
    for preset, name in (("edge-8x8", "8x8_c1"), ("edge-8x8-c4", "8x8_c4")):
        spec, _ = make_spec(preset)
        shipped, _ = read_config(ONNXIM / "configs" / f"systolic_ws_{name}_simple_noc_transformer.json")
        assert spec.cores == shipped.cores
        assert (spec.precision, spec.config.dram_channels) == (shipped.precision, shipped.dram_channels)


def test_settings_of_spec_chip_and_cores() -> None:
    spec, _ = make_spec(
        settings={
            "mode": "parity",
            "cores": "6",
            "core_width": "64",
            "core_1.core_height": "32",
            "dram_size": "0",
        }
    )
    assert (spec.mode, spec.num_cores, len(spec.cores), spec.config.dram_size) == ("parity", 6, 6, 0)
    assert [core.core_width for core in spec.cores] == [64] * 6
    assert [core.core_height for core in spec.cores] == [128, 32, 128, 128, 128, 128]
    assert make_spec(settings={"cores": "2"})[0].cores == make_spec()[0].cores[:2]


def test_every_preset_makes_a_spec() -> None:
    assert next(iter(PRESETS)) == "tpuv4"
    assert [make_spec(name)[0].num_cores for name in PRESETS] == [4, 1, 1, 4]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("core_widht", "3", "--set core_widht: unknown key; close: core_width"),
        ("cores", "0", "--set cores=0: expected an integer from 1 to 4096"),
        ("cores", "1000000000", "expected an integer from 1 to 4096"),
        ("cores", "many", "--set cores=many"),
        ("mode", "fast", "expected one of true, parity"),
        ("core_9.core_width", "3", "there are 4 cores"),
        ("core_x.core_width", "3", "unknown key"),
        ("dram_channels", "20", "1 to 16, 32 or 64"),
    ],
)
def test_wrong_settings(name: str, value: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_spec(settings={name: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dram_type": "ramulator2"}, "--set dram_device="),
        ({"dram_type": "ramulator"}, "--set dram_type=ramulator2"),
        ({"icnt_type": "booksim2"}, "--set network="),
        ({"cores": "4096", "core_height": "4096"}, "array rows"),
        ({"cores": "4096", "core_height": "8", "icnt_injection_ports_per_core": "64"}, "network ports"),
    ],
)
def test_what_is_not_modelled_says_what_runs(settings: dict[str, str], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        make_spec(settings=settings)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_preset() -> None:
    with pytest.raises(UsageError, match="unknown preset 'x'; there are tpuv4"):
        make_spec("x")


def test_warnings_of_a_file_become_notes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(json.loads(TPUV4.read_text()) | {"extra": 1}))
    _, notes = make_spec(config=path)
    assert [note.text for note in notes] == ["unknown key extra is ignored"]


def test_names_of_settings() -> None:
    assert "cores" in SETTING_NAMES
    assert "core_12.spad_size" in SETTING_NAMES
    assert "core_config.core_0.add_latency" in SETTING_NAMES
    assert "batch_size" not in SETTING_NAMES
    assert "core_1" not in SETTING_NAMES
    assert "dram_size" in str(SETTING_NAMES.unknown("dram_sise"))
