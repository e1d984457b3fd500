"""Layouts that the user saved under a name."""

from typing import Any, cast

from npuviz.workbench.settings import Settings

KEY = "own_layouts"
MAX_LAYOUTS = 24
MAX_NAME = 40


def own_layouts(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return name -> stored layout of the window, in the order of saving; invalid entries are left out."""
    kept = settings.get(KEY)
    entries = cast(dict[str, object], kept).items() if isinstance(kept, dict) else ()
    return {
        name: cast(dict[str, Any], stored) for name, stored in entries if name and isinstance(stored, dict)
    }


def save_layout(settings: Settings, name: str, stored: dict[str, Any]) -> None:
    """Store a layout; it replaces one of the same name, and the oldest ones if there are too many."""
    others = {known: each for known, each in own_layouts(settings).items() if known != name}
    kept = list({**others, name.strip()[:MAX_NAME]: stored}.items())[-MAX_LAYOUTS:]
    settings.set(KEY, dict(kept))


def delete_layout(settings: Settings, name: str) -> None:
    """Forget a layout; unknown ones are ignored."""
    others = {known: each for known, each in own_layouts(settings).items() if known != name}
    settings.set(KEY, others or None)
