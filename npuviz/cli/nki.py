"""npuviz nki: runs users' scripts and test suites with NKI kernels."""

from typing import Annotated

import typer

from npuviz.cli.kit.tools import CONTEXT_SETTINGS, run_tool

__all__ = ["CONTEXT_SETTINGS", "command"]


def command(
    action: Annotated[str, typer.Argument(help="shims or python.", metavar="ACTION")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="shims: DIR; python: what Python takes.", metavar="ARGS")
    ] = None,
) -> None:
    """Run scripts that import neuronxcc.nki or nki on the simulated NeuronCore."""
    run_tool("nki", action, arguments)
