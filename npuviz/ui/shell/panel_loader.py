"""Load the declarations of panels from entry points; a panel that fails to load does not stop the window."""

import traceback
from functools import cache
from importlib.metadata import entry_points

from npuviz.base.registry import PANELS
from npuviz.ui.kit.panel import PanelSpec


@cache
def load_panel_specs() -> tuple[tuple[PanelSpec, ...], tuple[str, ...]]:
    """Return all panels in order, and an error text for each that could not be loaded; cached."""
    specs: dict[str, PanelSpec] = {}
    failures: list[str] = []
    for entry in sorted(entry_points(group=PANELS), key=lambda e: (e.name, e.value)):
        try:
            spec = entry.load()
        except Exception:  # a foreign plug-in may raise anything
            failures.append(f"panel {entry.name} ({entry.value}) cannot be loaded:\n{traceback.format_exc()}")
            continue
        if spec.id in specs:
            failures.append(f"panel {entry.name} ({entry.value}): the name {spec.id!r} is taken")
            continue
        specs[spec.id] = spec
    areas = {"left": 0, "center": 1, "right": 2, "bottom": 3}
    in_order = sorted(specs.values(), key=lambda spec: (areas[spec.area], spec.order, spec.title))
    return tuple(in_order), tuple(failures)
