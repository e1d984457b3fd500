"""Take a picture of the window in a separate process, so that the calling program needs no Qt."""

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import npuviz
from npuviz.base.errors import UsageError
from npuviz.workbench.opening import Opened

LONGEST_SECONDS = 600.0
"""Time after which a picture that is not drawn yet is given up."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG image, which notebooks display."""

    data: bytes

    def save(self, path: str | Path) -> None:
        """Write the PNG to a file."""
        Path(path).write_bytes(self.data)

    def _repr_png_(self) -> bytes:
        return self.data

    def __repr__(self) -> str:
        return f"Picture({len(self.data)} bytes)"


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """What a picture shows: panel ids (() for all of the layout), pixels, "dark" or "light", and a cycle."""

    panels: tuple[str, ...] = ()
    size: tuple[int, int] = (1280, 800)
    theme: str = "light"
    cycle: int | None = None


def take_picture(opened: Opened, options: PictureOptions) -> Picture:
    """Take a picture of the window with this file at a cycle; the file is opened and run again for it.

    Raises UsageError when the window cannot draw it.
    """
    with tempfile.TemporaryDirectory(prefix="npuviz-picture-") as folder:
        out = Path(folder) / "picture.png"
        command = [sys.executable, "-m", "npuviz.cli.main", "shot", str(opened.path), "-o", str(out)]
        command += [*_picture_words(options), *_opening_words(opened, Path(folder))]
        home = str(Path(npuviz.__file__).parents[1])
        paths = [home, *filter(None, [os.environ.get("PYTHONPATH")])]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=LONGEST_SECONDS,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        except subprocess.TimeoutExpired:
            raise UsageError(f"picture: not drawn after {LONGEST_SECONDS:g} s") from None
        if done.returncode or not out.is_file():
            said = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
            raise UsageError(f"picture: {said[-1].removeprefix('npuviz: error: ')}")
        return Picture(out.read_bytes())


def _picture_words(options: PictureOptions) -> list[str]:
    words = ["--size", f"{options.size[0]}x{options.size[1]}", "--theme", options.theme]
    words += [word for panel in options.panels for word in ("--panel", panel)]
    return words if options.cycle is None else [*words, "--cycle", str(options.cycle)]


def _opening_words(opened: Opened, folder: Path) -> list[str]:
    """Return the options with which a file was opened as words of a command line;
    arrays are written to files in `folder`."""
    chosen = opened.options
    words = ["--seed", str(chosen.seed)]
    words += ["--target", opened.target.id] if opened.target is not None else []
    words += ["--preset", chosen.preset] if chosen.preset else []
    words += ["--config", str(chosen.config)] if chosen.config is not None else []
    for name, value in chosen.settings.items():
        words += ["--set", f"{name}={value}"]
    for number, (name, values) in enumerate(chosen.inputs.items()):
        file = folder / f"input{number}.npy"
        np.save(file, values)
        words += ["--input", f"{name}={file}"]
    return words
