"""Clients that send nonsense: each request is answered once, nothing breaks, and the session stays usable."""

import io
import json
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest

from npuviz.protocols.dap.adapter import MOST_WAITING, Adapter
from npuviz.protocols.dap.places import FRAMES_PER_THREAD
from npuviz.protocols.dap.wire import Wire
from npuviz.protocols.mcp import wire as mcp_wire

SAMPLES = Path(__file__).parents[2] / "sample_models"
LAUNCH = {"program": str(SAMPLES / "nki" / "vector_add.py"), "shapes": {"a": "128x64", "b": "128x64"}}
ARGUMENTS = {
    "setBreakpoints": "source breakpoints",
    "setInstructionBreakpoints": "breakpoints",
    "setFunctionBreakpoints": "breakpoints",
    "setDataBreakpoints": "breakpoints",
    "setExceptionBreakpoints": "filters",
    "dataBreakpointInfo": "name frameId",
    "breakpointLocations": "source line endLine",
    "threads": "",
    "stackTrace": "threadId startFrame levels",
    "scopes": "frameId",
    "variables": "variablesReference filter start count",
    "setVariable": "variablesReference name value",
    "source": "source sourceReference",
    "loadedSources": "",
    "readMemory": "memoryReference offset count",
    "writeMemory": "memoryReference offset data allowPartial",
    "disassemble": "memoryReference offset instructionOffset instructionCount",
    "exceptionInfo": "threadId",
    "completions": "text column",
    "evaluate": "expression frameId context",
    "configurationDone": "",
    "continue": "threadId",
    "reverseContinue": "threadId",
    "next": "threadId granularity",
    "stepIn": "threadId granularity",
    "stepOut": "threadId",
    "stepBack": "threadId granularity",
    "pause": "threadId",
    "restart": "arguments",
    "launch": "program cwd target shapes settings seed inputs token",
    "attach": "",
    "initialize": "linesStartAt1",
    "cancel": "requestId",
    "nothing": "x",
}
OF_A_BREAKPOINT = (
    "line",
    "condition",
    "hitCondition",
    "logMessage",
    "instructionReference",
    "offset",
    "dataId",
    "accessType",
    "name",
)
TEXTS = (
    *(
        "",
        " ",
        "x",
        "\ud800",
        "\0",
        "é" * 300,
        "0x0",
        "-0x1",
        "0x" + "f" * 40,
        "HBM@0x0",
        "HBM@0xffffffffff 9",
        "HBM@",
    ),
    *(
        "QUJD",
        "cycle > 1",
        "cycle > 1 within",
        "HBM[0..8] changed",
        "(" * 3000,
        "run",
        "goto 99",
        "goto -1",
        "back 5",
    ),
    *(
        "break line kernel.py:3",
        "mem HBM 0 99999999999",
        "help",
        "why Core[0].DVE",
        "print a",
        "hover",
        "repl",
    ),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, -1, 7, 1 << 31, 1 << 61, 1 << 70, -(1 << 70), 1.5, 1e308, float("nan")),
    *([], [1], [None], [[]], [{}], ["x"], {}, {"x": []}, {"path": 3}, {"path": "/nowhere"}),
    *TEXTS,
)
NO_REQUESTS = (
    *(b"", b"nonsense", b"[]", b"3", b"null", b"[" * 100_000, b"\xff\xfe", b"{}", b'{"seq": NaN}'),
    *(b'{"seq": ' + b"9" * 5000 + b"}", b'{"seq": 1, "type": "request", "command": ["threads"]}'),
    *(b'{"seq": 1, "type": "event", "event": "x"}', b'{"type": "request", "command": "threads"}'),
)
LIKELY: dict[str, tuple[Any, ...]] = {
    "threadId": (1, 2, 3, 4, 5, 6, 99),
    "frameId": (-1, *(FRAMES_PER_THREAD * thread for thread in range(1, 7))),
    "variablesReference": (1, 2, 3, 4, 1000, 1001, 2000),
    "sourceReference": (1, 2, 3, 1000),
    "expression": (
        "info",
        "run",
        "goto 99",
        "back 5",
        "units",
        "HBM[0]",
        "mem HBM 0 64",
        "cycle",
        "x + y",
        "/0",
        "a",
    ),
    "context": ("repl", "hover", "watch", "clipboard"),
    "memoryReference": ("HBM@0x0", "HBM@0x10000", "0x1", "0x3", "Core[0].SBUF@0x0"),
    "offset": (0, 1, -1, 8, 1 << 40),
    "instructionOffset": (0, -5, 5, 1 << 50),
    "instructionCount": (0, 1, 50, 10_000, 10_001, 1 << 60),
    "count": (0, 1, 64, 1 << 20, (1 << 20) + 1, 1 << 50),
    "data": ("QUJD", "", "QUJ", "QUJD" * 1000),
    "line": (1, 3, 12, 20, 0, -1, 1 << 40),
    "endLine": (1, 3, 30, 0, 1 << 40),
    "levels": (0, 1, 20, -1, 1 << 50),
    "startFrame": (0, 1, 5, -1, 1 << 50),
    "source": ({"path": LAUNCH["program"]}, {"sourceReference": 1000}, {"name": "vector_add.py"}),
    "text": ("", "r", "go", "goto 5"),
    "column": (0, 1, 3, 1 << 50),
    "granularity": ("statement", "line", "instruction", "other"),
    "dataId": ("HBM@0x0 8", "HBM@0x0", "HBM@0xffffffffff 9", "HBM@0x0 999999999999"),
    "name": ("a", "b", "HBM@0x0", "kernel", "cycle"),
    "value": ("1", "nan", "-1e400", "0x7f", "1 2 3"),
    "accessType": ("read", "write", "readWrite"),
    "condition": ("cycle > 1", "", "cycle >", "1/0 > 2"),
    "hitCondition": ("2", ">= 2", "% 2", "0", "-1", "% 0", "9" * 5000),
    "logMessage": ("at {cycle}", "{", "{x", "{cycle"),
    "instructionReference": ("0x1", "0x3", "0xffff", "1"),
}
"""What a client that means it would say, and numbers beside that."""


