"""The debug adapter, driven by the dap package: a kernel, a CSL program and the listing of a model."""

import base64
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuviz.protocols.dap.adapter import Adapter
from npuviz.protocols.dap.wire import Wire
from npuviz.sim.machine import Hazard
from tests.protocols.dap_client import Conversation, launched, start

SAMPLES = Path(__file__).parents[2] / "sample_models"
KERNEL = SAMPLES / "nki" / "vector_add.py"
SHAPES = {"a": "256x64", "b": "256x64"}


class Inside:
    """An adapter in a thread of this process."""

    def __init__(self, token: str = "") -> None:
        ours, theirs = socket.socketpair()
        self._sockets = ours, theirs
        self._files = [each.makefile(mode) for each in (ours, theirs) for mode in ("rb", "wb")]
        reader, writer, *others = self._files
        self.adapter = Adapter(Wire(*others), token)
        self.thread = threading.Thread(target=self.adapter.serve, daemon=True)
        self.thread.start()
        self.client = Conversation(reader, writer)

    def launch(self, **arguments: Any) -> Conversation:
        answer = self.client.ask("launch", **arguments)
        assert isinstance(answer, dict), answer
        self.client.wait("initialized")
        return self.client

    @property
    def session(self) -> Any:
        assert self.adapter._debuggee is not None
        return self.adapter._debuggee.session

    def close(self) -> None:
        # The adapter's thread may still be reading: closing what it reads from would wait for it.
        self._sockets[0].shutdown(socket.SHUT_RDWR)
        for thread in threading.enumerate():
            if thread.name == "dap reader":
                thread.join(60)
        for each in (*self._files, *self._sockets):
            each.close()


@pytest.fixture
def inside() -> Generator[Inside]:
    made = Inside()
    yield made
    made.client.send("disconnect")
    made.thread.join(60)
    made.close()
    assert not made.thread.is_alive()


@pytest.fixture
def process() -> Generator[Callable[..., "subprocess.Popen[bytes]"]]:
    made: list[subprocess.Popen[bytes]] = []

    def begin(*options: str) -> "subprocess.Popen[bytes]":
        made.append(start(*options))
        return made[-1]

    yield begin
    for each in made:
        each.kill()
        each.communicate()


def test_a_kernel_is_debugged_on_its_lines(process: Callable[..., "subprocess.Popen[bytes]"], tmp_path: Path):
    file = tmp_path / "kernel.py"
    file.write_text("print('hello from the kernel')\n" + KERNEL.read_text())
    adapter = process()
    client = launched(adapter, program=str(file), shapes=SHAPES)
    assert client.initialized["supportsStepBack"]
    source = {"path": str(file)}
    lines = [{"line": 20}, {"line": 500}, {"line": 19, "condition": "nothing > 3"}]
    first, behind, wrong = client.ask("setBreakpoints", source=source, breakpoints=lines)["breakpoints"]
    assert (first["verified"], first["line"]) == (True, 20)
    assert "500" in behind["message"]
    assert "nothing" in wrong["message"]
    assert client.stop("configurationDone")["reason"] == "entry"
    stop = client.stop("continue", threadId=1)
    assert stop["reason"] == "breakpoint"
    thread = stop["threadId"]
    assert client.place(thread) == ("kernel.py", 20)
    cycle = stop["text"]
    assert client.stop("stepBack", threadId=thread)["reason"] == "step"
    assert client.place(thread) == ("kernel.py", 19)
    assert client.stop("next", threadId=thread)["text"] == cycle
    assert client.stop("reverseContinue", threadId=thread)["reason"] == "entry"
    assert client.stop("continue", threadId=thread)["text"] == cycle

    frame = client.ask("stackTrace", threadId=thread)["stackFrames"][0]
    scopes = {scope["name"]: scope for scope in client.ask("scopes", frameId=frame["id"])["scopes"]}
    assert {"Instruction", "Units", "Queues", "Tensors", "Memories", "Probes"} <= set(scopes)
    tensors = client.ask("variables", variablesReference=scopes["Tensors"]["variablesReference"])["variables"]
    by_name = {row["name"]: row for row in tensors}
    elements = client.ask(
        "variables",
        variablesReference=by_name["a"]["variablesReference"],
        filter="indexed",
        start=10,
        count=3,
    )["variables"]
    data = client.ask("readMemory", memoryReference=by_name["a"]["memoryReference"], offset=40, count=12)[
        "data"
    ]
    values = np.frombuffer(base64.b64decode(data), np.float32)
    assert [row["name"] for row in elements] == ["[10]", "[11]", "[12]"]
    np.testing.assert_allclose([float(row["value"]) for row in elements], values, rtol=1e-5)
    rows = client.ask("disassemble", memoryReference=frame["instructionPointerReference"], instructionCount=2)
    assert rows["instructions"][0]["line"] == 20

    written = client.ask("dataBreakpointInfo", name="total")["dataId"]
    client.ask("setBreakpoints", source=source, breakpoints=[])
    client.ask("setDataBreakpoints", breakpoints=[{"dataId": written, "accessType": "write"}])
    assert client.stop("continue", threadId=thread)["reason"] == "data breakpoint"
    client.ask("setDataBreakpoints", breakpoints=[])
    assert "ended" in client.stop("continue", threadId=thread)["description"]
    client.ask("continue", threadId=thread)
    client.wait("terminated")
    client.ask("disconnect")
    assert adapter.wait(60) == 0
    assert adapter.stderr is not None
    assert b"hello from the kernel" in adapter.stderr.read()


