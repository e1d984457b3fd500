"""Preferences in a real window: search, looks, memory and keys, with real keys."""

import os
from itertools import combinations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QKeySequenceEdit, QLineEdit, QSpinBox

from npuviz.ui.dialogs.preferences.dialog import PreferencesDialog
from npuviz.ui.dialogs.preferences.keys_table import KEYS as KEYS_COLUMN
from npuviz.ui.shell.application import scale_everything
from npuviz.workbench.preferences.choices import (
    CHECKPOINTS,
    KEYS,
    MONO,
    PREFERENCES,
    SCALE,
    THEME,
    matches,
    prefer,
    preferred,
)
from npuviz.workbench.preferences.keymaps import OWN, PRESETS, Keymap
from npuviz.workbench.settings import Settings
from tests.ui.driver import Driver

CTRL = Qt.KeyboardModifier.ControlModifier


def shown(driver: Driver) -> PreferencesDialog:
    QTest.keyClick(driver.window, Qt.Key.Key_Comma, CTRL)
    found = driver.window.findChild(PreferencesDialog)
    assert found is not None
    assert found.isVisible()
    return found


def choose(dialog: PreferencesDialog, preference: object, value: str) -> None:
    box = next(dialog.editor(p) for p in PREFERENCES if p == preference)
    assert isinstance(box, QComboBox)
    QTest.keyClick(box, Qt.Key.Key_Home)
    while box.currentData() != value:
        before = box.currentIndex()
        QTest.keyClick(box, Qt.Key.Key_Down)
        assert box.currentIndex() > before
    QApplication.processEvents()


