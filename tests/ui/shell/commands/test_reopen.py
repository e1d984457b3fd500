"""Reopening a file with another value of a setting that its machine offers."""

import pytest
from PySide6.QtGui import QAction

from npuviz.base import registry
from npuviz.ui.shell.commands.reopen import MENU, choices_of
from npuviz.workbench import choosing
from npuviz.workbench.choosing import find_file
from npuviz.workbench.opening import OpenOptions
from tests.ui.driver import Driver


def busy_units(driver: Driver) -> set[str]:
    listing = driver.session.program.listing
    units = {listing.describe(index).unit for index in range(len(listing))}
    return {unit.name for unit in driver.session.description.units if unit.id in units}


def test_a_choice_of_the_machine_reopens_the_file(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "load_plugins", registry.load_plugins)
    options = OpenOptions(target="rk3588", settings={"batch": "1", "cores": "1"})
    with driver.qtbot.waitSignal(driver.model.session_changed):
        driver.window.open(find_file("tiny_cnn_int8"), options)
    driver.idle()
    assert list(choices_of(driver.model.description)) == [("cores", "1"), ("cores", "2"), ("cores", "3")]
    assert "Core[1].PC" not in busy_units(driver)
    driver.session.breakpoints.add("cycle == 50")
    menu = driver.window.actions_by_id.menu(MENU)
    assert [a.text() for a in menu.actions() if a.isChecked()] == ["Reopen with cores = 1"]

    with driver.qtbot.waitSignal(driver.model.session_changed):
        driver.action("file.reopen.cores.2").trigger()
    driver.idle()
    opened = driver.model.opened
    assert opened is not None
    assert opened.options.settings == {"batch": "1", "cores": "2"}
    assert opened.options.target == "rk3588"
    assert "Core[1].PC" in busy_units(driver)
    assert [b.text for b in driver.session.breakpoints.all] == ["cycle == 50"]
    assert [a.text() for a in menu.actions()] == [f"Reopen with cores = {n}" for n in (1, 2, 3)]
    driver.window.actions_by_id.refresh()
    assert [a.text() for a in menu.actions() if a.isChecked()] == ["Reopen with cores = 2"]

    driver.do("file.close")
    assert menu.isEmpty()
    assert not menu.menuAction().isVisible()
    driver.qtbot.waitUntil(lambda: driver.window.findChild(QAction, "file.reopen.cores.2") is None)
    assert not [c.id for c in driver.window.commands.all() if c.id.startswith("file.reopen.")]


def test_a_machine_without_choices_has_no_such_commands(toy: Driver) -> None:
    assert not [c.id for c in toy.window.commands.all() if c.id.startswith("file.reopen.")]
