"""Specs and names of settings, where targets' own tests do not look."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from annotated_types import Ge

from npuviz.base.errors import FormatError, UsageError
from npuviz.sim.settings import SettingNames, SpecSettings


@dataclass(frozen=True, slots=True)
class Chip:
    """A spec."""

    name: str
    dtype: Literal["float32", "float16"] = "float32"
    speed: Annotated[int, Ge(1)] = 3
    width: int = 8


def _problem(chip: Chip) -> str:
    return f"width={chip.width}: expected at least the speed" if chip.width < chip.speed else ""


SETTINGS = SpecSettings(
    Chip,
    {"a": {"name": "A"}, "b": {"name": "B", "speed": 5}},
    fixed=("name",),
    words={"dtype": {"fp32": "float32", "fp16": "float16"}},
    parse={"width": lambda text: text.removesuffix("px")},
    problem=_problem,
    sources=lambda _: {"speed": "Assumed: measured nowhere", "width": "a book"},
)


def test_presets_descriptions_and_settings_in_this_order() -> None:
    spec, notes = SETTINGS.make()
    assert spec == Chip("A")
    assert [note.text for note in notes] == ["speed = 3: Assumed: measured nowhere"]
    assert SETTINGS.make("", {"preset": "b"})[0] == Chip("B", speed=5)
    assert SETTINGS.make("a", {"preset": "b"})[0] == Chip("A")
    spec, notes = SETTINGS.make("b", {"speed": 6, "dtype": "fp16"}, None, {"speed": " 7 ", "width": "9px"})
    assert (spec, notes) == (Chip("B", "float16", 7, 9), ())
    assert SETTINGS.change(spec, {"preset": "b", "speed": 1}, None, {}) == Chip("B", "float16", 1, 9)


def test_refusals_name_who_said_it(tmp_path) -> None:
    file = tmp_path / "chip.json"
    for described, settings, kind, text in (
        ({"speed": 0}, {}, FormatError, "key 'speed': expected greater than or equal to 1"),
        ({"sped": 1}, {}, FormatError, "key 'sped': expected a known key"),
        ({"width": 1}, {}, FormatError, "width=1: expected at least the speed"),
        ({"width": 4}, {"width": "2px"}, UsageError, "--set width=2: expected at least the speed"),
        ({}, {"speed": "0"}, UsageError, "--set speed=0: expected greater than"),
        ({}, {"dtype": "int8"}, UsageError, "--set dtype=int8: expected one of fp32, fp16"),
        ({}, {"name": "C"}, UsageError, "--set name: unknown key; keys are dtype, speed, width, ..."),
    ):
        with pytest.raises(kind, match=text):
            SETTINGS.make("a", described, file, settings)
    with pytest.raises(UsageError, match="unknown preset 'c'; there are a, b"):
        SETTINGS.make("c")


def test_other_names_are_dimensions() -> None:
    names = SettingNames(("speed", "width"), is_pattern=lambda name: name.startswith("core_"))
    given = {"speed": "fast", "core_3": "x", "batch": "4"}
    assert names.own(given) == {"speed": "fast", "core_3": "x"}
    assert names.dimensions(given) == {"batch": 4}
    with pytest.raises(UsageError, match="--set sped: unknown key; close: speed"):
        names.dimensions({"sped": "fast"})
    with pytest.raises(UsageError, match="a dimension of the model needs a whole number"):
        names.dimensions({"batch": "many"})
    with pytest.raises(UsageError, match="--set batch: unknown key; keys are speed, width"):
        names.refuse_others(given)
    with (
        pytest.raises(UsageError, match="no such dimension; settings with such a name: speed"),
        names.hints({"sped": 3}),
    ):
        raise UsageError("no such dimension")
    with pytest.raises(UsageError, match="no such dimension") as caught, names.hints({"batch": 3}):
        raise UsageError("no such dimension")
    assert str(caught.value) == "no such dimension"
