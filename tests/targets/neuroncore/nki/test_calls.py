# Where a kernel's text is at an instruction: calls, loops, names of tiles, and steps by them.
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest

from npuviz.base.errors import UsageError
from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.element_steps import LineStep
from npuviz.debug.loop_turns import loops_around, turn_condition
from npuviz.debug.unit_steps import line_condition
from npuviz.program.program import Program
from npuviz.program.source import HasCalls, HasSource
from npuviz.protocols.dap.places import Places
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.targets.neuroncore.ids import memory_of_space
from npuviz.targets.neuroncore.isa import Space
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.workbench.opening import OpenOptions, open_file
from tests.targets.neuroncore.nki.running import SECOND, loaded

HELPER = """
import nki.isa as nisa
import nki.language as nl

def double(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
    plus(tile)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0, engine=nisa.engine.vector)

def plus(tile):
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=nisa.engine.vector)
"""
KERNEL = (
    "from helper_of_calls import double\n"
    + SECOND
    + """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        for j, _ in enumerate("abc"):
            part = nl.ds(384 * i + 128 * j, 128)
            tile = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[part])
            double(tile)
            nisa.dma_copy(dst=out[part], src=tile)
    return out
"""
)


def _program(folder: Path) -> tuple[NeuronSpec, Program]:
    (folder / "helper_of_calls.py").write_text(HELPER)
    return loaded(folder, KERNEL, {}, **{"shape.a": "768x8"})


def _stacks(program: Program) -> Sequence[list[tuple[str, list[tuple[str, int, int, int]]]]]:
    listing = program.listing
    assert isinstance(listing, HasCalls)
    return [
        [
            (call.function, [(turn.variable, turn.value, turn.turn, turn.count) for turn in call.loops])
            for call in listing.calls_of(index)
        ]
        for index in range(len(listing))
    ]


def test_calls_and_loops_are_known_at_every_instruction(tmp_path) -> None:
    stacks = _stacks(_program(tmp_path)[1])
    for i in range(2):
        for j in range(3):
            loops = [("i", i, i + 1, 2), ("j", j, j + 1, 3)]
            assert [("plus", []), ("double", []), ("kernel", loops)] in stacks
            assert [("kernel", loops)] in stacks


def test_the_details_of_an_instruction_begin_with_them(tmp_path) -> None:
    _, program = _program(tmp_path)
    at = [len(stack) for stack in _stacks(program)].index(3)
    table = program.listing.details_of(at)[0]  # type: ignore[attr-defined]
    assert [row[0] for row in table.rows] == ["line", "called at", "called at", "loop j", "loop i"]
    assert table.rows[3][2] == "0, iteration 1 of 3"
    assert program.listing.describe(at).tile == -1


def test_tiles_have_the_names_of_their_variables(tmp_path) -> None:
    spec, program = _program(tmp_path)
    machine = NeuronMachine(spec, program)
    assert set(program.payload.tables.tile_names) == {"tile"}
    machine.advance(6000, NO_STOPS, None)
    regions = machine.regions(memory_of_space(0, Space.SBUF))
    assert {region.label for region in regions} == {"tile"}


def _lines(program: Program, unit: int, here: int, how: LineStep) -> set[tuple[str, int]]:
    """(function, line) of the instructions that a step could end at."""
    listing = program.listing
    assert isinstance(listing, HasCalls)
    found: set[tuple[str, int]] = set()
    for part in line_condition(listing, unit, here, how).split(" or "):
        low, high = map(int, part.removeprefix("instr ").split(".."))
        innermost = (listing.calls_of(n)[0] for n in range(low, high))
        found |= {(call.function, call.place.line) for call in innermost}
    return found


def test_steps_go_into_over_and_out_of_helpers(tmp_path) -> None:
    _, program = _program(tmp_path)
    stacks = _stacks(program)
    first = next(n for n, stack in enumerate(stacks) if stack and stack[0][0] == "double")
    inner = next(n for n, stack in enumerate(stacks) if stack and stack[0][0] == "plus")
    unit = program.listing.describe(first).unit
    everything = {("double", 6), ("plus", 11), ("double", 8)}
    assert _lines(program, unit, first, LineStep.INTO) == everything
    assert _lines(program, unit, first, LineStep.OVER) == {("double", 6), ("double", 8)}
    assert _lines(program, unit, inner, LineStep.OUT) == {("double", 6), ("double", 8)}


def test_any_iteration_can_be_gone_to(tmp_path) -> None:
    (tmp_path / "helper_of_calls.py").write_text(HELPER)
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    opened = open_file(path, OpenOptions(settings={"shape.a": "768x8"}))
    try:
        session = opened.session
        assert session is not None
        out = StringIO()
        debugger = TextDebugger(session, out)
        debugger.execute("break op kernel.py:15")
        debugger.execute("runto line helper_of_calls.py:11")
        before = session.cycle
        debugger.execute("frames Core[0].DVE")
        assert "plus" in out.getvalue()
        assert "i = 0 (1 of 2), j = 0 (1 of 3)" in out.getvalue()
        said = len(out.getvalue())
        debugger.execute("frames")
        lines = out.getvalue()[said:].splitlines()
        (vector,) = [line for line in lines if line.startswith("Core[0].DVE")]
        assert vector.split()[1:3] == ["plus", "helper_of_calls.py:11"]
        places = Places(session, tmp_path)
        unit = next(unit.id for unit in session.description.units if unit.name == "Core[0].DVE")
        frames = places.frames(1 + unit, 0, 0)["stackFrames"]
        assert [frame["line"] for frame in frames] == [11, 7, 15]
        assert frames[2]["name"] == "kernel, i = 0 (1 of 2), j = 0 (1 of 3)"
        assert frames[0]["source"]["name"] == "helper_of_calls.py"
        debugger.execute("turn i 2")
        listing = session.program.listing
        assert isinstance(listing, HasCalls)
        assert isinstance(listing, HasSource)
        assert session.cycle != before
        with pytest.raises(UsageError, match=r"no iteration 3 of a loop over i; loops: i \(1 to 2\), j"):
            turn_condition(listing, "i", 3)
    finally:
        opened.close()


