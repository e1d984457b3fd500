"""npuviz bench: the project's benchmarks in one table."""

import json
from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    name: Annotated[str, typer.Argument(help="One benchmark; default: all.")] = "",
    as_json: options.Json = False,
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="DIR", help="Folder of files that a benchmark takes too (nki)."),
    ] = None,
) -> None:
    """Run the benchmarks and print what they measured beside what they should reach.

    Ends with 1 when one of them shows a fault, as `plausible` does where something exceeds its peak.
    """
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.workbench.benchmarks import run_benchmarks, table_text

    with TerminalProgress() as progress:
        rows = run_benchmarks(name, progress, corpus=corpus)
    typer.echo(json.dumps({"benchmarks": rows}) if as_json else table_text(rows))
    if any(row["is_wrong"] for row in rows):
        raise typer.Exit(1)