def test_a_csl_program_is_debugged_by_element(inside: Inside):
    folder = SAMPLES / "csl" / "row_sum"
    client = inside.launch(program=str(folder))
    source = {"path": str(folder / "pe.csl")}
    found = client.ask("setBreakpoints", source=source, breakpoints=[{"line": 34}])["breakpoints"][0]
    assert found["line"] == 36
    client.stop("configurationDone")
    names = {each["name"]: each["id"] for each in client.ask("threads")["threads"]}
    assert "PE(0,0)" in names
    stop = client.stop("continue", threadId=names["PE(0,0)"])
    thread = stop["threadId"]
    frames = client.ask("stackTrace", threadId=thread)["stackFrames"]
    assert [(frame["name"], frame["line"]) for frame in frames] == [("pass_on", 36), ("take_partial", 45)]
    assert frames[0]["source"]["path"] == str(folder / "pe.csl")
    scopes = client.ask("scopes", frameId=frames[0]["id"])["scopes"]
    assert [scope["name"] for scope in scopes][:2] == ["Locals", "Globals"]
    variables = client.ask("variables", variablesReference=scopes[0]["variablesReference"])["variables"]
    assert [row["name"] for row in variables] == ["sum_so_far"]
    value = client.ask("evaluate", expression="sum_so_far", context="hover", frameId=frames[0]["id"])
    assert value["result"] == variables[0]["value"]
    cycle = stop["text"]
    assert client.stop("next", threadId=thread)["reason"] == "step"
    assert client.place(thread) == ("pe.csl", 37)
    assert client.stop("stepBack", threadId=thread)["text"] == cycle
    assert client.place(thread) == ("pe.csl", 36)
    client.stop("next", threadId=thread)
    client.stop("stepIn", threadId=thread)
    assert client.place(thread) == ("pe.csl", 45)
    assert client.ask("setBreakpoints", source=source, breakpoints=[]) == {"breakpoints": []}
    named = client.ask("setFunctionBreakpoints", breakpoints=[{"name": "take_total"}, {"name": "nobody"}])
    assert [each["verified"] for each in named["breakpoints"]] == [True, False]
    assert client.stop("continue", threadId=thread)["reason"] == "function breakpoint"


