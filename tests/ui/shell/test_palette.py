from PySide6.QtCore import Qt

from npuviz.workbench.selection import Selection
from tests.ui.driver import Driver


def titles(driver: Driver) -> list[str]:
    return [entry.title for entry in driver.window.palette_box.entries]


def test_commands_are_found_by_letters_in_order(toy: Driver) -> None:
    toy.do("view.palette")
    toy.qtbot.keyClicks(toy.window.palette_box.field, "stepback")
    assert titles(toy)[0] in ("Step One Cycle Back", "Step One Instruction Back")
    assert "Open Model" not in titles(toy)


def test_choosing_a_command_runs_it_and_gives_the_focus_back(toy: Driver) -> None:
    toy.do("view.palette")
    toy.type_into_palette("step one cycle")
    assert toy.session.cycle == 1
    assert not toy.window.palette_box.isVisible()


def test_disabled_commands_are_shown_but_do_nothing(driver: Driver) -> None:
    driver.do("view.palette")
    field = driver.window.palette_box.field
    driver.qtbot.keyClicks(field, "step one cycle")
    entry = driver.window.palette_box.entries[0]
    assert entry.title == "Step One Cycle"
    assert not entry.is_enabled
    driver.qtbot.keyClick(field, Qt.Key.Key_Return)
    assert driver.window.palette_box.isVisible(), "a disabled entry leaves the palette open"


def test_escape_closes_it_without_cancelling_anything(toy: Driver) -> None:
    toy.window.selection.set(Selection(node=1))
    toy.do("view.palette")
    toy.qtbot.keyClick(toy.window.palette_box.field, Qt.Key.Key_Escape)
    assert not toy.window.palette_box.isVisible()
    assert toy.window.selection.current == Selection(node=1)


def test_finder_selects_a_unit_by_name(toy: Driver) -> None:
    unit = toy.session.description.units[1]
    toy.do("view.find")
    toy.type_into_palette(unit.name)
    assert toy.window.selection.current.unit == unit.id


def test_finder_selects_an_operator(toy: Driver) -> None:
    node = toy.session.program.graph.nodes[2]
    toy.do("view.find")
    toy.type_into_palette(node.name)
    assert toy.window.selection.current.node == node.id


def test_palette_words_jump_to_an_instruction(toy: Driver) -> None:
    toy.do("view.palette")
    toy.type_into_palette("j 5")
    assert toy.window.selection.current.instruction == 5


def test_nonsense_says_what_was_expected(toy: Driver) -> None:
    toy.do("debug.goto")
    toy.qtbot.keyClicks(toy.window.palette_box.field, "qqqqzzz")
    assert len(titles(toy)) == 1
    assert "expected a cycle" in titles(toy)[0]
    assert not toy.window.palette_box.entries[0].is_enabled


def test_arrow_keys_move_and_wrap(toy: Driver) -> None:
    toy.do("view.palette")
    box = toy.window.palette_box
    assert box._list.currentIndex().row() == 0
    toy.qtbot.keyClick(box.field, Qt.Key.Key_Down)
    assert box._list.currentIndex().row() == 1
    toy.qtbot.keyClick(box.field, Qt.Key.Key_Up)
    toy.qtbot.keyClick(box.field, Qt.Key.Key_Up)
    last = max(row for row, entry in enumerate(box.entries) if entry.is_enabled)
    assert box._list.currentIndex().row() == last


def test_recent_files_are_offered(toy: Driver) -> None:
    toy.do("file.open_recent")
    assert titles(toy) == ["small.toy"]
    toy.do("file.close")
    toy.do("file.open_recent")
    with toy.qtbot.waitSignal(toy.model.session_changed):
        toy.qtbot.keyClick(toy.window.palette_box.field, Qt.Key.Key_Return)
    toy.idle()
    assert toy.session.cycle == 0
