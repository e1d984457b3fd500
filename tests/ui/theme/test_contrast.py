"""Can it be read? Contrasts by WCAG 2.2, and colours as the colour-blind see them, of every theme."""

import itertools
import tomllib
from typing import Any, cast

import numpy as np
import pytest

from npuviz.ui.theme.style import palette_of, style_sheet
from npuviz.ui.theme.theme import Mode, Theme
from npuviz.workbench.preferences.choices import THEMES
from npuviz.workbench.resources import resource_path

NAMES = sorted(path.stem for path in resource_path("themes").glob("*.toml"))
GROUNDS = ("background", "surface", "raised", "alternate", "canvas")
WORK = ("compute", "move-in", "move-out", "control", "host")
STATES = ("error", "warning", "ok")
DEPENDENCIES = ("dependency-flow", "dependency-anti", "dependency-output", "dependency-accumulate")
TEXT, LARGE = 4.5, 3.0
"""Least contrasts of text, and of marks and areas."""

# Ref: G. M. Machado et al., "A Physiologically-based Model for Simulation of Color Vision Deficiency",
# IEEE TVCG 15(6), 2009: severity 1.0, of linear RGB.
SIGHTS = {
    "all colours": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def linear(color: str) -> np.ndarray:
    """(3,) linear RGB of "#rrggbb"."""
    coded = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(XYZ[1] @ linear(color)) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(color: str, sight: np.ndarray) -> np.ndarray:
    """(3,) CIELAB of a colour as somebody sees it."""
    scaled = XYZ @ np.clip(sight @ linear(color), 0, 1) / WHITE
    f = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def tokens(name: str) -> dict[str, Any]:
    with resource_path(f"themes/{name}.toml").open("rb") as file:
        return tomllib.load(file)


@pytest.mark.parametrize("name", NAMES)
def test_text_can_be_read(name: str) -> None:
    found = tokens(name)
    window, marks = found["window"], found["marks"]
    high = 7.0 if name.startswith("contrast") else TEXT
    for ground in GROUNDS:
        for role, least in (("text", 7.0), ("text-muted", high), ("accent", TEXT), ("changed", TEXT)):
            assert contrast(window[role], window[ground]) >= least, (role, ground)
    assert contrast(window["selection-text"], window["selection"]) >= high
    assert contrast(window["accent-text"], window["accent"]) >= TEXT
    assert contrast(window["text"], window["hover"]) >= TEXT
    for role in (*STATES, "estimated"):
        assert contrast(marks[role], window["surface"]) >= TEXT, role
        assert contrast(marks[role], window["raised"]) >= TEXT, role
    disabled = LARGE if name.startswith("contrast") else 2.0
    assert contrast(window["text-disabled"], window["surface"]) >= disabled


@pytest.mark.parametrize("name", NAMES)
def test_areas_and_marks_stand_out(name: str) -> None:
    found = tokens(name)
    canvas = found["window"]["canvas"]
    for role in WORK:
        assert contrast(found["data"][role], canvas) >= LARGE, role
    for role in found["marks"]:
        assert contrast(found["marks"][role], canvas) >= LARGE, role
    for color in found["operators"]["palette"]:
        assert contrast(color, canvas) >= LARGE, color
    if name.startswith("contrast"):
        assert contrast(found["window"]["border"], canvas) >= LARGE
        for role in ("wait-dependency", "wait-queue", "wait-bandwidth", "wait-conflict"):
            assert contrast(found["data"][role], canvas) >= LARGE, role


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", NAMES)
def test_what_must_be_told_apart_can_be(name: str, sight: str) -> None:
    found = tokens(name)
    groups = (
        (WORK, found["data"], 15.0),
        (STATES, found["marks"], 15.0),
        (DEPENDENCIES, found["marks"], 12.0),
    )
    for roles, colors, least in groups:
        for one, other in itertools.combinations(roles, 2):
            away = np.linalg.norm(lab(colors[one], SIGHTS[sight]) - lab(colors[other], SIGHTS[sight]))
            assert away >= least, (one, other, round(float(away), 1))


def test_every_theme_has_every_role_and_a_place_in_the_menu(qapp: object) -> None:
    first = tokens(NAMES[0])
    for name in NAMES:
        found = tokens(name)
        assert {part: set(found[part]) for part in ("window", "data", "marks")} == {
            part: set(first[part]) for part in ("window", "data", "marks")
        }
        assert found["name"] == name
    assert {mode for mode, _ in THEMES} == {"system", *NAMES}
    for mode, _ in THEMES[1:]:
        theme = Theme(cast(Mode, mode))
        assert theme.name == mode
        assert theme.is_dark == (theme.color("background").lightnessF() < 0.5)
        assert Theme(theme.opposite).is_dark != theme.is_dark
        assert palette_of(theme).window().color() == theme.color("background")
        assert theme.color("accent").name() in style_sheet(theme)
