"""The source panel: text, the line where an element is, breakpoints in the gutter, variables."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from npuviz.debug.loop_turns import loops_around
from npuviz.debug.session import Session
from npuviz.program.source import HasSource
from npuviz.sim.frames import HasFrames
from npuviz.sim.stop import StopKind
from npuviz.ui.bridge.features import features_of
from npuviz.ui.bridge.focus import focused_element
from npuviz.ui.shell.commands.element import ElementCommands
from npuviz.ui.source.lexer import Lexer
from npuviz.ui.source.panel import SPEC, SourcePanel
from npuviz.ui.source.state import element_place, line_marks, place_of
from npuviz.workbench.opening import Opened, OpenOptions, open_file
from npuviz.workbench.resources import sample_models_path
from npuviz.workbench.selection import Selection
from tests.toy.fabric import WATCHED, make_fabric
from tests.toy.session import make_recorder
from tests.toy.sourced import CALL, LINES, SourcedFabric, make_sourced
from tests.ui.panel_stage import Stage


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(SPEC)
    yield made
    made.close()


def panel_of(stage: Stage) -> SourcePanel:
    assert isinstance(stage.panel, SourcePanel)
    return stage.panel


def open_sourced(stage: Stage, run_to: int = 100) -> SourcedFabric:
    machine = make_sourced()
    session = Session(machine, make_recorder(machine))
    session.go_to(run_to)
    stage.context.model.show_opened(Opened(Path("s.toy"), "s", OpenOptions(), session.trace, session))
    stage.panel.on_session_changed()
    stage.panel.grab()
    return machine


def texts_of(stage: Stage) -> list[str]:
    return [point.text for point in stage.session.breakpoints.all]


def test_the_toy_fulfils_the_contracts() -> None:
    machine = make_sourced()
    assert isinstance(machine.program.listing, HasSource)
    assert isinstance(machine, HasFrames)
    assert "source text" in features_of(machine)
    assert "source text" not in features_of(make_fabric())


def test_shows_where_the_element_is_and_who_called(stage: Stage) -> None:
    machine = open_sourced(stage)
    panel = panel_of(stage)
    columns = machine.fabric.columns
    for place in WATCHED[:2]:
        panel.context.selection.set(Selection(element=place))
        panel.on_selection_changed(panel.context.selection.current)
        found = panel.place
        assert found is not None
        assert found.element == place[1] * columns + place[0]
        frames = machine.frames(found.element)
        assert panel.text.marks.current == LINES[frames[0].instruction % 4]
        assert len(panel.text.marks.callers) == len(frames) - 1
    for _ in range(30):
        stage.session.step()
        stage.moved()
        assert panel.place is not None
        frames = machine.frames(panel.place.element)
        assert panel.text.marks.current == (LINES[frames[0].instruction % 4] if frames else 0)


def test_an_idle_element_says_so(stage: Stage) -> None:
    open_sourced(stage)
    panel = panel_of(stage)
    panel.on_selection_changed(Selection(element=(20, 20)))
    assert "runs nothing" in panel.stack.where.text()
    assert panel.text.marks.current == 0


def test_without_a_selection_an_element_that_runs_is_shown(stage: Stage) -> None:
    machine = open_sourced(stage)
    element = focused_element(machine, Selection())
    assert element is not None
    assert machine.frames(element)
    panel = panel_of(stage)
    assert panel.place is not None
    assert panel.place.element == element


def test_gutter_sets_and_removes_breakpoints_that_stop(stage: Stage, qtbot: QtBot) -> None:
    open_sourced(stage)
    panel = panel_of(stage)
    box = panel.text.line_box(13)
    for expected in (["line work.csl:13"], []):
        qtbot.mouseClick(panel.text.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(8, box.center().y()))
        assert texts_of(stage) == expected
        assert (13 in panel.text.marks.breakpoints) == bool(expected)
    panel.toggle_breakpoint(13)
    stop = stage.session.run()
    assert stop.kind == StopKind.BREAKPOINT
    assert stop.breakpoints == (stage.session.breakpoints.all[0].id,)


def test_a_line_without_code_means_the_next_one_with(stage: Stage, qtbot: QtBot) -> None:
    open_sourced(stage)
    panel = panel_of(stage)
    panel.text.setFocus()
    panel.text.chosen.emit(9)
    qtbot.keyClick(panel.text, Qt.Key.Key_F9)
    assert texts_of(stage) == ["line work.csl:13"]
    qtbot.keyClick(panel.text, Qt.Key.Key_F9)
    assert texts_of(stage) == []
    panel.toggle_breakpoint(17)
    assert texts_of(stage) == []


def test_breakpoint_of_one_element_is_marked_as_such(stage: Stage) -> None:
    machine = open_sourced(stage)
    panel = panel_of(stage)
    panel.on_selection_changed(Selection(element=WATCHED[0]))
    panel.toggle_breakpoint(15, is_here=True)
    assert texts_of(stage) == ["line work.csl:15 at 0,0"]
    assert panel.text.marks.breakpoints[15] == (True, True)
    panel.on_selection_changed(Selection(element=(9, 9)))
    assert panel.text.marks.breakpoints[15] == (True, False)
    listing = machine.program.listing
    assert isinstance(listing, HasSource)
    points = [(1, 'line "work.csl:7"', False), (2, "line nowhere.csl:7", True), (3, "cycle == 9", True)]
    assert list(line_marks(listing, points, machine.fabric)) == [(0, 7)]


def test_variables_by_scope_with_what_changed(stage: Stage) -> None:
    machine = open_sourced(stage)
    panel = panel_of(stage)
    panel.on_selection_changed(Selection(element=WATCHED[0]))
    rows = panel.variables.rows
    assert panel.place is not None
    heads = [row.scope for row in rows if row.variable is None]
    assert heads[-1] == "globals"
    assert len(heads) == 1 + len(panel.place.frames)
    assert not panel.variables.changed
    before = machine.globals_of(0)[1].value
    stage.session.go_to(machine.cycle + 20)
    stage.stepped()
    assert machine.globals_of(0)[1].value != before
    assert ("globals", "tile") in panel.variables.changed
    panel.stack.filter.setText("su")
    assert [row.variable.name for row in panel.variables.rows if row.variable] == ["sum"]


def test_only_variables_with_other_values_or_marks_are_painted(stage: Stage, qtbot: QtBot) -> None:
    machine = open_sourced(stage)
    panel = panel_of(stage)
    panel.on_selection_changed(Selection(element=WATCHED[0]))
    model, shown = panel.variables, {row.key: row for row in panel.variables.rows}
    announced: set[tuple[str, str]] = set()
    model.dataChanged.connect(lambda top, bottom: announced.update(keys_between(top.row(), bottom.row())))

    def keys_between(first: int, last: int) -> list[tuple[str, str]]:
        return [row.key for row in model.rows[first : last + 1]]

    for _ in range(30):
        marked, announced_before = model.changed, set(shown)
        announced.clear()
        stage.session.go_to(machine.cycle + 1)
        stage.stepped()
        now = {row.key: row for row in model.rows}
        if set(now) == announced_before:
            other = {key for key, row in now.items() if row != shown[key]}
            assert announced == other | (marked ^ model.changed)
        shown = now
    assert model.rows
    assert panel.stack.table.columnSpan(0, 0) == model.columnCount()


def test_click_on_a_line_selects_its_instruction_and_keeps_the_element(stage: Stage, qtbot: QtBot) -> None:
    open_sourced(stage)
    panel = panel_of(stage)
    panel.context.selection.set(Selection(element=WATCHED[1]))
    box = panel.text.line_box(15)
    qtbot.mouseClick(panel.text.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(200, box.center().y()))
    current = panel.context.selection.current
    assert current.instruction == 3
    assert current.element == WATCHED[1]
    panel.on_selection_changed(Selection(instruction=6))
    assert panel.text.marks.chosen == LINES[2]


def test_names_under_the_pointer_have_values(stage: Stage) -> None:
    machine = open_sourced(stage)
    place = element_place(machine, WATCHED[0][1] * machine.fabric.columns + WATCHED[0][0])
    found = place.variable("sum")
    assert found is not None
    assert found.type == "[4]f32"
    assert place.variable("nothing") is None


def test_entries_begin_on_their_lines(stage: Stage) -> None:
    open_sourced(stage)
    panel = panel_of(stage)
    found = [(line, entry.name) for line in range(1, 18) for entry in panel._entries_at(line)]
    assert found == [(6, "fetch"), (11, "work")]
    for kind, name in (("function", "fetch"), ("task", "work")):
        stage.context.model.add_breakpoint(f"{kind} {name} at 0,0")
    assert len(texts_of(stage)) == 2


def test_search_in_the_file(stage: Stage) -> None:
    open_sourced(stage)
    panel = panel_of(stage)
    panel.search("@load")
    assert panel.text.marks.chosen == 7
    panel.search("@load")
    assert panel.text.marks.chosen == 8
    panel.search("@load", backward=True)
    assert panel.text.marks.chosen == 7


def test_steps_reach_the_session(stage: Stage, qtbot: QtBot) -> None:
    machine = open_sourced(stage)
    model = stage.context.model
    commands = ElementCommands(model, stage.context.selection, lambda _text: None).all()
    ids = {command.id: command for command in commands}
    assert len({key for command in commands for key in command.shortcuts}) == len(commands)
    start = machine.cycle
    assert ids["debug.line_over"].is_enabled()
    ids["debug.line_over"].run()
    qtbot.waitUntil(lambda: not model.is_running and not model.is_busy)
    assert machine.cycle > start
    ids["debug.next_task_back"].run()
    qtbot.waitUntil(lambda: not model.is_running and not model.is_busy)
    assert machine.cycle < start + 20


def test_lexer_colours_words() -> None:
    lexer = Lexer("csl")
    line = 'const x: [4]f32 = @load("a // b", 0x1F); // done'
    kinds = [(line[p.start : p.end], p.kind) for p in lexer.pieces(line) if p.kind != "name"]
    assert kinds == [
        ("const", "keyword"),
        ("4", "number"),
        ("f32", "type"),
        ("@load", "builtin"),
        ('"a // b"', "string"),
        ("0x1F", "number"),
        ("// done", "comment"),
    ]
    assert lexer.name_at(line, 6) == "x"
    assert lexer.name_at(line, 0) == ""
    assert Lexer("", "run.py").pieces("def f():  # x")[0].kind == "keyword"
    assert [p.kind for p in Lexer("unknown").pieces('a "b')] == ["name", "string"]


def test_empty_closed_and_both_themes(stage: Stage) -> None:
    stage.panel.grab()
    stage.open_toy()
    stage.panel.on_session_changed()
    assert not panel_of(stage).text.isVisible()
    open_sourced(stage)
    assert panel_of(stage).text.isVisible()
    dark = panel_of(stage).text.grab().toImage()
    stage.context.theme.set_mode("light")
    assert panel_of(stage).text.grab().toImage() != dark
    assert CALL not in LINES
    stage.context.model.show_opened(None)
    stage.panel.on_session_changed()
    assert not panel_of(stage).text.isVisible()


def test_a_program_of_units_shows_the_line_that_runs(stage: Stage, qtbot: QtBot) -> None:
    shapes = {f"shape.{name}": "256x512:float32" for name in "ab"}
    path = sample_models_path() / "nki" / "vector_add.py"
    opened = open_file(path, OpenOptions("neuroncore", settings=shapes))
    session = opened.session
    assert session is not None
    session.run()
    assert session.end_cycle is not None
    panel = panel_of(stage)
    stage.context.model.show_opened(opened)
    seen: set[int] = set()
    for part in range(1, 10):
        session.go_to(session.end_cycle * part // 10)
        stage.moved()
        states = [
            s for s in session.machine.unit_states() if place_of(session.program.listing, s.instruction)
        ]
        if states:
            assert panel.place is not None
            assert panel.place.place is not None
            line = panel.place.place.line
            assert panel.text.viewport().rect().contains(panel.text.line_box(line).center())
            seen.add(line)
            held = states[-1]
            stage.context.selection.set(Selection(unit=held.unit))
            panel.on_selection_changed(stage.context.selection.current)
            assert panel.place.place == place_of(session.program.listing, held.instruction)
            stage.context.selection.clear()
    assert len(seen) > 1
    # What it lists below the text are tiles, not an element's variables.
    qtbot.waitUntil(lambda: panel.is_filled and bool(panel.variables.rows), timeout=20_000)
    assert panel.variables.rows[-1].scope == "other tiles now"


def test_each_line_of_a_kernel_has_its_share_of_the_run(qtbot: QtBot) -> None:
    path = sample_models_path() / "nki" / "vector_add.py"
    opened = open_file(path, OpenOptions(settings={"shape.a": "256x512", "shape.b": "256x512"}))
    assert opened.session is not None
    opened.session.run()
    stage = Stage(SPEC)
    stage.context.model.show_opened(opened)
    stage.panel.on_session_changed()
    panel = panel_of(stage)
    qtbot.waitUntil(lambda: panel.is_settled and bool(panel.text.marks.heat), timeout=20_000)
    heat = panel.text.marks.heat
    text = path.read_text(encoding="utf-8").splitlines()
    (addition,) = [n for n, line in enumerate(text, 1) if "tensor_tensor" in line]
    loads = [n for n, line in enumerate(text, 1) if "dma_copy" in line or "nl.load" in line]
    assert 0 < heat[addition] < 1
    assert sum(heat.get(line, 0.0) for line in loads) > heat[addition]  # DMA bounds an addition
    assert sum(heat.values()) <= 1.0001
    tip = panel.text.marks.tips[addition]
    assert f"line {addition}: " in tip
    assert "mostly Core[0].DVE" in tip
    stage.close()


FLASH = OpenOptions(settings={"shape.q": "64x384", "shape.k": "64x384", "shape.v": "384x64"})


def test_iterations_of_loops_can_be_chosen(qtbot: QtBot) -> None:
    opened = open_file(sample_models_path() / "nki" / "flash_attention.py", FLASH)
    session = opened.session
    assert session is not None
    session.run()
    stage = Stage(SPEC)
    stage.context.model.show_opened(opened)
    panel = panel_of(stage)
    vector = next(unit.id for unit in session.description.units if unit.name == "Core[0].DVE")
    listing = session.program.listing
    low, high = listing.ranges_of_unit(vector)[0]
    third = next(i for i in range(low, high) if [x.turn for x in loops_around(listing, i)] == [2, 3])
    session.run_back_to(f"instr {third}..{third + 1}")
    stage.context.selection.set(Selection(unit=vector))
    stage.moved()
    panel.on_selection_changed(stage.context.selection.current)
    bar = panel.loops
    assert [name.text() for name in bar.names[:2]] == ["first", "block"]
    assert not bar.boxes[2].isVisible()
    assert [(box.value(), box.maximum()) for box in bar.boxes[:2]] == [(2, 3), (3, 3)]
    assert bar.values[1].text() == "of 3, is 256"
    before = session.cycle
    for box, turn, wanted in ((1, 1, [2, 1]), (0, 3, [3]), (0, 1, [1])):
        bar.boxes[box].setValue(turn)
        qtbot.waitUntil(lambda: not stage.context.model.is_running, timeout=20_000)
        stage.moved()
        assert panel.place is not None
        now = loops_around(listing, panel.place.frames[0][0].instruction)
        assert [loop.turn for loop in now][: len(wanted)] == wanted
        assert [box.value() for box in bar.boxes[: len(wanted)]] == wanted
        assert session.cycle != before
    stage.close()


def test_each_line_says_why_units_waited_there(qtbot: QtBot) -> None:
    path = sample_models_path() / "nki" / "flash_attention.py"
    opened = open_file(path, FLASH)
    assert opened.session is not None
    opened.session.run()
    stage = Stage(SPEC)
    stage.context.model.show_opened(opened)
    stage.panel.on_session_changed()
    panel = panel_of(stage)
    qtbot.waitUntil(lambda: panel.is_settled and bool(panel.text.marks.heat), timeout=20_000)
    text = path.read_text(encoding="utf-8").splitlines()
    (product,) = [n for n, line in enumerate(text, 1) if "moving=values" in line]
    (copy,) = [n for n, line in enumerate(text, 1) if "dst=weights" in line]
    tip = panel.text.marks.tips[product].splitlines()
    assert any(
        "waits for a semaphore" in line and line.endswith(f"of line flash_attention.py:{copy}")
        for line in tip
    ), tip
    cost = panel._heat[0, product]
    assert 0 < sum(reason.cycles for reason in cost.reasons) <= cost.waiting
    stage.close()


def test_lines_of_a_kernel_are_stepped_by_unit(qtbot: QtBot) -> None:
    opened = open_file(sample_models_path() / "nki" / "flash_attention.py", FLASH)
    session = opened.session
    assert session is not None
    stage = Stage(SPEC)
    stage.context.model.show_opened(opened)
    model, selection = stage.context.model, stage.context.selection
    told: list[str] = []
    commands = {command.id: command for command in ElementCommands(model, selection, told.append).all()}

    def after(name: str) -> tuple[int, list[int]]:
        """The line, and the iterations that it is in."""
        command = commands[f"debug.line_{name}"]
        assert command.is_enabled()
        command.run()
        qtbot.waitUntil(lambda: not model.is_running and not model.is_busy, timeout=20_000)
        stage.moved()
        place = panel_of(stage).place
        assert place is not None
        assert isinstance(session.program.listing, HasSource)
        at = place.frames[0][0].instruction
        found = session.program.listing.place_of(at)
        assert found is not None
        return found.line, [loop.turn for loop in loops_around(session.program.listing, at)]

    forward = [after("over") for _ in range(6)]
    chosen = selection.current.unit
    assert chosen is not None, "the unit that steps is selected, so that the next step is its own"
    cycles = session.cycle
    assert all(one != other for one, other in itertools.pairwise(forward))
    assert [after("over_back") for _ in range(5)] == forward[-2::-1]
    assert selection.current.unit == chosen
    assert 0 < session.cycle < cycles
    assert not told
    stage.close()


def test_a_breakpoint_on_a_line_selects_the_unit_that_reached_it(qtbot: QtBot) -> None:
    opened = open_file(sample_models_path() / "nki" / "flash_attention.py", FLASH)
    session = opened.session
    assert session is not None
    listing = session.program.listing
    assert isinstance(listing, HasSource)
    stage = Stage(SPEC)
    stage.context.model.show_opened(opened)
    model, selection = stage.context.model, stage.context.selection
    units = {each.name: each.id for each in session.machine.description.units}
    vector = units["Core[0].DVE"]
    place = next(
        found
        for number in range(len(listing))
        if listing.describe(number).unit != vector
        and (found := listing.place_of(number)) is not None
        and any(
            listing.describe(low).unit != vector for low, _ in listing.ranges_of_line(found.file, found.line)
        )
    )
    selection.set(Selection(unit=vector))
    session.breakpoints.add(f"line flash_attention.py:{place.line}")
    model.run()
    qtbot.waitUntil(lambda: not model.is_running and not model.is_busy, timeout=20_000)
    stage.moved()
    stop = model.stop
    assert stop is not None
    assert stop.kind is StopKind.BREAKPOINT
    assert selection.current.unit not in (None, vector)
    shown = panel_of(stage).place
    assert shown is not None
    assert shown.place is not None
    assert (units[shown.label], shown.place.line) == (selection.current.unit, place.line)
    stage.close()
