"""Save a widget as a picture: PNG by pixels, SVG by drawing commands."""

from pathlib import Path

from PySide6.QtCore import QPoint, QSize
from PySide6.QtGui import QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from npuviz.base.errors import ExportError


def save_picture(widget: QWidget, path: Path) -> None:
    """Write what the widget shows to a file; its suffix chooses the format: .png or .svg.

    Raises ExportError when the suffix is another one or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix == ".svg":
        _save_svg(widget, path)
    elif suffix != ".png":
        raise ExportError(
            f"{path}: expected a name ending in .png or .svg, found {path.suffix or 'no suffix'!r}"
        )
    elif not widget.grab().save(str(path), "PNG"):
        raise ExportError(f"{path}: cannot be written; choose a folder that exists and is writable")


def _save_svg(widget: QWidget, path: Path) -> None:
    try:
        path.touch()
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error
    generator = QSvgGenerator()
    generator.setFileName(str(path))
    generator.setSize(QSize(widget.width(), widget.height()))
    generator.setViewBox(widget.rect())
    generator.setTitle(widget.accessibleName() or widget.objectName() or "npuviz")
    painter = QPainter(generator)
    widget.render(painter, QPoint())
    painter.end()


def ask_and_save(widget: QWidget, name: str) -> Path | None:
    """Ask for a file name and save; return the path, None if the user cancelled."""
    chosen, _filter = QFileDialog.getSaveFileName(
        widget, "Save panel as picture", f"{name}.png", "PNG picture (*.png);;SVG drawing (*.svg)"
    )
    if not chosen:
        return None
    path = Path(chosen)
    if not path.suffix:
        path = path.with_suffix(".svg" if "svg" in _filter else ".png")
    save_picture(widget, path)
    return path


def add_save_actions(menu: QMenu, widget: QWidget, name: str) -> None:
    """Add "Save panel as..." to a context menu."""
    menu.addAction("Save panel as...", lambda: ask_and_save(widget, name))
