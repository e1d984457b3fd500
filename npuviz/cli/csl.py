"""npuviz csl: the tools with which CSL programs and their host scripts run unchanged."""

from typing import Annotated

import typer

# What follows the action belongs to the action: its options are not those of this command.
CONTEXT_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def command(
    action: Annotated[str, typer.Argument(help="shims, cslc, python or coverage.", metavar="ACTION")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="shims: DIR; cslc, python: their own; coverage: FOLDER.", metavar="ARGS"),
    ] = None,
) -> None:
    """Write stand-ins for cslc and cs_python, run one of them, or try every program of a folder."""
    from npuviz.base.errors import UsageError
    from npuviz.base.registry import COMMANDS, load_plugins

    known = load_plugins(COMMANDS).get("csl")
    if known is None:
        raise UsageError("csl: no installed target brings this command; install npuviz again")
    code = known(action, tuple(arguments or ()))
    if code:
        raise typer.Exit(code)