def _conversation(messages: list[bytes]) -> list[dict[str, Any]]:
    """Everything that an adapter sends while it reads these bytes."""
    out = io.BytesIO()
    Adapter(Wire(io.BytesIO(b"".join(messages)), out)).serve()
    found: list[dict[str, Any]] = []
    reader = io.BytesIO(out.getvalue())
    while line := reader.readline():
        reader.readline()
        found.append(json.loads(reader.read(int(line.split(b":")[1]))))
    return found


def _framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def _request(number: int, command: str, arguments: object) -> bytes:
    request = {"seq": number, "type": "request", "command": command, "arguments": arguments}
    return _framed(json.dumps(request).encode())


def _drawn(command: str, draw: random.Random) -> object:
    """Arguments: mostly those that the request has, with any values."""
    if draw.random() < 0.05:
        return draw.choice(VALUES)
    value: Any = {name: _value(name, draw) for name in ARGUMENTS[command].split() if draw.random() < 0.9}
    if "breakpoints" in value and draw.random() < 0.8:
        value["breakpoints"] = [{name: _value(name, draw) for name in draw.sample(OF_A_BREAKPOINT, 4)}]
    return value


def _value(name: str, draw: random.Random) -> Any:
    return draw.choice(LIKELY[name] if name in LIKELY and draw.random() < 0.8 else VALUES)


@pytest.mark.parametrize("seed", range(3))
def test_a_debug_adapter_answers_every_request_once(seed: int) -> None:
    """What is no request gets a line on standard error and nothing else."""
    draw = random.Random(seed)
    commands = draw.choices([*ARGUMENTS], k=400)
    asked = [(command, _drawn(command, draw)) for command in commands]
    messages = [_request(1, "launch", LAUNCH)]
    for number, each in enumerate(asked, 2):
        messages += [_framed(draw.choice(NO_REQUESTS))] if number % 10 == 0 else []
        messages.append(_request(number, *each))
    last = len(asked) + 2
    messages += [_request(last, "pause", {}), _request(last + 1, "evaluate", {"expression": "info"})]
    found = _conversation(messages)
    responses = [each for each in found if each["type"] == "response"]
    assert Counter(each["request_seq"] for each in responses) == Counter(range(1, last + 2))
    failed = [(each["command"], each["message"]) for each in responses if not each["success"]]
    assert [each for each in failed if "internal error" in each[1]] == []
    assert all("\n" not in text and len(text) < 2000 for _, text in failed)
    said = [each["body"]["output"] for each in found if each.get("event") == "output"]
    assert sum("a message that is no" in text for text in said) == 40
    assert responses[-1]["success"]
    assert "vector_add" in responses[-1]["body"]["result"]