def test_numbers_can_be_seen(driver: Driver) -> None:
    """The field inside a number box once had the borders of a field alone, and no room for its text."""
    dialog = shown(driver)
    for preference in (SCALE, CHECKPOINTS):
        box = dialog.editor(preference)
        field = box.findChild(QLineEdit)
        assert field is not None
        room = field.contentsRect().height()
        assert room >= field.fontMetrics().height()
        area = box.contentsRect()
        assert area.contains(field.geometry()), (area, field.geometry())
        picture = box.grab().toImage()
        colors = {picture.pixel(x, box.height() // 2) for x in range(6, 120)}
        assert len(colors) > 4, "letters have edges"
    dialog.reject()


def test_typing_finds_preferences_and_keys(driver: Driver) -> None:
    dialog = shown(driver)
    QTest.keyClicks(dialog.search, "memory")
    visible = [p for p in PREFERENCES if dialog.editor(p).isVisible()]
    assert visible == [CHECKPOINTS]
    dialog.search.clear()
    QTest.keyClicks(dialog.search, "f11")
    assert {row.id for row in dialog.table.rows} == {"debug.step", "debug.step_operator"}
    dialog.reject()


def test_theme_and_fonts_count_at_once_and_are_kept(driver: Driver) -> None:
    dialog = shown(driver)
    choose(dialog, THEME, "light")
    assert driver.window.theme.name == "light"
    box = dialog.editor(MONO)
    assert isinstance(box, QComboBox)
    family = str(box.itemData(box.count() - 1))
    choose(dialog, MONO, family)
    assert driver.window.theme.font_mono().family() == family
    assert Settings(driver.window.settings._path).get("font_mono") == family
    choose(dialog, MONO, "")
    assert driver.window.settings.get("font_mono") is None
    dialog.reject()


def test_the_memory_for_going_back_is_that_of_the_next_file(toy: Driver) -> None:
    dialog = shown(toy)
    spin = dialog.editor(CHECKPOINTS)
    assert isinstance(spin, QSpinBox)
    spin.setFocus()
    spin.selectAll()
    QTest.keyClicks(spin, "64")
    QTest.keyClick(spin, Qt.Key.Key_Return)
    assert dialog.isVisible()
    dialog.reject()
    with toy.qtbot.waitSignal(toy.model.session_changed):
        toy.action("file.reload").trigger()
    toy.idle()
    assert toy.model.opened is not None
    assert toy.model.opened.options.checkpoint_budget_bytes == 64 << 20


def test_a_preset_of_keys_and_ones_own(toy: Driver) -> None:
    dialog = shown(toy)
    choose(dialog, KEYS, "gdb")
    row = next(n for n, each in enumerate(dialog.table.rows) if each.id == "debug.run_to_end")
    dialog.view.edit(dialog.table.index(row, KEYS_COLUMN))
    editor = dialog.view.findChild(QKeySequenceEdit)
    assert editor is not None
    editor.setKeySequence(QKeySequence())
    QTest.keyClick(editor, Qt.Key.Key_E, CTRL | Qt.KeyboardModifier.AltModifier)
    editor.editingFinished.emit()
    assert toy.window.commands.get("debug.run_to_end").shortcuts == ("Ctrl+Alt+E",)
    dialog.reject()
    toy.qtbot.wait(1)
    toy.window.activateWindow()
    toy.qtbot.waitUntil(toy.window.isActiveWindow)
    QTest.keyClick(toy.window, Qt.Key.Key_O)
    toy.idle()
    assert toy.model.cycle == 1
    assert "(O)" in toy.action("debug.step").toolTip()
    QTest.keyClick(toy.window, Qt.Key.Key_E, CTRL | Qt.KeyboardModifier.AltModifier)
    toy.idle()
    assert toy.session.is_finished
    # And back again.
    dialog = shown_again(toy)
    choose(dialog, KEYS, "npuviz")
    place = next(n for n, row in enumerate(dialog.table.rows) if row.id == "debug.run_to_end")
    index = dialog.table.index(place, 0)
    dialog.view.scrollTo(index)
    spot = dialog.view.visualRect(index).center()
    QTest.mouseClick(dialog.view.viewport(), Qt.MouseButton.LeftButton, pos=spot)
    QTest.keyClick(dialog.view, Qt.Key.Key_Delete)
    assert toy.window.commands.get("debug.run_to_end").shortcuts == ()
    assert toy.window.commands.get("debug.step").shortcuts == ("F11",)
    dialog.reject()


def shown_again(driver: Driver) -> PreferencesDialog:
    driver.action("edit.preferences").trigger()
    return next(d for d in driver.window.findChildren(PreferencesDialog) if d.isVisible())


@pytest.mark.parametrize("preset", PRESETS)
def test_no_two_commands_of_a_preset_have_the_same_key(driver: Driver, preset: str) -> None:
    prefer(driver.window.settings, KEYS, preset)
    driver.window.commands.rebind()
    commands = driver.window.commands.all()
    known = {command.id for command in commands}
    assert set(PRESETS[preset]) <= known
    for one, other in combinations(commands, 2):
        assert not set(one.shortcuts) & set(other.shortcuts), (one.id, other.id)
    for command in commands:
        for key in command.shortcuts:
            assert QKeySequence(key).toString(QKeySequence.SequenceFormat.PortableText) == key


def test_a_clash_is_shown(driver: Driver) -> None:
    dialog = shown(driver)
    Keymap(driver.window.settings).set_own("debug.run", ("F11",))
    driver.window.commands.rebind()
    QTest.keyClicks(dialog.search, "run menu")
    dialog.search.setText("f11")
    texts = {row.id: dialog.table.text(row, 1) for row in dialog.table.rows}
    assert texts["debug.run"] == "F11  (also Step One Cycle)"
    dialog.reject()


def test_settings_of_anybody_are_judged() -> None:
    settings = Settings(None)
    for preference in PREFERENCES:
        for value in (None, -1, 10**9, True, [], {}, "x" * 300):
            settings.set(preference.key, value)
            assert preferred(settings, preference) == preference.default, (preference.key, value)
        assert preference.accepts(preference.default)
        assert matches(preference, preference.title.upper())
        assert not matches(preference, "nothing of the kind")
    for kept in (5, [1], {"debug.run": 5}, {"debug.run": [1, None]}):
        settings.set(OWN, kept)
        assert isinstance(Keymap(settings).keys_of("debug.run", ("F5",)), tuple)


def test_the_size_is_handed_to_qt_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_SCALE_FACTOR", "")
    monkeypatch.delenv("QT_SCALE_FACTOR")
    settings = Settings(None)
    scale_everything(settings)
    assert "QT_SCALE_FACTOR" not in os.environ
    prefer(settings, SCALE, 150)
    scale_everything(settings)
    assert os.environ["QT_SCALE_FACTOR"] == "1.5"
