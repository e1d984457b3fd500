"""npuviz info: what a file holds."""

import json
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    file: Annotated[str, typer.Argument(help="Model file or trace bundle.")],
    given: options.MachineOptions,
    as_json: options.Json = False,
) -> None:
    """Say what a model or a trace bundle holds."""
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.workbench.choosing import find_file
    from npuviz.workbench.headless.info import describe_file, info_text

    with TerminalProgress() as progress:
        found = describe_file(find_file(file), given.opening(), progress)
    typer.echo(json.dumps(found) if as_json else info_text(found))