def test_a_client_that_does_not_wait_for_answers_waits_for_room() -> None:
    """Requests that nobody could answer yet are not read without end."""
    count = 10 * MOST_WAITING
    messages = io.BytesIO(b"".join(_request(number, "threads", {}) for number in range(count)))
    adapter = Adapter(Wire(messages, io.BytesIO()))
    reader = threading.Thread(target=adapter._receive, daemon=True)
    reader.start()
    reader.join(0.2)
    assert reader.is_alive()
    assert messages.tell() < 2 * len(messages.getvalue()) // 10
    assert [adapter._requests.get() is None for _ in range(count + 1)] == [False] * count + [True]
    reader.join()


def test_nothing_is_answered_behind_a_disconnect() -> None:
    messages = [_request(1, "launch", LAUNCH), _request(2, "continue", {}), _request(3, "disconnect", {})]
    found = _conversation([*messages, _request(4, "threads", {}), _framed(b"nonsense")])
    assert [each["request_seq"] for each in found if each["type"] == "response"] == [1, 2, 3]
    assert found[-1]["event"] == "terminated"


@pytest.mark.parametrize(
    "header", [b"", b"Content-Length: -1", b"Content-Length: 1e3", b"Content-Length: 99999999999", b"X: 1"]
)
def test_a_header_without_a_length_ends_the_session_with_a_line(header: bytes) -> None:
    found = _conversation([_request(1, "launch", LAUNCH), header + b"\r\n\r\n{}", _request(2, "threads", {})])
    assert [each["request_seq"] for each in found if each["type"] == "response"] == [1]
    assert "Content-Length up to" in next(e["body"]["output"] for e in found if e.get("event") == "output")


def _line(number: object, **more: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping", **more}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "number", "code"),
    [
        (b"nonsense\n", None, -32700),
        (b"\xff\xfe\n", None, -32700),
        (b"[" * 100_000 + b"\n", None, -32700),
        (b"{}\n", None, -32600),
        (b"[]\n", None, -32600),
        (b'{"jsonrpc": "2.0", "id": true}\n', None, -32600),
        (_line(7, params=3), 7, -32600),
        (_line("x", params={"name": "\ud800"}), "x", -32600),
        (b"x" * mcp_wire.MOST_BYTES + b"\n", None, -32600),
        (b"x" * 3 * mcp_wire.MOST_BYTES + b"\n", None, -32600),
    ],
)
def test_an_agent_is_told_what_is_no_message(line: bytes, number: object, code: int) -> None:
    """One line of answer with the number that it can be known by; the messages around it arrive."""
    out = io.BytesIO()
    wire = mcp_wire.Wire(io.BytesIO(_line(1) + line + b"\n" + _line(2)), out)
    assert [json.loads(each)["id"] for each in iter(wire.readline, "")] == [1, 2]
    answers = [json.loads(each) for each in out.getvalue().splitlines()]
    assert [(each["id"], each["error"]["code"]) for each in answers] == [(number, code)]
    assert len(answers[0]["error"]["message"]) < 300


def test_a_line_without_end_is_not_kept() -> None:
    class Endless(io.RawIOBase):
        most = 0
        left = 50

        def readline(self, size: int | None = -1) -> bytes:
            assert size is not None
            self.most, self.left = max(self.most, size if size >= 0 else 1 << 62), self.left - 1
            return b"x" * size if self.left > 0 else b""

    reader, out = Endless(), io.BytesIO()
    assert mcp_wire.Wire(cast(BinaryIO, reader), out).readline() == ""
    assert reader.most <= mcp_wire.MOST_BYTES
    assert b"at most" in out.getvalue()
