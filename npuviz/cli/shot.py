"""npuviz shot: a picture of the window."""

from pathlib import Path
from typing import Annotated

import typer

from npuviz.cli.kit import options


def command(
    *,
    file: Annotated[str, typer.Argument(help="Model file or trace bundle.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="OUT.png", help="The picture to write.")],
    cycle: Annotated[int | None, typer.Option("--cycle", metavar="N", min=0, help="Cycle to show.")] = None,
    size: Annotated[str, typer.Option("--size", metavar="WxH", help="Size in pixels.")] = "1600x1000",
    panels: Annotated[
        list[str] | None, typer.Option("--panel", metavar="ID", help="Only these panels. Repeatable.")
    ] = None,
    theme: Annotated[str, typer.Option("--theme", metavar="dark|light")] = "dark",
    layout: Annotated[str, typer.Option("--layout", metavar="NAME")] = "stepping",
    given: options.ProgramOptions,
) -> None:
    """Write a picture of the real window, offscreen."""
    from npuviz.ui.shell.shot import ShotOptions, take_shot
    from npuviz.workbench.arguments import parse_size
    from npuviz.workbench.choosing import find_file

    shot = ShotOptions(out, cycle, parse_size(size), tuple(panels or ()), theme, layout)
    take_shot(find_file(file), given.opening(), shot)
    typer.echo(str(out), err=True)
