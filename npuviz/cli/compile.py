"""npuviz compile: compiles a model to a file of the target's own format."""

import json
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    model: Annotated[str, typer.Argument(help="Model file, or the name of a sample model.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write; its name tells its kind.")],
    given: options.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Compile a model to the file of a machine, for example model.neff."""
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.headless.compiling import compile_file

    with TerminalProgress() as progress:
        text = compile_file(find_file(model), out, given.opening(), progress)
    typer.echo(json.dumps({"file": str(out), "bytes": out.stat().st_size, "text": text}) if as_json else text)
