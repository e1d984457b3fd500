"""npuviz open: the window."""

from typing import Annotated

import typer

from npuviz.cli.kit import options
from npuviz.cli.kit.display import check_display


def command(
    files: Annotated[list[str] | None, typer.Argument(help="Models or trace bundles.")] = None,
    target: options.Target = "",
    preset: options.Preset = "",
    config: options.Config = None,
    settings: options.Settings = None,
    kernel: options.Kernel = "",
    shapes: options.Shape = None,
    grid: options.Grid = "",
    reference: options.Reference = "",
    inputs: options.Inputs = None,
    seed: options.Seed = 0,
    record: options.Record = None,
    until: options.Until = None,
    breaks: options.Break = None,
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

    opening = options.open_options(
        target,
        preset,
        config,
        options.kernel_settings(settings, kernel, shapes, grid, reference),
        inputs,
        seed,
        record,
    )
    paths = tuple(find_file(name) for name in files or ())
    code = run_window(WindowOptions(paths, opening, goto, until, tuple(breaks or ()), safe_mode))
    if code:
        raise typer.Exit(code)
