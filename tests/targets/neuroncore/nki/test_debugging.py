"""A kernel under the text debugger, with the words that other debuggers take."""

import json
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.session import Session
from npuviz.program.source import HasSource
from npuviz.sim.stop import StopKind
from npuviz.workbench.opening import OpenOptions, open_file
from tests.targets.neuroncore.nki.running import SECOND, random

Ask = Callable[[str], dict[str, Any]]

HELPERS = """
import nki.isa as nisa
import nki.language as nl

def scaled(tile, by):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=by, engine=nisa.engine.vector)
    return highest(tile)

def highest(tile):
    most = nl.ndarray((128, 1), dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=most, data=tile, op=nl.maximum, axis=1)
    return most
"""
KERNEL = (
    "from helpers_to_debug import scaled\n"
    + SECOND
    + """
def highest(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=nisa.engine.vector)

@nki.jit
def kernel(a):
    out = nl.ndarray((384, 1), dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(3):
        part = nl.ds(128 * i, 128)
        tile = nl.ndarray((128, 6), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=a[part])
        highest(tile)
        result = scaled(tile, 2.0)
        nisa.dma_copy(dst=out[part], src=result)
    return out
"""
)
DATA = random(384, 6)


@pytest.fixture(params=["most"])
def session(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session whose helper calls its tile as the parameter says."""
    (tmp_path / "helpers_to_debug.py").write_text(HELPERS.replace("most", request.param))
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    opened = open_file(path, OpenOptions(inputs={"a": DATA}))
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


def test_a_function_stops_at_each_of_its_calls(ask: Ask) -> None:
    assert ask("break scaled")["condition"] == "function scaled"
    stop: dict[str, Any] = {}
    for turn in range(3):
        stop = ask("run")
        assert (stop["stop"], stop["unit"]) == ("breakpoint", "Core[0].DVE")
        assert stop["detail"] == "helpers_to_debug.py:6 in scaled"
        (inner, outer) = ask(f"frames {stop['unit']}")["frames"]
        assert (inner["place"], outer["name"]) == ("helpers_to_debug.py:6", "kernel")
        assert outer["loops"] == f"i = {turn} ({turn + 1} of 3)"
    assert ask("run")["stop"] == "finished"
    assert ask("runback")["cycle"] == stop["cycle"]


def test_a_function_begins_at_its_definition(session: Session) -> None:
    listing = session.program.listing
    assert isinstance(listing, HasSource)
    places = {
        (entry.name, listing.sources[entry.place.file].name, entry.place.line) for entry in listing.entries
    }
    assert places == {
        ("kernel", "kernel.py", 11),
        ("kernel.py:highest", "kernel.py", 7),
        ("scaled", "helpers_to_debug.py", 5),
        ("helpers_to_debug.py:highest", "helpers_to_debug.py", 9),
    }


def test_functions_of_one_name_are_told_apart_by_their_files(session: Session, ask: Ask) -> None:
    for name, place in (
        ("kernel.py:highest", "kernel.py:8 in highest"),
        ("helpers_to_debug.py:highest", "helpers_to_debug.py:11 in highest"),
    ):
        ask("restart")
        number = ask(f"break {name}")["breakpoint"]
        assert ask("run")["detail"] == place
        ask(f"delete {number}")
    assert ask("break kernel")["condition"] == "function kernel"
    assert "did you mean" in ask("break highest")["error"]


def test_lines_need_no_word_and_steps_go_on_with_the_unit_that_stopped(session: Session, ask: Ask) -> None:
    assert ask("break helpers_to_debug.py:6")["condition"] == "line helpers_to_debug.py:6"
    assert ask("break 16")["condition"] == "line 16"
    ask("delete 2")
    assert ask("run")["detail"] == "helpers_to_debug.py:6 in scaled"
    ask("delete 1")
    assert ">6" in [row["line"] for row in ask("list")["source"]]
    # The compiler does the first line of all iterations before the second one of any.
    for turn in (1, 2):
        over = ask("over")
        assert (over["unit"], over["detail"]) == ("Core[0].DVE", "helpers_to_debug.py:6 in scaled")
        assert session.stop.kind is StopKind.UNTIL
        assert ask("frames DVE")["frames"][1]["loops"] == f"i = {turn} ({turn + 1} of 3)"
    assert ask("into")["detail"] == "helpers_to_debug.py:11 in highest"
    assert ">11" in [row["line"] for row in ask("list")["source"]]
    assert ask("over-")["detail"] == "helpers_to_debug.py:6 in scaled"
    assert ask("why DVE") == ask("why Core[0].DVE")
    assert ask("next")["unit"] == "Core[0].DVE"
    assert ask("break 16")["breakpoint"] == 3  # steps take no numbers


def test_a_line_stops_in_each_iteration_though_nothing_is_between_them(session: Session, ask: Ask) -> None:
    ask("break helpers_to_debug.py:11")
    stops = [ask("run") for _ in range(3)]
    assert {stop["detail"] for stop in stops} == {"helpers_to_debug.py:11 in highest"}
    instructions = [stop["instruction"] for stop in stops]
    assert instructions == list(range(instructions[0], instructions[0] + 3))
    assert ask("run")["stop"] == "finished"


def test_tiles_are_tensors_by_name(session: Session, ask: Ask) -> None:
    ask("break helpers_to_debug.py:11")
    ask("run")
    ask("run")
    tile = next(row for row in ask("locals SBUF")["variables"] if row["name"] == "tile" and not row["state"])
    assert tile["type"] == "float32 128x6"
    shown = ask("print tile")
    assert shown["type"] == "float32 128x6"
    values = np.array(shown["value"], np.float32)
    turns = [2 * (DATA[128 * turn : 128 * turn + 128] + 1) for turn in range(3)]
    assert any(np.array_equal(values, turn) for turn in turns)
    assert shown["max"] == pytest.approx(values.max())
    assert ask("print most")["type"] == "float32 128x1"
    assert ask("who most")["operator"] == "helpers_to_debug.py:11"
    assert ask("who most") == ask(f"who SBUF {ask('print most')['address']}")
    assert ask("origin tile 2") == ask(f"origin SBUF {ask('print tile')['address']} 2")
    assert ask("readers most")["memory"] == "Core[0].SBUF"
    assert len(ask("mem tile 8")["rows"]) == 1
    assert int(ask("mem tile+8 4")["address"], 16) == int(ask("print tile")["address"], 16) + 8
    # Two of three are there; the one is meant that is used where it stopped, here the newest.
    rows = [row for row in ask("locals SBUF")["variables"] if row["name"] == "most"]
    newest = max(rows, key=lambda row: row["since"])
    assert len(rows) > 1
    assert ask("print most")["address"] == newest["address"] != rows[0]["address"]
    assert "of 2 of this name" in ask("print most")["note"]
    for line in ("print lost", "who lost", "readers lost", "mem lost 4"):
        assert "lost" in ask(line)["error"]


@pytest.mark.parametrize("session", ["a"], indirect=True)
def test_a_name_in_two_memories_needs_one_of_them_before_it(session: Session, ask: Ask) -> None:
    ask("break helpers_to_debug.py:11")
    cycle = [ask("run")["cycle"] for _ in range(3)][-1]
    ask(f"goto {cycle + 1}")
    assert "a is in Core[0].SBUF, HBM: name one of them" in ask("print a")["error"]
    ask("runback")
    # The line where it stops writes the one in SBUF.
    assert ask("print a")["memory"] == "Core[0].SBUF"
    assert ask("print a")["note"].endswith("of this name, the one used where it stopped")
    assert ask("mem SBUF a 4")["memory"] == "Core[0].SBUF"
    assert ask("mem HBM a 4")["memory"] == "HBM"


def test_of_units_under_way_the_one_that_has_just_begun_is_where_it_stopped(ask: Ask) -> None:
    ask("break unit Pool starts or unit DVE starts")
    stops = [ask("run") for _ in range(9)]
    assert [stop["unit"] for stop in stops[:4]] == ["Core[0].DVE"] * 4
    for stop in stops:
        ask(f"goto {stop['cycle']}")
        began = [row["unit"] for row in ask("units")["units"] if row["since"] == stop["cycle"] - 1]
        assert stop["unit"] in began


def test_a_line_that_only_calls_stops_where_each_of_its_calls_begins(session: Session, ask: Ask) -> None:
    result = 1 + KERNEL.splitlines().index("        result = scaled(tile, 2.0)")
    listing = session.program.listing
    assert isinstance(listing, HasSource)
    file = next(n for n, each in enumerate(listing.sources) if each.name == "kernel.py")
    assert result in listing.lines_with_code(file)
    ask(f"break kernel.py:{result}")
    for turn in range(3):
        assert ask("run")["detail"] == "helpers_to_debug.py:6 in scaled"
        assert ask("frames DVE")["frames"][1] == {
            "depth": 1,
            "name": "kernel",
            "place": f"kernel.py:{result}",
            "loops": f"i = {turn} ({turn + 1} of 3)",
        }
    assert ask("run")["stop"] == "finished"


@pytest.mark.parametrize(
    ("condition", "turns"),
    [
        ("helpers_to_debug.py:6 if i == 2", ["2"]),
        ("helpers_to_debug.py:6 if i >= 1 and i < 2", ["1"]),
        ("helpers_to_debug.py:6 if i != 1 and cycle > 0", ["0", "2"]),
        ("scaled if i > 0", ["1", "2"]),
    ],
)
def test_breakpoints_choose_turns_of_the_loops_around_them(
    ask: Ask, condition: str, turns: list[str]
) -> None:
    ask(f"break {condition}")
    found = []
    while ask("run")["stop"] == "breakpoint":
        found.append(ask("frames DVE")["frames"][1]["loops"].split()[2])
    assert found == turns


def test_turns_that_are_not_there_are_told(ask: Ask) -> None:
    assert "in no turn: i is 0 to 2 there" in ask("break helpers_to_debug.py:6 if i == 7")["error"]
    assert "did you mean i?" in ask("break helpers_to_debug.py:6 if ii == 1")["error"]


def test_files_are_named_by_the_end_of_their_path(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__init__.py").write_text("")
    (tmp_path / "inner" / "parts.py").write_text(HELPERS)
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL.replace("helpers_to_debug", "inner.parts"))
    opened = open_file(path, OpenOptions(inputs={"a": DATA}))
    try:
        assert opened.session is not None
        stream = StringIO()
        debugger = TextDebugger(opened.session, stream, json=True)
        for command in ("break inner/parts.py:6", "break outer/parts.py:6", "run"):
            debugger.execute(command)
    finally:
        opened.close()
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert first["condition"] == "line inner/parts.py:6"
    assert "outer/parts.py:6" in second["error"]
    assert third["detail"] == "parts.py:6 in scaled"
