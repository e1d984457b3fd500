"""npuviz csl: tools that run unchanged CSL programs and their host scripts."""

from typing import Annotated

import typer

from npuviz.cli.kit.tools import CONTEXT_SETTINGS, run_tool

__all__ = ["CONTEXT_SETTINGS", "command"]


def command(
    action: Annotated[str, typer.Argument(help="shims, cslc, python or coverage.", metavar="ACTION")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="shims: DIR; cslc, python: their own; coverage: FOLDER.", metavar="ARGS"),
    ] = None,
) -> None:
    """Write stand-ins for cslc and cs_python, run one of them, or try every program of a folder."""
    run_tool("csl", action, arguments)