def test_a_model_is_debugged_on_its_listing(inside: Inside):
    client = inside.launch(program=str(SAMPLES / "tiny_cnn.onnx"), settings={"batch": 1}, target="systolic")
    client.stop("configurationDone")
    thread = client.ask("threads")["threads"][0]["id"]
    (page,) = client.ask("loadedSources")["sources"]
    reference = page["sourceReference"]
    text = client.ask("source", sourceReference=reference)["content"].splitlines()
    assert text[20].startswith("#20 ")
    found = client.ask(
        "setBreakpoints",
        source={"sourceReference": reference},
        breakpoints=[{"line": 21}, {"line": 31, "condition": "DRAM.latency > 1000000"}, {"line": 9999}],
    )["breakpoints"]
    assert [each["verified"] for each in found] == [True, True, False]
    stop = client.stop("continue", threadId=thread)
    assert stop["reason"] == "breakpoint"
    assert stop["text"] == f"cycle {inside.session.cycle}"
    client.ask(
        "setBreakpoints",
        source={"sourceReference": reference},
        breakpoints=[{"line": 31, "logMessage": "31"}],
    )
    found = client.ask("setInstructionBreakpoints", breakpoints=[{"instructionReference": "0x28"}])
    assert found["breakpoints"][0]["verified"]
    assert client.stop("restart")["text"] == "cycle 0"
    assert client.stop("continue", threadId=thread)["reason"] == "instruction breakpoint"
    assert any("31" in body["output"] for event, body in client.events if event == "output")
    before = inside.session.cycle
    assert client.stop("next", threadId=thread, granularity="instruction")["reason"] in ("step", "pause")
    assert client.stop("evaluate", expression=f"goto {before}", context="repl")["text"] == f"cycle {before}"
    assert "Core[0].EX" in client.ask("evaluate", expression="units", context="repl")["result"]
    memory = "DRAM@0x0"
    client.ask("writeMemory", memoryReference=memory, data=base64.b64encode(b"\1\2\3\4").decode())
    data = client.ask("readMemory", memoryReference=memory, count=4)["data"]
    assert base64.b64decode(data) == b"\1\2\3\4"
    probe = next(probe.id for probe in inside.session.machine.probes if probe.writable and not probe.shape)
    stacks = [client.ask("stackTrace", threadId=each["id"]) for each in client.ask("threads")["threads"]]
    frame = next(stack["stackFrames"][0] for stack in stacks if stack["stackFrames"])
    scopes = client.ask("scopes", frameId=frame["id"])
    reference = scopes["scopes"][-1]["variablesReference"]
    assert client.ask("setVariable", variablesReference=reference, name=probe, value="3") == {"value": "3"}
    assert inside.session.read(probe) == 3
    for name, arguments in (
        ("readMemory", {"memoryReference": memory, "count": 1 << 40}),
        ("readMemory", {"memoryReference": "nowhere@0x0", "count": 4}),
        ("readMemory", {"memoryReference": memory, "count": "four"}),
        ("writeMemory", {"memoryReference": memory, "data": "!"}),
        ("disassemble", {"memoryReference": "0x0", "instructionCount": 1 << 40}),
        ("variables", {"variablesReference": 10**6}),
        ("scopes", {"frameId": -5}),
        ("stackTrace", {"threadId": 10**9}),
        ("next", {"threadId": "x"}),
        ("evaluate", {"expression": "nonsense", "context": "watch"}),
        ("setBreakpoints", {"source": 3}),
        ("setBreakpoints", {"source": {}, "breakpoints": 3}),
        ("source", {"sourceReference": 77}),
        ("exceptionInfo", {"threadId": thread}),
        ("launch", {"program": "again"}),
        ("attach", {}),
        ("nonsense", {}),
    ):
        answer = client.ask(name, **arguments)
        assert isinstance(answer, str), (name, answer)
        assert "\n" not in answer
        assert "internal error" not in answer


