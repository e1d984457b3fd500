"""Breakpoints in turns of loops, watched tiles, and tiles by the names that functions give them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.base.progress import NoProgress
from npuviz.debug.condition.expression import Moment
from npuviz.debug.condition.variable_event import VariableEvent
from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.loop_turns import go_to_turn, loops_around, program_loops
from npuviz.debug.session import Session
from npuviz.program.source import HasCalls
from npuviz.program.variables import HasVariables
from npuviz.sim.stop import StopKind
from npuviz.workbench.opening import OpenOptions, open_file
from tests.targets.neuroncore.nki.running import SECOND, random

Ask = Callable[[str], dict[str, Any]]

KERNEL = (
    SECOND
    + """
def squares(tile):
    powered = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=powered, data1=tile, data2=tile, op=nl.multiply)
    return powered

def twice(i):
    for c in range(2):
        nisa.tensor_scalar(dst=i, data=i, op0=nl.add, operand0=1.0)

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for c in range(4):
        part = nl.ds(128 * c, 128)
        tile = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[part])
        acc = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=acc, value=0.0)
        for i in range(3):
            sq = squares(tile)
            nisa.tensor_tensor(dst=acc, data1=acc, data2=sq, op=nl.add)
        twice(acc)
        nisa.dma_copy(dst=out[part], src=acc)
    return out
"""
)
LINES = KERNEL.splitlines()
ADD = 1 + next(n for n, line in enumerate(LINES) if "data2=sq" in line)
INNER = 1 + next(n for n, line in enumerate(LINES) if "operand0=1.0" in line)
CLEAR = 1 + next(n for n, line in enumerate(LINES) if "memset" in line)
POWER = 1 + next(n for n, line in enumerate(LINES) if "dst=powered" in line)
DATA = random(512, 8)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    opened = open_file(path, OpenOptions(inputs={"x": DATA}))
    try:
        assert opened.session is not None
        yield opened.session
    finally:
        opened.close()


@pytest.fixture
def ask(session: Session) -> Ask:
    def asked(line: str) -> dict[str, Any]:
        out = StringIO()
        TextDebugger(session, out, json=True).execute(line)
        return json.loads(out.getvalue())

    return asked


def _turns(session: Session, ask: Ask) -> list[tuple[int, ...]]:
    """Run to the end, and return the values of the loops' variables at each stop, outermost first."""
    found: list[tuple[int, ...]] = []
    listing = session.program.listing
    assert isinstance(listing, HasCalls)
    while ask("run")["stop"] == "breakpoint":
        calls = listing.calls_of(session.stop.instruction)
        found.append(tuple(loop.value for call in reversed(calls) for loop in call.loops))
    return sorted(found)


ALL = [(c, i) for c in range(4) for i in range(3)]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("", lambda c, i: True),
        ("if c == 2", lambda c, i: c == 2),
        ("if c % 2 == 0 and i != 1", lambda c, i: c % 2 == 0 and i != 1),
        ("if c%2==0 and not i==1", lambda c, i: c % 2 == 0 and i != 1),
        ("if c > i", lambda c, i: c > i),
        ("if c == 1 or (c == 3 and i + 1 == 3)", lambda c, i: c == 1 or (c, i) == (3, 2)),
        ("if 2 * c - i >= 4 and cycle > 0", lambda c, i: 2 * c - i >= 4),
        ("if c == 0 or cycle < 0", lambda c, i: c == 0),
    ],
)
def test_a_line_alone_takes_a_condition_on_its_loops(session: Session, ask: Ask, condition, kept) -> None:
    assert ask(f"break {ADD} {condition}")["condition"] == f"line {ADD} {condition}".strip()
    assert _turns(session, ask) == [each for each in ALL if kept(*each)]


def test_a_condition_of_the_machine_is_tested_where_the_line_starts(session: Session, ask: Ask) -> None:
    ask(f"break {ADD}")
    stops = [ask("run")["cycle"] for _ in ALL]
    ask("delete 1")
    ask("restart")
    ask(f"break {ADD} if cycle > {stops[6]} or c == 0")
    found = _turns(session, ask)
    ask("delete 2")
    ask("restart")
    ask(f"break {ADD} if c == 0")
    firsts = _turns(session, ask)
    assert set(firsts) < set(found)
    assert len(found) < len(ALL)


def test_the_variable_of_the_inner_loop_is_meant(session: Session, ask: Ask) -> None:
    """As in Python: `c` on a line of a function is that function's, not the one of its caller."""
    ask(f"break {INNER} if c == 1")
    assert _turns(session, ask) == [(outer, 1) for outer in range(4)]
    assert "in no turn: c is 0 to 1 there" in ask(f"break {INNER} if c == 3")["error"]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (f"break {ADD} if c == 9", "in no turn: c is 0 to 3, i is 0 to 2 there"),
        (f"break {ADD} if cc == 1", "did you mean c"),
        (f"break {ADD} if", "expected"),
        ("break 1 if c == 2", "no instruction comes from line 1"),
        ("break write accc", "did you mean acc"),
        ("break write PSUM acc", "never in Core[0].PSUM"),
    ],
)
def test_what_cannot_be_is_told(ask: Ask, command: str, text: str) -> None:
    assert text in ask(command)["error"]


