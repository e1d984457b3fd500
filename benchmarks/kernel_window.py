"""Uses the window on kernels by mouse and keys, as a person would, and tells what does not do what it says.

python -m benchmarks.kernel_window FOLDER [WORDS]

FOLDER/kernels.txt has a kernel on each line, as `npuviz open` takes it, paths from FOLDER on:

    softmax.py --shape x=256x512 --preset trn1

Two lines with the same kernel (`--kernel`, or the only one) and the same shapes are compared too. WORDS: only
lines that contain one of them.
"""

import os
import shlex
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from PySide6.QtCore import QPoint

    from npuviz.ui.shell.application import Application
    from npuviz.ui.shell.main_window import MainWindow
    from npuviz.ui.source.panel import SourcePanel
    from npuviz.workbench.opening import OpenOptions

SIZE = (1600, 1000)
PATIENCE_SECONDS = 60.0
BACK = (("F8", "Shift+F8"), ("F12", "Shift+F12"), ("F11", "F4"), ("F10", "Shift+F4"))
"""Keys of steps, and of the same steps back in time."""
TABLES = ("Roofline", "Bounds of loops", "DMA transfers")
PanelType = TypeVar("PanelType")


@dataclass(frozen=True)
class Kernel:
    """A line of kernels.txt."""

    text: str
    path: Path
    options: "OpenOptions"

    @property
    def function(self) -> tuple[object, ...]:
        """What two kernels share that compute the same."""
        shapes = sorted((key, value) for key, value in self.options.settings.items() if key != "kernel")
        return tuple(shapes)


@dataclass
class Told:
    """What was tried on a kernel: (what, whether it does what it should, what was seen)."""

    rows: list[tuple[str, bool, str]] = field(default_factory=list[tuple[str, bool, str]])

    def add(self, what: str, is_right: bool, seen: object = "") -> None:
        """Add one."""
        self.rows.append((what, is_right, str(seen)))


def kernels_of(folder: Path, words: tuple[str, ...] = ()) -> list[Kernel]:
    """Read kernels.txt of a folder."""
    found: list[Kernel] = []
    for text in (folder / "kernels.txt").read_text("utf-8").splitlines():
        line = text.strip()
        if line and not line.startswith("#") and (not words or any(word in line for word in words)):
            name, *rest = shlex.split(line)
            found.append(Kernel(line, folder / name, _options(rest)))
    return found


def _options(words: list[str]) -> "OpenOptions":
    from npuviz.cli.kit.options import ProgramOptions

    named: dict[str, Any] = {"settings": [], "shapes": []}
    places = {"--set": "settings", "--shape": "shapes"}
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option in places:
            named[places[option]].append(value)
        else:
            named[option.removeprefix("--")] = value
    return ProgramOptions(**named).opening()


