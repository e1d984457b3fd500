"""npuviz map: search tilings and core assignments of a model."""

import json
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    model: Annotated[str, typer.Argument(help="Model file, or the name of a sample model.")],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="File for what was found; `run --set tilings=FILE` uses it."),
    ] = None,
    candidates: Annotated[
        int, typer.Option("--candidates", min=1, max=64, help="Tilings simulated per operator.")
    ] = 4,
    given: options.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Search better tilings of a model and print what they win over the default, simulated."""
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.headless.mapping import map_file, map_text, map_values

    with TerminalProgress() as progress:
        result = map_file(find_file(model, given.config), candidates, out, given.opening(), progress)
    typer.echo(json.dumps(map_values(result)) if as_json else map_text(result))
