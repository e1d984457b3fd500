"""Takes a picture of every panel on every machine, of every layout, and those of the start page.

    make pictures                                                    what the documentation shows, anew
    python -m benchmarks.pictures --out DIR --size 2560x1440 --themes dark,light [MACHINE ...]

Without --out the pictures of the panels go to docs/images/panels/MACHINE/PANEL.png, the page docs/panels.md
is written, and the samples' pictures go to resources/samples/. With it, pictures of panels and of whole
layouts in every theme asked for go to that folder, to be looked at.
"""

import argparse
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from npuviz.workbench.samples import SampleEntry, sample_entries
from npuviz.workbench.settings import Settings
from npuviz.workbench.tours import tour_of

if TYPE_CHECKING:
    from PySide6.QtGui import QImage

    from npuviz.ui.shell.main_window import MainWindow

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "panels.md"
IMAGES = ROOT / "docs" / "images" / "panels"
PANEL_WINDOW = (900, 560)
"""Pixels of the window that holds one panel for the documentation."""
CARD_WINDOW, CARD = (760, 460), (416, 234)
"""Pixels of the window, and of the picture for the start page, which shows it at half size for fine
screens."""
SHARE = 0.4
"""Position in the run at which pictures are taken if the machine's tour names none."""
SETTLE_MS = 150
HEAD = """# All panels

Every panel of every machine that has it, with the machine's sample in the middle of its run and an
instruction under way selected. `make pictures` takes them anew. What the panels do is in
[The window](window.md).
"""


class Stage:
    """A window with a machine's sample open, which takes pictures of it."""

    def __init__(self, window: "MainWindow", entry: SampleEntry) -> None:
        self.window, self.entry = window, entry
        window.open(entry.path, entry.options)
        self.settle()
        window.model.run_through()
        self.settle()
        shares = [step.share for step in tour_of(entry.options.target) if step.share >= 0]
        window.model.go_to(round(window.model.cycle * (shares[0] if shares else SHARE)))
        self.settle()
        self.select()

    def settle(self) -> None:
        """Wait until all panels of the window are filled."""
        from npuviz.ui.shell.headless import pause

        model, panels = self.window.model, self.window.docks.panels
        quiet = 0
        # Twice: on a busy computer the first pause may end before the layout is done.
        while quiet < 2:
            pause(SETTLE_MS)
            is_still = not model.is_busy and all(panel.is_settled for panel in panels.values())
            quiet = quiet + 1 if is_still else 0

    def select(self) -> None:
        """Select work that is under way, that of an operator first."""
        from npuviz.workbench.tours import work_under_way

        model = self.window.model
        found = work_under_way(model.session, model.reader) if model.session is not None else None
        if found is not None:
            self.window.selection.set(found)
        self.settle()

    def panels(self) -> list[str]:
        """Return the panels that this machine has."""
        return [name for name in self.window.docks.all if self.window.docks.is_offered(name)]

    def panel(self, name: str, size: tuple[int, int]) -> "QImage":
        """Take a picture of one panel alone in a window of this size; buttons of an empty state are clicked
        first."""
        from PySide6.QtWidgets import QPushButton

        window = self.window
        window.resize(*size)
        window.docks.show_only([name])
        self.settle()
        panel = window.docks.panel(name)
        for offer in panel.findChildren(QPushButton, "empty_state.action"):
            if offer.isVisible() and not panel.is_empty:
                offer.click()
                self.settle()
        return panel.grab().toImage()

    def layouts(self, size: tuple[int, int]) -> "Iterator[tuple[str, QImage]]":
        """Take pictures of the whole window in each layout of the machine."""
        self.window.resize(*size)
        for layout in self.window.docks.layouts():
            self.window.docks.apply(layout)
            self.settle()
            yield layout.name, self.window.grab().toImage()