class Person:
    """Somebody with a mouse and keys in front of a window.

    clicks  number of clicks so far
    """

    def __init__(self, application: "Application", window: "MainWindow") -> None:
        self.application, self.window, self.clicks = application, window, 0

    def panel(self, name: str, kind: type[PanelType]) -> PanelType:
        """Return a panel, brought to the front."""
        self.window.docks.show_panel(name)
        self.idle()
        found = self.window.docks.panel(name)
        assert isinstance(found, kind)
        return found

    def key(self, name: str) -> None:
        """Press a key of the window and wait for what it does."""
        from PySide6.QtGui import QKeySequence
        from PySide6.QtTest import QTest
        from PySide6.QtWidgets import QApplication

        QTest.keySequence(QApplication.focusWidget() or self.window, QKeySequence(name))
        self.idle()

    def click(self, widget: Any, point: "QPoint", is_double: bool = False) -> None:
        """Click at a place that can be seen."""
        from PySide6.QtCore import Qt
        from PySide6.QtTest import QTest

        assert widget.rect().contains(point), "what is clicked can be seen"
        self.clicks += 1
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton, pos=point)
        if is_double:
            QTest.mouseDClick(widget, Qt.MouseButton.LeftButton, pos=point)
        self.idle()

    def idle(self) -> None:
        """Wait until no work is under way and all visible panels are filled."""
        until = time.monotonic() + PATIENCE_SECONDS
        panels = self.window.docks.panels
        self._work(0.03)
        while self.window.model.is_busy or not all(panel.is_settled for panel in panels.values()):
            if time.monotonic() > until:
                raise TimeoutError(f"busy for {PATIENCE_SECONDS:.0f} s")
            self._work(0.002)

    def _work(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while True:
            self.application.qt.processEvents()
            if time.monotonic() >= until:
                return
            time.sleep(0.001)


def use(person: Person, kernel: Kernel, other: Kernel | None) -> Told:
    """Open a kernel in the window and use everything that the debugger has for it."""
    told, begin = Told(), time.process_time()
    person.window.open(kernel.path, kernel.options, is_named=True)
    person.idle()
    is_open = person.window.model.session is not None
    told.add("open", is_open, f"{time.process_time() - begin:.1f} s of the processor")
    if not is_open:
        return told
    for part in (_breakpoint, _steps, _turns, _stack, _ends, _slices, _tables):
        _try(told, part.__name__.strip("_"), lambda part=part: part(person, told))
    if other is not None:
        _try(told, "compare", lambda: _compare(person, told, other))
    return told


def _try(told: Told, name: str, part: Callable[[], None]) -> None:
    try:
        part()
    except Exception as error:  # whatever a part of the window raises is a finding
        told.add(name, False, "".join(traceback.format_exception_only(error)).strip())
        traceback.print_exc()


def _source(person: Person) -> "SourcePanel":
    from npuviz.ui.source.panel import SourcePanel

    return person.panel("source", SourcePanel)


def _line_of(panel: "SourcePanel") -> int:
    place = panel.place.place if panel.place is not None else None
    return place.line if place is not None else 0


def _innermost(panel: "SourcePanel", person: Person) -> int:
    """Return a line of the shown file in the deepest loops, whose later turns can be gone to."""
    from npuviz.debug.loop_turns import loops_around
    from npuviz.program.source import HasSource

    session = person.window.model.session
    assert session is not None
    listing = session.program.listing
    assert isinstance(listing, HasSource)
    lines = listing.lines_with_code(panel.file)

    def depth(line: int) -> int:
        ranges = listing.ranges_of_line(panel.file, line)
        return len(loops_around(listing, ranges[0][0])) if ranges else 0

    return max(lines, key=lambda line: (depth(line), -abs(lines.index(line) - len(lines) // 2)))


def _breakpoint(person: Person, told: Told) -> None:
    from PySide6.QtCore import QPoint

    panel = _source(person)
    line = _innermost(panel, person)
    panel.text.reveal(line)
    place = QPoint(8, panel.text.line_box(line).center().y())
    person.click(panel.text.viewport(), place)
    told.add("click in the margin sets a breakpoint", line in panel.text.marks.breakpoints, f"line {line}")
    person.key("F5")
    told.add("F5 runs to it", _line_of(panel) == line, f"line {_line_of(panel)}, {_stopped(person)}")
    person.click(panel.text.viewport(), QPoint(8, panel.text.line_box(line).center().y()))
    told.add("another click removes it", not panel.text.marks.breakpoints)


def _stopped(person: Person) -> str:
    stop = person.window.model.stop
    return f"{stop.kind.value} {stop.detail}" if stop is not None else ""


def _steps(person: Person, told: Told) -> None:
    panel, model = _source(person), person.window.model
    for key, back in BACK:
        before, start = model.cycle, _line_of(panel)
        person.key(key)
        after, line = model.cycle, _line_of(panel)
        told.add(f"{key} goes on", after > before, f"{before} to {after}, line {start} to {line}")
        person.key(back)
        seen = f"to {model.cycle}, line {_line_of(panel)}"
        is_back = model.cycle < after and (key in ("F10", "F12", "F8") or model.cycle == before)
        told.add(f"{back} goes back", is_back, seen)
    depth = len(panel.place.frames) if panel.place is not None else 0
    before = model.cycle
    person.key("Ctrl+F12")
    now = len(panel.place.frames) if panel.place is not None else 0
    told.add("Ctrl+F12 goes on", model.cycle > before, f"depth {depth} to {now}, {before} to {model.cycle}")
    after = model.cycle
    person.key("Ctrl+Shift+F12")
    told.add(
        "Ctrl+Shift+F12 leaves it back in time", model.cycle <= after, f"{before}, {after}, {model.cycle}"
    )


def _turns(person: Person, told: Told) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtTest import QTest

    panel = _source(person)
    shown = [box for box in panel.loops.boxes if box.isVisible()]
    told.add("boxes of the loops around the line", bool(shown) or not _has_loops(person), len(shown))
    for box in shown:
        if box.maximum() == 1:
            continue
        turn = box.maximum() if box.value() != box.maximum() else 1
        box.selectAll()
        QTest.keyClicks(box, str(turn))
        QTest.keyClick(box, Qt.Key.Key_Return)
        person.idle()
        told.add(f"box of {box.accessibleName()} goes to {turn}", box.value() == turn, f"{box.value()}")


def _has_loops(person: Person) -> bool:
    from npuviz.debug.loop_turns import program_loops

    session = person.window.model.session
    return session is not None and bool(program_loops(session.program.listing))


def _stack(person: Person, told: Told) -> None:
    from PySide6.QtCore import QItemSelectionModel
    from PySide6.QtWidgets import QToolButton

    panel = _source(person)
    if not panel.stack.isVisible():
        shown = person.window.findChild(QToolButton, "source.stack")
        assert shown is not None
        person.click(shown, shown.rect().center())
    table, rows = panel.stack.table, panel.variables.rows
    frames = panel.place.frames if panel.place is not None else ()
    told.add(
        "the stack has the functions",
        len({row.depth for row in rows if row.depth >= 0}) == len(frames),
        len(frames),
    )
    for depth in reversed(range(len(frames))):
        number = next(n for n, row in enumerate(rows) if row.depth == depth and row.variable is None)
        index = panel.variables.index(number, 0)
        table.scrollTo(index)
        person.click(table.viewport(), table.visualRect(index).center(), is_double=True)
        place = frames[depth][1]
        assert place is not None
        told.add(
            f"double click on function {depth}",
            panel.text.marks.chosen == place.line,
            panel.text.marks.chosen,
        )
    tiles = [n for n, row in enumerate(rows) if row.variable is not None and row.variable.memory >= 0]
    values = [row.variable.value for row in rows if row.variable is not None]
    told.add("tiles have values", bool(tiles) and all(values), f"{len(tiles)}: {values[:1]}")
    if tiles:
        index = panel.variables.index(tiles[0], 0)
        table.scrollTo(index)
        table.selectionModel().select(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        person.click(table.viewport(), table.visualRect(index).center(), is_double=True)
        from npuviz.ui.provenance.panel import ProvenancePanel

        wrote = person.panel("provenance", ProvenancePanel)
        if wrote.follow.isVisible():
            person.click(wrote.follow, wrote.follow.rect().center())
        told.add("who wrote a tile", bool(wrote.summary.text()), wrote.summary.text()[:110])


def _ends(person: Person, told: Told) -> None:
    from npuviz.workbench.costs import costs

    panel = _source(person)
    person.key("F5")
    model = person.window.model
    told.add("F5 runs to the end", model.session is not None and model.session.is_finished, _stopped(person))
    person.idle()
    reader = model.reader
    assert reader is not None
    idle = costs(reader, "instruction").idle / reader.end_cycle
    total = sum(cost.share for cost in panel.costs_of_lines.values())
    told.add("shares of lines and of nothing", abs(total + idle - 1) < 0.02, f"{total:.3f} and {idle:.3f}")
    code = panel.text.marks.code
    bare = sorted(code - set(panel.text.marks.heat))
    told.add("lines with code have a share", not bare, f"none: {bare[:6]}" if bare else len(code))
    person.key("F7")
    told.add("F7 runs back", model.cycle == 0, model.cycle)
    person.key("F5")


def _slices(person: Person, told: Told) -> None:
    from npuviz.ui.timeline.panel import TimelinePanel

    panel, source = person.panel("timeline", TimelinePanel), _source(person)
    person.window.docks.show_panel("timeline")
    person.idle()
    view = panel.view
    view.fit()
    person.idle()
    tried = right = 0
    for point in _slice_places(view):
        person.click(view, point)
        instruction = person.window.selection.current.instruction
        session = person.window.model.session
        if instruction is None or instruction < 0 or session is None:
            continue
        tried += 1
        place = session.program.listing.place_of(instruction)  # type: ignore[attr-defined]
        right += place is not None and (source.file, source.text.marks.chosen) == (place.file, place.line)
    told.add("click on a slice shows its line", tried > 0 and right == tried, f"{right} of {tried}")
    line = max(
        source.costs_of_lines,
        key=lambda key: source.costs_of_lines[key].share if key[0] == source.file else 0,
    )[1]
    source.text.reveal(line)
    person.click(source.text.viewport(), source.text.line_box(line).center())
    picked, node = view.state.picked, view.state.node
    told.add("click on a line picks a slice", picked is not None, f"line {line}, operator {node}")


def _slice_places(view: Any) -> "Iterator[QPoint]":
    from PySide6.QtCore import QPoint

    from npuviz.ui.timeline.canvas import TOP

    found = 0
    for row in view.state.layout.rows:
        y = TOP + row.top - view.state.scroll + row.height // 2
        if row.kind != "interval" or not 0 < y < view.height():
            continue
        area = view.tracks_rect()
        for x in range(area.left() + 20, area.right() - 20, max(area.width() // 5, 8)):
            found += 1
            yield QPoint(x, y)
        if found > 30:
            return


def _tables(person: Person, told: Told) -> None:
    from npuviz.ui.inspector.panel import InspectorPanel
    from npuviz.workbench.selection import Selection

    person.window.selection.set(Selection())
    panel = person.panel("inspector", InspectorPanel)
    titles = [section.title for section in panel.view.page.sections]
    for name in TABLES:
        if name != "Bounds of loops" or _has_loops(person):
            told.add(f"table {name}", any(title.startswith(name) for title in titles))


def _compare(person: Person, told: Told, other: Kernel) -> None:
    from PySide6.QtCore import QTimer

    from npuviz.ui.compare.panel import ComparePanel

    panel = person.panel("compare", ComparePanel)
    QTimer.singleShot(200, _agree)
    panel.compare(other.path, other.options)
    person.idle()
    told.add(f"compare with {other.path.name}", bool(panel.summary.text()), panel.summary.text()[:160])


def _agree() -> None:
    """Answer the question whether the other kernel's Python may run."""
    from PySide6.QtWidgets import QApplication, QMessageBox

    asking = QApplication.activeModalWidget()
    if isinstance(asking, QMessageBox):
        yes = next(
            each for each in asking.buttons() if asking.buttonRole(each) == QMessageBox.ButtonRole.AcceptRole
        )
        yes.click()


def main(folder: Path, words: tuple[str, ...]) -> int:
    """Use each kernel in a window of its own; print what was wrong, and how much was right."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from npuviz.ui.shell.application import Application
    from npuviz.ui.shell.headless import drop_platform_noise
    from npuviz.workbench.settings import Settings

    drop_platform_noise()
    raised: list[str] = []
    sys.excepthook = lambda *error: raised.append("".join(traceback.format_exception(*error)))
    kernels, right, tried = kernels_of(folder, words), 0, 0
    application = Application(Settings(None))
    for kernel in kernels:
        window = application.new_window()
        window.resize(*SIZE)
        window.show()
        window.activateWindow()
        person = Person(application, window)
        person.idle()
        others = [each for each in kernels if each is not kernel and each.function == kernel.function]
        told = use(person, kernel, others[0] if others else None)
        print(f"== {kernel.text}")
        for what, is_right, seen in told.rows:
            print(f"  {'ok   ' if is_right else 'WRONG'} {what}: {seen}")
        right, tried = right + sum(row[1] for row in told.rows), tried + len(told.rows)
        window.close()
    for text in raised:
        print(text)
    print(f"{len(kernels)} kernels: {right} of {tried} right, {len(raised)} exceptions")
    application.close()
    return int(right < tried or bool(raised))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), tuple(sys.argv[2:])))
