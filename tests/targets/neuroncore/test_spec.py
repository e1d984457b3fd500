"""Presets, settings and their refusals; the derived figures against the published ones."""

import json

import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.presets import FIGURES, PRESETS
from npuviz.targets.neuroncore.spec import SETTINGS, make_spec, stored_spec


def test_every_preset_is_a_machine():
    for name, preset in PRESETS.items():
        spec, notes = make_spec(name)
        assert spec.arch == preset.arch
        assert (spec.version, spec.num_cores, spec.num_partitions) == (preset.version, 1, 128)
        assert spec.num_psum_banks == 8
        assert len(spec.clocks_hz) == len(spec.latency_cycles) == len(Engine)
        assert spec.clocks_hz[Engine.HOST] == spec.base_hz
        assert all("Assumed" in note.text for note in notes)
    assert next(iter(PRESETS)) == "trn2"
    assert make_spec()[0] == make_spec("trn2")[0]


def test_every_figure_has_a_source():
    assert set(FIGURES) <= set(SETTINGS.names) | {"max_lnc"}
    for figure in FIGURES.values():
        assert len(figure.values) == len(figure.sources) == 4
        assert all(len(source) >= 3 for source in figure.sources)


def test_dma_figures_give_the_published_rates():
    """32 KiB in four elements and the semaphore write, DMA-O."""
    for name, nanoseconds in (("trn2", 1416), ("trn1", 32768 / 17), ("trn3", 32768 / 33)):
        spec, _ = make_spec(name)
        rate = spec.dma_peak_bytes_per_ns
        mark = 4 / rate if spec.dma_elements_overlap else spec.element_ns(4, rate)
        found = 4 * spec.element_ns(8192, rate) + mark
        assert found == pytest.approx(nanoseconds, rel=0.002)


def test_the_documented_clocks():
    assert make_spec("trn1")[0].clocks_hz[:4] == (2_800_000_000, 1_400_000_000, 1_400_000_000, 1_120_000_000)
    assert make_spec("trn2")[0].to_cycles(1000.0) == 2400
    assert make_spec("trn2")[0].to_cycles(0.1) == 1


def test_settings():
    spec, notes = make_spec("trn1", None, {"dtype": "bf16", "dma_start_ns": "10.5", "pe_latency": "7"})
    assert (spec.dtype, spec.dma_start_ns, spec.latency_cycles[Engine.PE]) == ("bfloat16", 10.5, 7)
    assert not any("pe_latency" in note.text for note in notes)
    assert make_spec("trn3", None, {"lnc": "2"})[0].num_cores == 2
    assert make_spec("", None, {"limit": "8GiB"})[0].limit == 8 << 30
    assert make_spec("", None, {"limit": "4096"})[0].limit == 4096
    assert "lnc" in SETTINGS.names
    assert "arch" not in SETTINGS.names
    assert SETTINGS.names.similar("dma_start") == ["dma_start_ns"]


@pytest.mark.parametrize(
    ("preset", "settings", "text"),
    [
        ("trn9", {}, "unknown preset 'trn9'; there are trn2, trn1"),
        ("", {"lcn": "1"}, "--set lcn: unknown key; close: lnc"),
        ("", {"zzz": "1"}, "--set zzz: unknown key; keys are lnc, dtype"),
        ("trn1", {"lnc": "2"}, "--set lnc=2: trn1 has no logical cores of two"),
        ("", {"lnc": "3"}, "--set lnc=3: expected less than or equal to 2"),
        ("", {"dtype": "int8"}, "--set dtype=int8: expected one of fp32, bf16, fp16"),
        ("", {"pe_hz": "fast"}, "--set pe_hz=fast: expected a valid integer"),
        ("", {"dma_start_ns": "nan"}, "--set dma_start_ns=nan: expected"),
        ("", {"psum_bank_bytes": "3000"}, "expected 1 to 8 equal banks"),
        ("", {"limit": "8 apples"}, "--set limit=8 apples: expected a valid integer"),
        ("", {"arch": "trn1"}, "--set arch: unknown key"),
    ],
)
def test_refused_settings(preset, settings, text):
    with pytest.raises(UsageError, match=text):
        make_spec(preset, None, settings)


def test_a_hardware_description(tmp_path):
    path = tmp_path / "chip.json"
    path.write_text(json.dumps({"preset": "trn1", "num_dma_engines": 8, "dtype": "fp16"}))
    spec, _ = make_spec("", path, {"num_dma_engines": "4"})
    assert (spec.arch, spec.num_dma_engines, spec.dtype) == ("trn1", 4, "float16")
    assert make_spec("trn2", path)[0].arch == "trn2"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"clock": 1}, "key 'clock': expected a known key"),
        ({"num_dma_engines": "x"}, "key 'num_dma_engines': expected a valid integer"),
        ({"num_dma_engines": 0}, "key 'num_dma_engines': expected greater than or equal to 1"),
        ({"dtype": 3}, "key 'dtype': expected one of fp32"),
        ({"lnc": 2, "preset": "trn1"}, "trn1 has no logical cores"),
    ],
)
def test_refused_descriptions(content, text, tmp_path):
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=text):
        make_spec("", path)


def test_a_stored_spec_takes_what_the_program_does_not_depend_on():
    from dataclasses import asdict

    spec, _ = make_spec("trn1", None, {"dtype": "bf16"})
    values = asdict(spec)
    assert stored_spec(values, "f") == spec
    assert stored_spec(values, "f", "inf2") == spec
    assert stored_spec(values, "f", settings={"dma_start_ns": "1"}).dma_start_ns == 1
    with pytest.raises(UsageError, match="--preset trn2: the file is compiled for trn1"):
        stored_spec(values, "f", "trn2")
    with pytest.raises(UsageError, match="compiled for dtype=bfloat16"):
        stored_spec(values, "f", settings={"dtype": "fp32"})
    with pytest.raises(FormatError, match=r"spec\.speed"):
        stored_spec({**values, "speed": 1}, "f")
    with pytest.raises(FormatError, match="pe_hz"):
        stored_spec({**values, "pe_hz": "x"}, "f")
