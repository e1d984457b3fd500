"""Declares every preference once: the dialog, its search and the readers of preferences use these data."""

from dataclasses import dataclass
from typing import Any

from npuviz.workbench.settings import Settings

Choice = tuple[str, str]
"""A value and its title."""


@dataclass(frozen=True)
class Preference:
    """One preference.

    key      in the settings
    choices  the possible values, or () for a number or a text
    bounds   lowest and highest number, with `unit` behind it
    is_font  a font family, "" for that of the system
    when     when a change takes effect, "" at once
    """

    key: str
    title: str
    group: str
    default: str | int
    choices: tuple[Choice, ...] = ()
    bounds: tuple[int, int] = (0, 0)
    unit: str = ""
    is_font: bool = False
    when: str = ""
    doc: str = ""

    def accepts(self, value: object) -> bool:
        """Return whether a value, for example from an edited settings file, is valid for this preference."""
        if self.choices:
            return value in [known for known, _ in self.choices]
        if isinstance(self.default, int):
            low, high = self.bounds
            return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return isinstance(value, str) and len(value) <= 200


THEMES: tuple[Choice, ...] = (
    ("system", "Follow the System"),
    ("dark", "Dark"),
    ("light", "Light"),
    ("contrast-dark", "High Contrast, Dark"),
    ("contrast-light", "High Contrast, Light"),
)
THEME = Preference("theme", "Theme", "Appearance", "system", THEMES, doc="colours dark light")
FONT = Preference("font", "Font", "Appearance", "", is_font=True, doc="type text family")
MONO = Preference(
    "font_mono", "Font of numbers and code", "Appearance", "", is_font=True, doc="monospaced fixed digits"
)
SCALE = Preference(
    "scale", "Size of everything", "Appearance", 100, bounds=(75, 300), unit=" %", when="at the next start",
    doc="zoom large small text dpi",
)  # fmt: skip
CHECKPOINTS = Preference(
    "checkpoint_mib", "Memory for going back", "Memory", 256, bounds=(16, 65536), unit=" MiB",
    when="for the next file", doc="checkpoints budget: more of them make steps back quicker",
)  # fmt: skip
KEYS = Preference(
    "keys", "Keys like those of", "Keys", "npuviz",
    (("npuviz", "npuviz"), ("vscode", "VS Code"), ("gdb", "gdb"), ("perfetto", "Perfetto")),
    doc="shortcuts keyboard preset",
)  # fmt: skip
PREFERENCES = (THEME, FONT, MONO, SCALE, CHECKPOINTS, KEYS)


def preferred(settings: Settings, preference: Preference) -> Any:
    """Return the value that the user chose, the default if there is none or it is invalid."""
    value = settings.get(preference.key, preference.default)
    return value if preference.accepts(value) else preference.default


def prefer(settings: Settings, preference: Preference, value: object) -> None:
    """Store a choice; choosing the default removes the stored value."""
    settings.set(preference.key, None if value == preference.default else value)


def matches(preference: Preference, text: str) -> bool:
    """Return whether every word of a search is in the title, group, doc or choices of a preference."""
    said = f"{preference.title} {preference.group} {preference.doc}".lower()
    said += " ".join(title.lower() for _, title in preference.choices)
    return all(word in said for word in text.lower().split())
