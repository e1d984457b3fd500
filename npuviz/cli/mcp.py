"""npuviz mcp: the server for agents."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer


def command(
    folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--folder", metavar="DIR", help="Folder that may be read; default: this one. Repeatable."
        ),
    ] = None,
    no_programs: Annotated[
        bool, typer.Option("--no-programs", help="Open nothing whose own Python would be run (kernels, CSL).")
    ] = False,
    answer_bytes: Annotated[
        int, typer.Option("--answer-bytes", metavar="N", help="Longest answer; the rest has a handle.")
    ] = 4096,
) -> None:
    """Serve the Model Context Protocol on standard input and output, for coding agents.

    No file outside the folders is read, and none in them is written.
    """
    from npuviz.base.errors import UsageError

    if find_spec("mcp") is None:
        raise UsageError('npuviz mcp needs the package mcp: pip install "npuviz[mcp]"')
    from npuviz.protocols.mcp.server import ServerOptions, serve

    serve(ServerOptions(tuple(folders or [Path.cwd()]), not no_programs, answer_bytes))