@contextmanager
def stage(entry: SampleEntry, theme: str, size: tuple[int, int]) -> Generator[Stage]:
    """Give a new window with the sample of a machine, closed at the end."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from npuviz.ui.shell.application import Application, qt_application
    from npuviz.ui.theme.theme import Theme

    qt_application()
    application = Application(Settings(None), Theme("light" if theme == "light" else "dark"))
    window = application.new_window()
    window.resize(*size)
    window.show()
    try:
        yield Stage(window, entry)
    finally:
        application.close()


def document(machines: list[str]) -> None:
    """Write the pictures of the documentation and of the start page, and the page that shows them."""
    parts = [HEAD]
    for entry in chosen(machines):
        with stage(entry, "dark", PANEL_WINDOW) as shown:
            parts.append(_section(shown))
            _card(shown, "dark")
        with stage(entry, "light", CARD_WINDOW) as shown:
            _card(shown, "light")
    if not machines:
        PAGE.write_text("\n".join(parts))


def look(machines: list[str], out: Path, size: tuple[int, int], themes: list[str]) -> None:
    """Write pictures of the panels and layouts to a folder."""
    for entry in chosen(machines):
        for theme in themes:
            folder = out / entry.options.target / f"{theme}-{size[0]}x{size[1]}"
            folder.mkdir(parents=True, exist_ok=True)
            with stage(entry, theme, size) as shown:
                for name, image in shown.layouts(size):
                    image.save(str(folder / f"layout-{name}.png"))
                for name in shown.panels():
                    shown.panel(name, PANEL_WINDOW).save(str(folder / f"{name}.png"))
            print(folder)


def chosen(machines: list[str]) -> list[SampleEntry]:
    """Return the samples of these targets, of all if none is named."""
    return [entry for entry in sample_entries() if not machines or entry.options.target in machines]


def _section(shown: Stage) -> str:
    """Take the pictures of one machine's panels. Returns the section of the page."""
    target = shown.entry.options.target
    folder = IMAGES / target
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"## {shown.entry.machine}", "", f"{shown.entry.text}", ""]
    for name in shown.panels():
        _small(shown.panel(name, PANEL_WINDOW)).save(str(folder / f"{name}.png"))
        title = shown.window.docks.spec(name).title
        lines += [f"### {title}", "", f"![{title}](images/panels/{target}/{name}.png)", ""]
    return "\n".join(lines)


def _card(shown: Stage, theme: str) -> None:
    """Take the small picture for the start page, of the panel that the sample names."""
    from PySide6.QtCore import QRect, QSize, Qt
    from PySide6.QtGui import QImage

    panel = shown.panel(shown.entry.panel, CARD_WINDOW)
    height = min(panel.height(), panel.width() * CARD[1] // CARD[0])
    cut = panel.copy(QRect(0, 0, panel.width(), height))
    modes = Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
    shown.entry.picture.mkdir(parents=True, exist_ok=True)
    small = cut.scaled(QSize(*CARD), *modes).convertToFormat(QImage.Format.Format_RGB32)
    small.save(str(shown.entry.picture / f"{theme}.png"))


def _small(image: "QImage") -> "QImage":
    """Reduce a picture to a palette of its 256 most frequent colours, a third of the bytes."""
    import numpy as np
    from PySide6.QtCore import Qt
    from PySide6.QtGui import QImage

    plain = image.convertToFormat(QImage.Format.Format_RGB32)
    words = np.frombuffer(bytes(plain.constBits()), np.uint32)
    values, counts = np.unique(words, return_counts=True)
    table = values[np.argsort(-counts, kind="stable")][:256].tolist()
    return plain.convertToFormat(QImage.Format.Format_Indexed8, table, Qt.ImageConversionFlag.ThresholdDither)


def main(arguments: list[str]) -> None:
    """Run the command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("machines", nargs="*", metavar="MACHINE")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", default="1280x800")
    parser.add_argument("--themes", default="dark")
    options = parser.parse_args(arguments)
    if options.out is None:
        document(options.machines)
        return
    width, height = (int(part) for part in options.size.split("x"))
    look(options.machines, options.out, (width, height), options.themes.split(","))


if __name__ == "__main__":
    main(sys.argv[1:])
