"""What a user may prefer, declared once: the dialog, its search and what reads them are built from this."""

from dataclasses import dataclass
from typing import Any

from npuviz.workbench.settings import Settings

Choice = tuple[str, str]
"""A value and its title."""


@dataclass(frozen=True)
class Preference:
    """One thing to choose.

    key      in the settings
    choices  the values there are, or () for a number or a text
    bounds   lowest and highest number, with `unit` behind it
    is_font  a font family, "" for that of the system
    when     from when on it counts, "" at once
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
        """Whether a value, from whatever file, is one of those that may be chosen."""
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
    """What the user chose; the default where that was nothing, or makes no sense."""
    value = settings.get(preference.key, preference.default)
    return value if preference.accepts(value) else preference.default


def prefer(settings: Settings, preference: Preference, value: object) -> None:
    """Keep a choice; the default is kept as none."""
    settings.set(preference.key, None if value == preference.default else value)


def matches(preference: Preference, text: str) -> bool:
    """Whether every word of a search is in what is said of a preference."""
    said = f"{preference.title} {preference.group} {preference.doc}".lower()
    said += " ".join(title.lower() for _, title in preference.choices)
    return all(word in said for word in text.lower().split())