def test_turns_of_an_inner_loop_keep_the_outer_one(tmp_path: Path) -> None:
    (tmp_path / "helper_of_calls.py").write_text(HELPER)
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    opened = open_file(path, OpenOptions(settings={"shape.a": "768x8"}))
    try:
        session = opened.session
        assert session is not None
        unit = next(unit.id for unit in session.description.units if unit.name == "Core[0].DVE")

        def asked(*lines: str) -> str:
            out = StringIO()
            debugger = TextDebugger(session, out)
            for line in lines:
                debugger.execute(line)
            return out.getvalue()

        def turns() -> list[int]:
            at = next(state.instruction for state in session.machine.unit_states() if state.unit == unit)
            return [loop.turn for loop in loops_around(session.program.listing, at)]

        session.run()
        asked("turn i 2 Core[0].DVE")
        assert turns() == [2, 1]
        for line, wanted in (("+2", [2, 3]), ("-1", [2, 2]), ("1", [2, 1]), ("3", [2, 3])):
            asked(f"turn j {line} Core[0].DVE")
            assert turns() == wanted, line
        asked("turn i -1 Core[0].DVE")
        assert turns() == [1, 1]
        asked("turn j +1 Core[0].DVE")
        assert turns() == [1, 2]
        assert "no iteration 4" in asked("turn j +2 Core[0].DVE")
        loops = asked("loops").splitlines()
        assert [line.split()[:3] for line in loops[1:]] == [
            ["i", "kernel.py:10", "2"],
            ["j", "kernel.py:11", "3"],
        ]
        assert "Core[0].DVE 2" in loops[2]
        session.run()
        assert "no unit is in a loop over j now" in asked("turn j +1")
    finally:
        opened.close()


def test_commands_step_a_unit_by_lines_both_ways(tmp_path: Path) -> None:
    (tmp_path / "helper_of_calls.py").write_text(HELPER)
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    opened = open_file(path, OpenOptions(settings={"shape.a": "768x8"}))
    try:
        session = opened.session
        assert session is not None

        def after(line: str) -> str:
            out = StringIO()
            TextDebugger(session, out).execute(f"{line} Core[0].DVE")
            found = [text for text in out.getvalue().splitlines() if text.startswith("detail: ")]
            return found[0].removeprefix("detail: helper_of_calls.py:") if found else out.getvalue()

        # The compiler does the first line of all iterations before the second one of any.
        steps = [*["over"] * 6, *["into"] * 5, *["over-"] * 6, *["into"] * 2, "out", "into-", "out-"]
        assert [after(step) for step in steps] == [
            *["6 in double"] * 5,
            *["8 in double"] * 6,
            *["8 in double"] * 5,
            "6 in double",
            *["11 in plus"] * 2,
            "8 in double",
            "11 in plus",
            "6 in double",
        ]
        assert session.breakpoints.all == ()
        made = session.breakpoints.add("line helper_of_calls.py:11")
        assert after("over") == "11 in plus"
        assert session.stop.kind is StopKind.BREAKPOINT
        assert [point.id for point in session.breakpoints.all] == [made.id]
    finally:
        opened.close()


WHILE = (
    SECOND
    + """
@nki.jit
def kernel(a):
    n = 2
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    LOOP
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
)
CALL = "nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)"


@pytest.mark.parametrize(
    ("loop", "values"),
    [
        ("i = 1\n    while i < 4:\n        {call}\n        i += 1", [1, 2, 3]),
        ("i = 8\n    while i > n:\n        {call}\n        i //= 2", [8, 4]),
        ("i = 0\n    while i < 3:\n        i += 1\n        {call}", [0, 1, 2]),
        ("i = 6\n    while i > 0 and n:\n        {call}\n        i -= 2\n        {call}", [6, 4, 2]),
        ("i = 0\n    while i < 3:\n        {call}\n        i += 1\n        i += 1", []),
        ("i = 8\n    while i > 3:\n        i //= 2\n        {call}", []),
        ("i = 0\n    while i < 3:\n        {call}\n        i += n", []),
    ],
)  # fmt: skip
def test_turns_of_while_are_told_apart_by_what_counts_them(tmp_path, loop: str, values: list[int]) -> None:
    kernel = WHILE.replace("LOOP", loop.format(call=CALL))
    program = loaded(tmp_path, kernel, {}, **{"shape.a": "128x8"})[1]
    found = {turn for stack in _stacks(program) for _, turns in stack for turn in turns}
    assert found == {("i", value, turn, len(values)) for turn, value in enumerate(values, 1)}