@pytest.mark.parametrize(
    ("condition", "lines"),
    [
        ("write acc if c == 2", [CLEAR, ADD, ADD, ADD, INNER, INNER]),
        ("write SBUF acc if c == 2 and cycle > 1000", [ADD, ADD, ADD, INNER, INNER]),
        ("read sq if c == 1", [ADD, ADD, ADD]),
        ("read powered if c == 1 and i == 2", [ADD]),
    ],
)
def test_a_watched_tile_stops_where_it_is_accessed_whoever_had_its_place_before(
    ask: Ask, condition: str, lines: list[int]
) -> None:
    ask(f"break {condition}")
    found = []
    while (stop := ask("run"))["stop"] == "breakpoint":
        found.append(int(stop["detail"].split(":")[1].split()[0]))
    assert found == lines


def test_a_watched_tensor_of_hbm_stops_for_each_of_its_transfers(ask: Ask) -> None:
    ask("break write out")
    assert sum(ask("run")["stop"] == "breakpoint" for _ in range(5)) == 4


def test_of_tiles_of_one_name_the_one_is_shown_that_it_stopped_for(ask: Ask) -> None:
    """Several turns are under way at once."""
    for turn in (1, 2):
        ask("restart")
        number = ask(f"break write acc if c == {turn} and cycle > 1000")["breakpoint"]
        ask("run")
        shown = ask("print acc")
        assert shown["note"].endswith("of this name, the one used where it stopped")
        expected = np.square(DATA[128 * turn : 128 * turn + 128])
        np.testing.assert_allclose(np.array(shown["value"]), expected, rtol=1e-5)
        ask(f"delete {number}")
    assert len([row for row in ask("locals SBUF")["variables"] if row["name"] == "acc"]) > 1


def test_a_helpers_result_has_the_callers_name_too(ask: Ask) -> None:
    ask("break read sq if c == 1")
    ask("run")
    assert ask("print sq") | {"variable": ""} == ask("print powered") | {"variable": ""}
    assert ask("who sq")["operator"] == f"kernel.py:{POWER}"
    (row,) = [row for row in ask("locals SBUF")["variables"] if row["address"] == ask("print sq")["address"]]
    assert (row["name"], row["also"]) == ("powered", "sq")
    # `tile` is what the kernel calls another one, though the helper's `i` is `acc`.
    assert ask("print i")["address"] in {
        row["address"] for row in ask("locals SBUF")["variables"] if row["name"] == "acc"
    }


def test_a_tile_that_no_memory_holds_is_told_before_and_behind(ask: Ask) -> None:
    for command in ("print acc", "who acc", "origin acc"):
        error = ask(command)["error"]
        assert f"nothing has written acc yet: kernel.py:{CLEAR} is the first to do so" in error
    ask("run")
    assert "no memory holds acc any more" in ask("print acc")["error"]
    assert ask("backto read acc")["stop"] != "start"
    assert "value" in ask("print acc")
    assert "neither a memory" not in ask("print lost")["error"]
    assert "nor a variable" in ask("print lost")["error"]


def test_reports_without_rows_are_told_from_reports_that_do_not_exist(ask: Ask) -> None:
    assert {row["rows"] for row in ask("report")["reports"]} == {0}
    assert ask("report psum")["note"] == "it has no rows at cycle 0"
    assert "there are Roofline, Bounds of loops, DMA transfers, PSUM" in ask("report lost")["error"]


def test_why_alone_is_about_the_unit_that_stopped(ask: Ask) -> None:
    ask(f"break {ADD} if c == 1")
    unit = ask("run")["unit"]
    assert ask("why") == ask(f"why {unit}")


REUSED = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for c in range(8):
        first = nl.ndarray((128, 9000), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=first, src=x)
        second = nl.ndarray((128, 6000), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=second, data=first[:, 0:6000], op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, 0:6000], src=second)
    return out
