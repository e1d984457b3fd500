"""Write a picture of the real window to a file."""

from dataclasses import dataclass
from pathlib import Path

from npuviz.base.errors import UsageError
from npuviz.export.exporter import replacing
from npuviz.ui.shell.headless import HeadlessWindow, drop_platform_noise
from npuviz.workbench.opening import OpenOptions

DEFAULT_SHARE = 0.4
"""Share of the run after which the picture is taken if no cycle is given: work is under way there."""


@dataclass(frozen=True)
class ShotOptions:
    """What the picture shows.

    size    pixels
    panels  panel ids ("timeline" or "panel.timeline"); () shows the whole layout
    theme   "dark" or "light"
    """

    out: Path
    cycle: int | None = None
    size: tuple[int, int] = (1600, 1000)
    panels: tuple[str, ...] = ()
    theme: str = "dark"
    layout: str = "stepping"


def take_shot(path: Path, opening: OpenOptions, shot: ShotOptions) -> None:
    """Open a file, run it to the end, go to a cycle, and write the picture.

    Raises NpuvizError, also for errors of opening and running that the window would show.
    """
    if not shot.out.parent.is_dir():
        raise UsageError(f"{shot.out}: the folder does not exist")
    drop_platform_noise()
    window = HeadlessWindow(shot.theme, shot.size)
    try:
        panels = [name.removeprefix("panel.") for name in shot.panels]
        # Before opening to reject wrong names early; again afterwards, because opening arranges the panels
        # anew.
        window.arrange(shot.layout, panels)
        window.open(path, opening)
        window.arrange(shot.layout, panels)
        window.run()
        window.go_to(shot.cycle if shot.cycle is not None else round(window.cycle * DEFAULT_SHARE))
        _write(window, shot.out)
    finally:
        window.close()


def _write(window: HeadlessWindow, out: Path) -> None:
    try:
        data = window.picture(out.suffix.removeprefix("."))
    except UsageError:
        raise UsageError(
            f"{out}: cannot be written as a picture; expected a name that ends in .png"
        ) from None
    # All of it or nothing, also on a full disk.
    with replacing(out) as temporary:
        temporary.write_bytes(data)
