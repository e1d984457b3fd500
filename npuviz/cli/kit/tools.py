"""Runs commands that targets provide: action and arguments go to the target unchanged."""

from collections.abc import Sequence

import typer

from npuviz.base.errors import UsageError
from npuviz.base.registry import COMMANDS, load_plugins

CONTEXT_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""Settings of typer that pass all options behind the action on to the action."""


def run_tool(name: str, action: str, arguments: Sequence[str] | None) -> None:
    """Run a command that a target provides, and exit with its code if that is not 0. Raises UsageError."""
    known = load_plugins(COMMANDS).get(name)
    if known is None:
        raise UsageError(f"{name}: no installed target brings this command; install npuviz again")
    code = known(action, tuple(arguments or ()))
    if code:
        raise typer.Exit(code)
