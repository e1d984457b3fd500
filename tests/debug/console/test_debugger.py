import io
import json
from typing import Any, cast

import pytest

from npuviz.debug.console.commands import COMMANDS
from npuviz.debug.console.debugger import TextDebugger
from npuviz.debug.session import Session
from npuviz.sim.machine import Machine
from tests.toy.session import make_session


def ask(line: str, session: Session | None = None) -> str:
    out = io.StringIO()
    debugger = TextDebugger(session or make_session(), out)
    assert debugger.execute(line)
    return out.getvalue()


def ask_json(line: str, session: Session | None = None) -> dict[str, Any]:
    out = io.StringIO()
    TextDebugger(session or make_session(), out, json=True).execute(line)
    (only,) = out.getvalue().splitlines()
    return json.loads(only)


@pytest.fixture
def half_way() -> Session:
    session = make_session()
    session.go_to(180)
    return session


def test_moving() -> None:
    session = make_session()
    for line, cycle in (
        ("step", 1),
        ("step 9", 10),
        ("stepi", 11),
        ("t", 12),
        ("back 2", 10),
        ("reverse-stepi", 9),
        ("t-", 8),
        ("goto 100", 100),
        ("next Core[0].ALU", 102),
        ("run 150", 150),
        ("p- Core[0].ALU", 128),
        ("p-", 127),
        ("runback", 0),
        ("run", 767),
        ("restart", 0),
    ):
        answer = ask_json(line, session)
        assert (answer["cycle"], session.cycle) == (cycle, cycle), line


def test_hazards_semaphores_and_dependencies() -> None:
    session = make_session(hazard_above=300)
    session.run()
    hazards = ask_json("hazards", session)["hazards"]
    assert [h["instruction"] for h in hazards] == [98, 102, 110, 122]
    assert {h["unit"] for h in hazards} == {"Core[0].ALU"}
    session.go_to(20)
    found = ask_json("semaphores", session)["semaphores"]
    assert found[0] == {
        "semaphore": "Core[0].loaded", "value": 0, "waits": "Core[0].ALU", "needs": ">= 1",
        "instruction": 2, "updated_by": "Core[0].LD",
    }  # fmt: skip
    assert found[2]["waits"] is None
    answer = ask_json("deps #26", session)
    assert answer["instruction"] == 26
    assert {d["kind"] for d in answer["dependencies"]} == {"flow", "anti"}
    assert "expected one below 128" in ask("deps 128", session)
    assert ask_json("deps Core[0].LD", session)["instruction"] == 1
    assert "no unit 'Core[9].ALU'" in ask("deps Core[9].ALU", session)
    assert "Core[0].ALU runs nothing now" in ask("deps Core[0].ALU", session)


def test_a_machine_without_them_says_so() -> None:
    session = make_session()
    session.machine = cast(Any, NarrowMachine(session.machine))
    assert "does not look for hazards" in ask("hazards", session)
    assert "uses none" in ask("semaphores", session)


