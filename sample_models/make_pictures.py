"""Writes the small pictures of the start page: each machine's sample in the panel that shows it best.

    python sample_models/make_pictures.py

They go to resources/samples/<machine>/{dark,light}.png.
"""

import subprocess
import sys
from pathlib import Path

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QImage

from npuviz.workbench.samples import SampleEntry, sample_entries

WINDOW = QSize(760, 460)
PICTURE = QSize(416, 234)
"""Twice the size on the page, for fine screens."""
FRAME = (8, 132, 8, 34)
"""Pixels of the window around its panel: left, top (menu and two tool bars), right, bottom (status)."""


def take(entry: SampleEntry, theme: str) -> Path:
    """Write the picture of one sample in one theme; returns its path."""
    out = entry.picture / f"{theme}.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    settings = [
        part for name, value in entry.options.settings.items() for part in ("--set", f"{name}={value}")
    ]
    command = [str(Path(sys.executable).with_name("npuviz")), "shot", str(entry.path), "-o", str(out)]
    command += ["--target", entry.options.target, "--panel", entry.panel, "--theme", theme, *settings]
    subprocess.run([*command, "--size", f"{WINDOW.width()}x{WINDOW.height()}"], check=True)
    cut(out)
    return out


def cut(path: Path) -> None:
    """Keep the panel alone, in the proportions of the page."""
    image = QImage(str(path))
    left, top, right, bottom = FRAME
    panel = image.copy(QRect(left, top, image.width() - left - right, image.height() - top - bottom))
    height = panel.width() * PICTURE.height() // PICTURE.width()
    shown = panel.copy(QRect(0, 0, panel.width(), min(height, panel.height())))
    small = shown.scaled(
        PICTURE, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
    )
    small.convertToFormat(QImage.Format.Format_RGB32).save(str(path))


if __name__ == "__main__":
    for sample in sample_entries():
        for mode in ("dark", "light"):
            print(take(sample, mode))