"""
)


def test_what_other_tiles_do_at_the_same_place_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "reused.py"
    path.write_text(REUSED)
    opened = open_file(path, OpenOptions(inputs={"x": random(128, 9000)}))
    try:
        session = opened.session
        assert session is not None
        listing = session.program.listing
        assert isinstance(listing, HasVariables)
        places = [place for place in listing.variable_places if place.first >= 0]
        assert any(a.name != b.name and a.overlaps(b) for a in places for b in places)
        session.breakpoints.add("write second")
        assert [session.run().kind for _ in range(9)] == [StopKind.BREAKPOINT] * 8 + [StopKind.FINISHED]
    finally:
        opened.close()


ON_THE_CHIP = (
    SECOND
    + """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    reg = nisa.register_alloc(1)
    def add(k):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
    def halve(left):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
        return count
    for again in range(2):
        nisa.memset(dst=count, value=5)
        nisa.register_move(reg, 1)
        while reg:
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=3.0)
            nisa.tensor_scalar(dst=count, data=count, op0=nl.subtract, operand0=1)
            nisa.register_load(reg, count)
    nisa.memset(dst=count, value=4)
    nl.fori_loop(2, 5, add)
    nl.while_loop(count, halve)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)


def test_loops_on_registers_have_turns(tmp_path: Path) -> None:
    path = tmp_path / "registers.py"
    path.write_text(ON_THE_CHIP)
    lines = ON_THE_CHIP.splitlines()
    heads = {
        name: next(n for n, line in enumerate(lines, 1) if text in line)
        for name, text in (
            ("reg", "while reg"),
            ("k", "nl.fori"),
            ("left", "nl.while"),
            ("again", "for again"),
        )
    }
    subtract = next(n for n, line in enumerate(lines, 1) if "operand0=3.0" in line)
    opened = open_file(path, OpenOptions(inputs={"x": random(128, 8)}))
    try:
        session = opened.session
        assert session is not None
        listing = session.program.listing
        counts = {loop.variable: (loop.place.line, loop.count) for loop in program_loops(listing)}
        assert counts == {
            "again": (heads["again"], 2),
            "reg": (heads["reg"], 5),
            "k": (heads["k"], 3),
            "left": (heads["left"], 4),
        }
        session.breakpoints.add(f"{subtract} if reg == 3 and again == 1")
        session.run()
        (*_, turn) = loops_around(listing, session.stop.instruction)
        # The register holds 1, then what the counter is: 4, 3 ...
        assert (turn.variable, turn.value, turn.turn, turn.count) == ("reg", 3, 3, 5)
        session.go_to(0)
        go_to_turn(session, "left", 2, NoProgress())
        turns = [
            each.turn
            for state in session.machine.unit_states()
            for each in loops_around(listing, state.instruction)
            if each.variable == "left"
        ]
        assert 2 in turns
    finally:
        opened.close()


MIXED = (
    SECOND
    + """
def more(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for c in range(2):
        more(tile)
    more(tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)


@pytest.mark.parametrize(
    ("condition", "stops"),
    [
        ("c == 1", 1),
        ("c == 1 or cycle > 0", 3),
        ("cycle > 0 or c == 1", 3),
        ("not c == 1", 1),
        ("(c == 1 or cycle > 0) and cycle >= 0", 3),
        ("c >= 0 and cycle > 0", 2),
        ("cycle < 0 or (c == 0 or cycle < 0)", 1),
    ],
)
def test_a_line_inside_and_outside_of_a_loop_stops_where_the_rest_holds(
    tmp_path: Path, condition: str, stops: int
) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(MIXED)
    opened = open_file(path, OpenOptions(inputs={"x": DATA[:128]}))
    try:
        session = opened.session
        assert session is not None
        line = 1 + next(n for n, text in enumerate(MIXED.splitlines()) if "operand0" in text)
        session.breakpoints.add(f"line {line} if {condition}")
        found = 0
        while session.run().kind is StopKind.BREAKPOINT:
            found += 1
        assert found == stops
    finally:
        opened.close()


@pytest.mark.parametrize("name", ["kernel.py", "./kernel.py", "../kernel.py", "./here/../kernel.py"])
def test_a_file_is_found_by_what_a_shell_completes(ask: Ask, tmp_path: Path, name: str) -> None:
    folder = "" if "here" not in name else f"{tmp_path.name}/"
    assert ask(f"break {name.replace('here/../', folder)}:{ADD}")["breakpoint"] == 1


def test_a_variable_that_is_always_there_stops_beside_a_tile_whose_place_has_another(
    session: Session,
) -> None:
    listing = session.program.listing
    assert isinstance(listing, HasVariables)
    named = [place for place in listing.variable_places if place.name in ("acc", "out")]
    tile = next(place for place in named if place.first >= 0)
    tensor = next(place for place in named if place.first < 0)
    event = VariableEvent([((0, tile.memory, 0, 1, 0), 1), ((0, tensor.memory, 0, 1, 0), 2)], [tile, tensor])
    session.run_to("write acc")
    machine = session.machine
    assert event.pulses(Moment(machine, frozenset({1})))
    other = replace(tile, first=tile.first + 1)
    event = VariableEvent(event.rows, [other, tensor])
    assert not event.pulses(Moment(machine, frozenset({1})))
    assert event.pulses(Moment(machine, frozenset({2})))
    assert event.pulses(Moment(machine, frozenset({1, 2})))
    assert not event.pulses(Moment(machine))
