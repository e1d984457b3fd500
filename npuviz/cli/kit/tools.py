"""Commands that targets bring: their action and arguments go to the target as they are."""

from collections.abc import Sequence

import typer

from npuviz.base.errors import UsageError
from npuviz.base.registry import COMMANDS, load_plugins

CONTEXT_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""What follows the action belongs to the action: its options are not those of the command."""


def run_tool(name: str, action: str, arguments: Sequence[str] | None) -> None:
    """Run the command of this name that a target brings, and exit with its code if that is not 0."""
    known = load_plugins(COMMANDS).get(name)
    if known is None:
        raise UsageError(f"{name}: no installed target brings this command; install npuviz again")
    code = known(action, tuple(arguments or ()))
    if code:
        raise typer.Exit(code)
