"""Load plug-ins by entry point: targets, exporters, panels and commands are found, never imported by name.

A package adds one with lines like these in its pyproject.toml:

    [project.entry-points."npuviz.targets"]
    mychip = "mypackage.target:TARGET"
"""

from functools import cache
from importlib.metadata import entry_points
from typing import Any

from npuviz.base.errors import SimulationError

TARGETS = "npuviz.targets"
EXPORTERS = "npuviz.exporters"
PANELS = "npuviz.panels"
COMMANDS = "npuviz.commands"
"""Subcommands that a target adds: functions of an action's name and its arguments that
return an exit code."""


@cache
def load_plugins(group: str) -> dict[str, Any]:
    """Load every plug-in of an entry-point group and return them by name, sorted by name.

    Raises SimulationError when two plug-ins claim one name: picking one silently would make
    results depend on the installation order.
    """
    found: dict[str, Any] = {}
    for entry in sorted(entry_points(group=group), key=lambda e: (e.name, e.value)):
        if entry.name in found:
            raise SimulationError(f"two plug-ins of group {group} are called {entry.name!r}")
        found[entry.name] = entry.load()
    return found
