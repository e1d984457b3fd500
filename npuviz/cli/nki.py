"""npuviz nki: what people's own scripts and test suites with NKI kernels run under."""

from typing import Annotated

import typer

# What follows the action belongs to the action: its options are not those of this command.
CONTEXT_SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def command(
    action: Annotated[str, typer.Argument(help="shims or python.", metavar="ACTION")],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="shims: DIR; python: what Python takes.", metavar="ARGS")
    ] = None,
) -> None:
    """Run scripts that import neuronxcc.nki or nki on the simulated NeuronCore."""
    from npuviz.base.errors import UsageError
    from npuviz.base.registry import COMMANDS, load_plugins

    known = load_plugins(COMMANDS).get("nki")
    if known is None:
        raise UsageError("nki: no installed target brings this command; install npuviz again")
    code = known(action, tuple(arguments or ()))
    if code:
        raise typer.Exit(code)