class NarrowMachine:
    """The contract of a machine and no more."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.description = machine.description
        self.program = machine.program


def test_breakpoints() -> None:
    session = make_session()
    assert ask_json('break op "final square"', session)["breakpoint"] == 1
    assert ask_json("b cycle >= 100", session)["breakpoint"] == 2
    assert "slow" in ask_json("b Core[0].LD.latency > 99", session)["note"]
    stop = ask_json("g", session)
    assert (stop["stop"], stop["cycle"], stop["breakpoints"]) == ("breakpoint", 100, [2])
    assert stop["condition"] == "cycle >= 100"
    assert ask_json("delete 3", session)["deleted"] == [3]
    assert ask_json("continue", session)["cycle"] == 527
    assert ask_json("reverse-continue", session)["cycle"] == 100
    rows = ask_json("info breakpoints", session)["breakpoints"]
    assert [(row["id"], row["hits"]) for row in rows] == [(1, 1), (2, 1)]
    assert "no breakpoint 9" in ask_json("delete 9", session)["error"]


def test_looking(half_way: Session) -> None:
    assert ask("print Core[0].LD.latency", half_way).splitlines()[:2] == [
        "probe: Core[0].LD.latency",
        "value: 6",
    ]
    assert len(ask_json("print Core[0].SPAD[1]", half_way)["value"]) == 48
    assert "(48 elements)" in ask("p Core[0].SPAD[1]", half_way)
    units = ask_json("units", half_way)["units"]
    assert [unit["unit"] for unit in units] == ["Core[0].LD", "Core[0].ALU", "Core[0].ST"]
    assert units[1]["instruction"] == 26
    queues = ask_json("queues", half_way)["queues"]
    assert queues[0] == {"queue": "Core[0].ALU", "entries": 1, "capacity": 2, "contents": "tile 7"}
    digest = ask_json("digest", half_way)
    assert digest == {"command": "digest", "cycle": 180, "digest": half_way.machine.digest()}
    info = ask_json("info", half_way)
    assert (info["program"], info["cycle"], info["recorded_to"]) == ("toy of 8 blocks", 180, 180)
    assert "none up to this cycle" in ask("hazards", half_way)
    probes = ask_json("print", half_way)["probes"]
    assert [row["probe"] for row in probes] == [probe.id for probe in half_way.machine.probes]


def test_memory(half_way: Session) -> None:
    lines = ask("mem DRAM 0x600 40", half_way).splitlines()
    assert lines[:4] == ["memory: DRAM", "address: 0x600", "bytes: 40", "dtype: float32"]
    assert lines[5].split()[0] == "0x600"
    assert lines[5].split()[-4:] == ["12", "-2", "0", "-4"]
    assert lines[7].startswith("0x620")
    (row,) = ask_json("x Core[0].SPAD 0 4 uint8", half_way)["rows"]
    assert row["address"] == "0x0"
    assert len(row["values"].split()) == 4
    for line, text in (
        ("mem DRAM 0 99999999", "at most 1048576"),
        ("mem DRAM 0xfffff 4", "outside the memory"),
        ("mem NOWHERE 0 4", "neither a memory (DRAM, Core[0].SPAD) nor a variable"),
        ("mem DRAM 0 4 float13", "unknown element type"),
        ("mem DRAM 0", "expected a number of bytes"),
        ("mem DRAM zero 4", "expected an address"),
    ):
        assert text in ask(line, half_way), line


def test_set(half_way: Session) -> None:
    assert ask_json("set Core[0].LD.latency 0x10", half_way)["value"] == 16
    assert half_way.read("Core[0].LD.latency") == 16
    for line, text in (
        ("set Core[0].LD.latency 1 2", "expected 1 numbers, found 2"),
        ("set Core[0].LD.latency fast", "expected an integer"),
        ("set Core[0].LD.latency 0", "expected 1..10000"),
        ("set Core[0].busy 1 2 3", "cannot be written"),
        ("set nothing 1", "no probe"),
    ):
        assert text in ask(line, half_way), line
    values = ",".join(str(k) for k in range(48))
    assert ask_json(f"set Core[0].SPAD[0] {values}", half_way)["value"][47] == 47


def test_who(half_way: Session) -> None:
    answer = ask_json("who DRAM 0x600", half_way)
    assert (answer["writer"], answer["unit"], answer["operator"]) == (3, "Core[0].ST", "scale")
    assert (answer["since"], answer["cycle"]) == (50, 58)
    loading = ask_json("who Core[0].SPAD 0", half_way)
    assert (loading["writer"], loading["cycle"]) == (32, None)
    assert "under way" in loading["note"]
    assert ask_json("who SPAD 0", half_way) == loading
    assert "no memory" in ask("who PAD 0", half_way)
    assert ask_json("who DRAM 0", half_way)["writer"] is None
    assert "below 0xe00" in ask("who DRAM 0xe00", half_way)
    half_way.go_to(187)
    old = ask_json("who Core[0].SPAD 0x180", half_way)
    assert old["writer"] == 24
    assert old["cycle"] is not None


def test_why(half_way: Session) -> None:
    chain = ask_json("why Core[0].ST 30", half_way)["chain"]
    assert [(row["unit"], row["state"]) for row in chain] == [
        ("Core[0].ST", "queue empty"),
        ("Core[0].ALU", "MUL"),
    ]
    assert (chain[1]["from"], chain[1]["to"]) == (23, 49)
    busy = ask_json("why Core[0].ALU", half_way)["chain"]
    assert [(row["state"], row["from"]) for row in busy] == [("MUL", 179)]
    assert "the trace ends at 180" in ask("why Core[0].ALU 5000", half_way)
    assert ask_json("why ALU", half_way) == ask_json("why Core[0].ALU", half_way)
    assert "no unit 'ALX'" in ask("why ALX", half_way)


def test_mistakes_are_one_line_and_do_not_end_the_session() -> None:
    session = make_session()
    for line in (
        "frobnicate",
        "brake cycle == 3",
        "break cycle ==",
        "step -1",
        "goto",
        "run x",
        "next",
        "who",
        "why",
    ):
        out = io.StringIO()
        debugger = TextDebugger(session, out)
        assert debugger.execute(line)
        assert out.getvalue().startswith("error: ")
        assert out.getvalue().count("\n") == 1
        assert len(debugger.errors) == 1
    assert "did you mean break?" in ask("brake cycle == 3", session)
    assert ask_json("frobnicate")["error"].startswith("unknown command 'frobnicate'")


def test_quit_ends_a_script() -> None:
    out = io.StringIO()
    session = make_session()
    debugger = TextDebugger(session, out)
    assert [debugger.execute(line) for line in ("# a comment", "", "step 3", "quit")] == [True] * 3 + [False]
    assert session.cycle == 3
    assert out.getvalue().splitlines() == ["stop: until", "cycle: 3", "time: 3 ns"]
    assert not TextDebugger(session, out).execute("q")


def test_every_command_is_listed_and_answers_json() -> None:
    listed = ask_json("help")["commands"]
    assert [row["command"] for row in listed] == [command.usage for command in COMMANDS]
    words = [word for command in COMMANDS for word in (command.name, *command.aliases)]
    assert len(words) == len(set(words))
    for command in COMMANDS:
        assert ask_json(command.name)["command"] == command.name


def test_numbers_json_cannot_hold(half_way: Session) -> None:
    half_way.write_memory(1, 0, b"\x00\x00\xc0\x7f\x00\x00\x80\x7f")
    value = ask_json("print Core[0].SPAD[0]", half_way)["value"]
    assert value[:2] == ["nan", "inf"]


def test_without_a_trace() -> None:
    session = make_session(records=False)
    session.run(180)
    assert ask_json("who Core[0].SPAD 0", session)["writer"] == 32
    assert ask_json("who DRAM 0x600", session)["writer"] is None
    assert [row["state"] for row in ask_json("why Core[0].ALU", session)["chain"]] == ["MUL"]
    assert "nothing is recorded" in ask("why Core[0].ALU 30", session)
