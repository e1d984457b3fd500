"""npuviz export: converts a trace bundle to a file of another tool."""

from pathlib import Path
from typing import Annotated

import typer


def command(
    bundle: Annotated[Path, typer.Argument(help="Trace bundle, or a zip of one.")],
    form: Annotated[str, typer.Option("-f", "--format", help="perfetto, csv, parquet, ...")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write; for tables also a folder.")],
    window: Annotated[str, typer.Option(help="Cycles A:B (A included, B not); default: all.")] = "",
) -> None:
    """Write a trace bundle for another tool."""
    from npuviz.cli.kit.terminal import TerminalProgress
    from npuviz.workbench.headless.bundles import export_bundle

    with TerminalProgress() as progress:
        export_bundle(bundle, form, out, window, progress)
