"""Layouts of kinds of machines, layouts of one's own, and keys that lead from panel to panel."""

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from npuviz.ui.shell.commands import own_layouts
from npuviz.workbench import choosing
from npuviz.workbench.opening import OpenOptions
from tests.toy.fabric import ToyFabricTarget
from tests.ui.driver import Driver
from tests.workbench.toy_registry import toy_file

CTRL, SHIFT, ALT = (
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.AltModifier,
)


def record(driver: Driver, folder: Path) -> Path:
    """A bundle of the toy, made by the window itself."""
    out = folder / "run.npuviz"
    with driver.qtbot.waitSignal(driver.model.session_changed):
        driver.window.open(toy_file(folder), OpenOptions(record=out))
    driver.idle()
    driver.do("debug.run")
    opened = driver.model.opened
    assert opened is not None
    opened.publish()
    return out


def test_each_kind_of_file_has_its_layout_and_keeps_what_became_of_it(driver: Driver, tmp_path: Path) -> None:
    docks = driver.window.docks
    bundle = record(driver, tmp_path)
    assert docks.layout_name == "stepping"
    driver.do("view.layout.memory")
    driver.open(bundle)
    assert docks.layout_name == "profiling"
    driver.dock("panel.costs").close()
    driver.open(tmp_path / "small.toy")
    assert docks.layout_name == "memory"
    driver.open(bundle)
    assert docks.layout_name == "profiling"
    assert driver.dock("panel.costs").isHidden()
    driver.do("view.reset_layout")
    assert not driver.dock("panel.costs").isHidden()


def test_a_fabric_opens_in_fabric_after_another_machine(
    toy: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert toy.window.docks.layout_name == "stepping"
    monkeypatch.setattr(choosing, "load_plugins", lambda _group: {"toy": ToyFabricTarget(8, 8)})
    toy.open(toy_file(tmp_path, name="grid.toy"))
    assert toy.window.docks.layout_name == "fabric"
    assert toy.dock("panel.fabric").isVisible()


def test_a_layout_of_ones_own(toy: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_layouts, "ask_name", lambda *_asked: "My Look")
    toy.dock("panel.graph").close()
    toy.do("view.save_layout")
    toy.do("view.layout.profiling")
    assert toy.dock("panel.program").isHidden()
    toy.do("view.own_layout.My Look")
    assert toy.window.docks.layout_name == "stepping"
    assert toy.dock("panel.graph").isHidden()
    assert not toy.dock("panel.program").isHidden()
    toy.do("view.delete_layout.My Look")
    assert not [c.id for c in toy.window.commands.all() if "My Look" in c.id]
    assert toy.window.settings.get("own_layouts") is None


def test_the_keys_go_round_all_panels_and_back(toy: Driver) -> None:
    docks = toy.window.docks
    toy.window.activateWindow()
    toy.qtbot.waitUntil(toy.window.isActiveWindow)
    order = docks.in_reading_order()
    shown = {name for name, dock in docks.all.items() if not dock.isHidden()}
    assert set(order) == shown
    assert order[:3] == ["program", "timeline", "inspector"]
    docks.show_panel("program")
    seen: list[str] = []
    for _ in order:
        QTest.keyClick(toy.window, Qt.Key.Key_Tab, CTRL)
        toy.qtbot.wait(1)
        seen.append(docks.focused_panel())
    assert set(seen) == shown
    assert seen[-1] == "program"
    QTest.keyClick(toy.window, Qt.Key.Key_Tab, CTRL | SHIFT)
    toy.qtbot.wait(1)
    assert docks.focused_panel() == seen[-2]


def test_every_panel_has_a_key(toy: Driver) -> None:
    docks = toy.window.docks
    keys = {name: toy.window.commands.get(f"view.panel.{name}").shortcuts for name in docks.all}
    assert all(keys.values())
    assert len(set(keys.values())) == len(keys), "a key leads to one panel"
    name = next(name for name, known in keys.items() if known == ("Alt+Shift+1",))
    assert docks.is_offered(name)
    toy.dock(f"panel.{name}").close()
    QTest.keyClick(toy.window, Qt.Key.Key_1, ALT | SHIFT)
    toy.qtbot.wait(1)
    assert not toy.dock(f"panel.{name}").isHidden()


def test_the_source_is_in_front_of_the_program_where_there_is_one(
    toy: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    docks, model = toy.window.docks, type(toy.model)

    def is_in_front(name: str) -> bool:
        QTest.qWait(1)
        return not toy.dock(f"panel.{name}").visibleRegion().isEmpty()

    assert is_in_front("program")
    monkeypatch.setattr(model, "features", toy.model.features | {"source text"})
    docks.follow_machine()
    assert is_in_front("source")
    assert not is_in_front("program")
    toy.do("view.reset_layout")
    assert is_in_front("source")
    monkeypatch.undo()
    docks.follow_machine()
    assert is_in_front("program")
