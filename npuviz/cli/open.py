"""npuviz open: the window."""

from typing import Annotated

import typer

from npuviz.cli.kit import options
from npuviz.cli.kit.display import check_display


def command(
    *,
    files: Annotated[list[str] | None, typer.Argument(help="Models or trace bundles.")] = None,
    given: options.SessionOptions,
    goto: Annotated[int | None, typer.Option("--goto", metavar="CYCLE", min=0, help="Go there.")] = None,
    safe_mode: Annotated[
        bool, typer.Option("--safe-mode", help="Ignore the stored layout, settings and recent files.")
    ] = False,
) -> None:
    """Open the window, with files if given."""
    # Before anything of Qt is imported.
    check_display()
    from npuviz.ui.shell.application import WindowOptions, run_window
    from npuviz.workbench.choosing import find_file

    opening = given.opening()
    paths = tuple(find_file(name) for name in files or ())
    code = run_window(WindowOptions(paths, opening, goto, given.until, tuple(given.breaks or ()), safe_mode))
    if code:
        raise typer.Exit(code)