def test_a_running_machine_answers_and_can_be_paused(inside: Inside, monkeypatch: pytest.MonkeyPatch):
    client = inside.launch(program=str(SAMPLES / "tiny_cnn.onnx"), settings={"batch": 1})
    client.stop("configurationDone")
    thread = client.ask("threads")["threads"][0]["id"]
    machine = inside.session.machine
    advance = machine.advance

    def slow(until: int, *others: Any) -> Any:
        time.sleep(0.01)
        return advance(min(until, machine.cycle + 1), *others)

    monkeypatch.setattr(machine, "advance", slow)
    client.ask("continue", threadId=thread)
    assert client.ask("threads")["threads"]
    assert "running" in client.ask("next", threadId=thread)
    assert client.stop("pause", threadId=thread)["reason"] == "pause"
    paused = inside.session.cycle
    assert 0 < paused < 5000
    client.ask("continue", threadId=thread)
    client.send("disconnect")
    inside.thread.join(60)
    assert not inside.thread.is_alive()
    assert paused <= inside.session.cycle < 5000


def test_hazards_stop_where_that_is_asked_for(inside: Inside, monkeypatch: pytest.MonkeyPatch):
    client = inside.launch(program=str(KERNEL), shapes=SHAPES)
    client.ask("setExceptionBreakpoints", filters=["hazards"])
    client.stop("configurationDone")
    found = Hazard(1234, "Core[0].DVE", 6, "made-up", "a hazard of this test")
    monkeypatch.setattr(type(inside.session.machine), "hazards", lambda _self: [found])
    stop = client.stop("continue", threadId=1)
    assert (stop["reason"], stop["text"]) == ("exception", "cycle 1234")
    info = client.ask("exceptionInfo", threadId=stop["threadId"])
    assert (info["exceptionId"], info["description"]) == ("made-up", "a hazard of this test")
    names = {each["id"]: each["name"] for each in client.ask("threads")["threads"]}
    assert names[stop["threadId"]] == "Core[0].DVE"


def test_nonsense_and_disconnects_leave_no_process(process: Callable[..., "subprocess.Popen[bytes]"]):
    adapter = process()
    body = b'{"seq": 1, "type": "request", "command": "threads"}'
    messages = [
        b"nonsense",
        b"[]",
        b'{"type": "request"}',
        b'{"seq": 1, "type": "request", "command": 3}',
        body,
    ]
    sent = b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(each), each) for each in messages)
    out, _ = adapter.communicate(sent + b"Content-Length: 9999999999\r\n\r\nx", timeout=60)
    assert adapter.returncode == 0
    assert b"nothing is launched yet" in out
    assert b"Content-Length up to" in out


def test_a_port_serves_only_who_has_the_token(process: Callable[..., "subprocess.Popen[bytes]"]):
    adapter = process("--port", "0")
    assert adapter.stderr is not None
    address, _, token = adapter.stderr.readline().decode().removeprefix("npuviz dap: ").partition(" token ")
    host, _, port = address.partition(":")
    assert host == "127.0.0.1"

    @contextmanager
    def connected() -> Generator[tuple[socket.socket, Conversation]]:
        made = socket.create_connection((host, int(port)), timeout=60)
        with made, made.makefile("rb") as reader, made.makefile("wb") as writer:
            yield made, Conversation(reader, writer)

    for wrong in ({}, {"token": "guess"}):
        with connected() as (stranger, client):
            assert "token" in client.ask("launch", program=str(KERNEL), **wrong)
            assert stranger.recv(1) == b""
    with connected() as (friend, client):
        arguments = {"program": str(KERNEL), "shapes": SHAPES, "token": token.strip()}
        assert isinstance(client.ask("launch", **arguments), dict)
        friend.shutdown(socket.SHUT_RDWR)
    assert adapter.wait(60) == 0


def test_a_port_that_is_taken_is_one_line(process: Callable[..., "subprocess.Popen[bytes]"]):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        adapter = process("--port", str(taken.getsockname()[1]))
        _, errors = adapter.communicate(timeout=60)
    assert adapter.returncode == 2
    assert len(errors.splitlines()) == 1
