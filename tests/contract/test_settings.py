"""Every target that lists its settings says what its machine is really made of."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.progress import NoProgress
from npuviz.sim.settings import SpecSettings
from npuviz.sim.target import Compiles, HasSettings, LoadRequest, Target
from npuviz.targets.neuroncore.spec import SETTINGS as NEURONCORE
from npuviz.targets.rk3588.spec import SETTINGS as RK3588
from npuviz.targets.wavelet.spec import SETTINGS as WAVELET
from npuviz.workbench.choosing import targets, targets_for
from npuviz.workbench.resources import sample_models_path

CNN = sample_models_path() / "tiny_cnn.onnx"


@pytest.mark.parametrize("name", ["neuroncore", "rk3588", "systolic"])
def test_listed_values_are_those_of_the_spec(name: str) -> None:
    target = targets()[name]
    assert isinstance(target, HasSettings)
    for preset in ("", *target.presets):
        spec, _ = target.load(LoadRequest(CNN, preset), NoProgress())
        values = {each.name: getattr(spec, each.name) for each in dataclasses.fields(spec)}
        config = values.pop("config", None)
        if config is not None:
            values |= {each.name: getattr(config, each.name) for each in dataclasses.fields(config)}
            values |= {
                each.name: getattr(config.cores[0], each.name) for each in dataclasses.fields(config.cores[0])
            }
        for setting in target.settings(LoadRequest(CNN, preset)):
            if not setting.words:
                assert setting.value == str(values[setting.name]), setting


@pytest.mark.parametrize("name", ["neuroncore", "rk3588", "systolic"])
def test_every_listed_setting_can_be_set_to_its_value(name: str) -> None:
    target = targets()[name]
    assert isinstance(target, HasSettings)
    rows = target.settings(LoadRequest(CNN))
    pairs = {row.name: row.value for row in rows if row.value}
    assert target.settings(LoadRequest(CNN, settings=pairs)) == rows
    for row in rows:
        for word in row.words:
            assert all(ord(letter) < 128 for letter in word)


def test_a_compiled_program_decides_what_presets_differ_in() -> None:
    target = targets()["wavelet"]
    assert isinstance(target, HasSettings)
    heat = sample_models_path() / "csl" / "heat"
    rows = {row.name: row for row in target.settings(LoadRequest(heat))}
    assert (rows["hop"].value, rows["hop"].source) == ("", "the file decides")
    assert rows["clock_hz"].value == "850000000"
    chosen = {row.name: row.value for row in target.settings(LoadRequest(heat, "wse2"))}
    assert (chosen["hop"], chosen["arch"]) == ("1", "wse2")


def test_a_neff_lists_the_machine_it_was_compiled_for(tmp_path: Path) -> None:
    target = targets()["neuroncore"]
    assert isinstance(target, Compiles)
    out = tmp_path / "small.neff"
    target.compile(LoadRequest(CNN, "trn1", settings={"pe_latency": "7"}), out, NoProgress())
    assert isinstance(target, HasSettings)
    rows = {row.name: row for row in target.settings(LoadRequest(out))}
    assert (rows["pe_latency"].value, rows["pe_latency"].source) == ("7", "stored in small.neff")
    assert rows["pe_hz"].value == str(target.load(LoadRequest(out), NoProgress())[0].pe_hz)


def test_the_machine_that_takes_a_file_unasked_stands_first(tmp_path: Path) -> None:
    def ids(found: list[Target]) -> list[str]:
        return [target.id for target in found]

    assert ids(targets_for(CNN)) == ["systolic", "neuroncore", "rk3588"]
    assert ids(targets_for(sample_models_path() / "csl" / "heat")) == ["wavelet"]
    stray = tmp_path / "stray.xyz"
    stray.write_bytes(b"")
    assert targets_for(stray) == []


OWN = {"neuroncore": NEURONCORE, "rk3588": RK3588, "wavelet": WAVELET}


@pytest.mark.parametrize(
    ("target", "preset"), [(target, preset) for target, own in OWN.items() for preset in own.presets]
)
def test_presets_are_as_if_somebody_had_looked_through_them(target: str, preset: str) -> None:
    own: SpecSettings[Any] = OWN[target]
    looked_through = own.validated(own.presets[preset], None)
    assert repr(own.of_preset(preset)) == repr(looked_through)
