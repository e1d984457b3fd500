"""The MCP server, driven by the official client over standard input and output."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import anyio
import psutil
import pytest

from npuviz.base.errors import UsageError
from npuviz.protocols.mcp.answers import Answers
from npuviz.protocols.mcp.folders import Folders
from npuviz.protocols.mcp.tools import Policy, Tools
from tests.sweeps import quick

if TYPE_CHECKING:
    # Whoever only collects tests need not load it, which takes more than a second.
    from mcp import StdioServerParameters
    from mcp.client.client import Client

SAMPLES = Path(__file__).parents[2] / "sample_models"
KERNEL = SAMPLES / "nki" / "vector_add.py"
SHAPES = {"a": "128x64", "b": "128x64"}
LIMIT = 2048
Call = Callable[..., Awaitable[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a server, with links in it and a secret beside it."""
    inside = tmp_path / "inside"
    shutil.copytree(SAMPLES / "csl" / "row_sum", inside / "row_sum")
    shutil.copy(KERNEL, inside)
    shutil.copy(SAMPLES / "tiny_cnn.onnx", inside)
    (tmp_path / "secret.json").write_text('{"cores": 1, "secret": "c0ffee"}')
    (tmp_path / "secret.py").write_text(KERNEL.read_text())
    (inside / "link.json").symlink_to(tmp_path / "secret.json")
    (inside / "link.py").symlink_to(tmp_path / "secret.py")
    (inside / "links").mkdir()
    (inside / "links" / "all").symlink_to(tmp_path)
    (inside / "reader.py").write_text(
        KERNEL.read_text().replace(
            "rows, columns =", f"open({str(tmp_path / 'secret.json')!r})\n    rows, columns ="
        )
    )
    return inside


def parameters(folder: Path, *options: str) -> "StdioServerParameters":
    from mcp import StdioServerParameters

    words = ["-m", "npuviz.cli.main", "mcp", "--folder", str(folder), "--answer-bytes", str(LIMIT), *options]
    return StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))


def converse(folder: Path, work: "Callable[[Client, Call], Awaitable[None]]", *options: str) -> None:
    """Start a server, talk with it, and see it gone."""
    from mcp import stdio_client
    from mcp.client.client import Client

    async def main() -> None:
        async with Client(stdio_client(parameters(folder, *options))) as client:

            async def call(name: str, /, **arguments: Any) -> str:
                found = await client.call_tool(name, arguments)
                text = "\n".join(getattr(part, "text", "") for part in found.content)
                assert len(text.encode()) <= LIMIT
                return f"error: {text}" if found.is_error else text

            await work(client, call)

    anyio.run(main)


def test_an_agent_debugs_kernels_and_models(folder: Path):
    async def work(client: "Client", call: Call) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"open", "run", "goto", "step", "back", "why", "who", "explain", "hazards", "diff"} <= names
        assert {"query", "picture", "tensor", "command", "more"} <= names
        assert "session: s1" in await call("open", path="vector_add.py", shapes=SHAPES)
        assert "stop: finished" in await call("run")
        end = int((await call("command", line="info")).partition("\ncycle: ")[2].split("\n")[0])
        assert f"cycle: {end - 10}\n" in await call("back", cycles=10)
        assert "reached: line vector_add.py:21" in await call("back", condition="line vector_add.py:21")
        assert "stop: start\ncycle: 0" in await call("back")
        assert "breakpoint: 1" in await call("break_on", condition="line vector_add.py:20")
        assert "stop: breakpoint" in await call("run")
        assert "DVE" in await call("why", unit="Core[0].DVE")
        assert "of the critical path" in await call("explain")
        assert "cycle: 7\n" in await call("goto", cycle=7)
        assert "minimum" in await call("tensor", name="a")
        assert await call("tensor") != ""
        assert (await call("goto", cycle=1 << 40)).startswith("stop: finished")
        assert "writer: " in await call("who", place="total")

        rest = await call("query", sql="select * from slices order by start, track")
        text = ""
        while "[" in rest and "more(handle=" in rest:
            body, _, remark = rest.rpartition("\n[")
            text += body + "\n"
            offset = int(remark.partition("offset=")[2].partition(")")[0])
            rest = await call("more", handle=remark.partition("handle='")[2].partition("'")[0], offset=offset)
        text += rest
        count = await call("query", sql="select count(*) from slices")
        assert len(text.splitlines()) == 2 + int(count.splitlines()[-1])

        longer = {"a": "256x64", "b": "256x64"}
        assert "session: s2" in await call("open", path="vector_add.py", shapes=longer)
        assert "stop: finished" in await call("run")
        assert f"cycles_b: {end}" in await call("diff", other="s1")
        assert "closed: s1" in await call("close", session="s1")
        assert "s1" not in await call("sessions")

    converse(folder, work)


async def nonsense(call: Call) -> None:
    """What cannot be done is refused in one line, and the server goes on."""
    for name, arguments in (
        ("run", {}),
        ("open", {}),
        ("open", {"path": 3}),
        ("open", {"path": "tiny_cnn.onnx", "settings": {"batch": "many"}}),
        ("x" * 100_000, {}),
        ("run", {"until": "y" * 100_000}),
        ("more", {"handle": "h9"}),
        ("picture", {"size": "huge"}),
    ):
        assert (await call(name, **arguments)).startswith("error: ")
    assert "session: s2" in await call("open", path="tiny_cnn.onnx", settings={"batch": 1})
    for name, arguments in (
        ("run", {"condition": "no condition"}),
        ("run", {"seconds": -1}),
        ("goto", {"cycle": -1}),
        ("step", {"cycles": 0}),
        ("why", {"unit": "nobody"}),
        ("who", {"place": "nowhere"}),
        ("query", {"sql": "drop table"}),
        ("diff", {"other": "s7"}),
        ("tensor", {"name": "classifier.weight", "part": "5:1"}),
        ("command", {"line": "run\nrun"}),
        ("command", {"line": "nonsense"}),
        ("accuracy", {}),
    ):
        assert (await call(name, **arguments)).startswith("error: ")
    assert "stop: finished" in await call("run")


def test_nothing_outside_of_the_folders_is_touched_and_nonsense_is_refused(folder: Path):
    async def work(client: "Client", call: Call) -> None:
        secret = str(folder.parent / "secret.json")
        for path in (
            "../secret.py",
            str(folder.parent / "secret.py"),
            "link.py",
            "links",
            "links/all/secret.py",
        ):
            assert "outside of the" in await call("open", path=path, shapes=SHAPES)
        for path in ("missing.onnx", "\0", "a" * 5000, "~/x"):
            assert (await call("open", path=path)).startswith("error: ")
        for config in (secret, "link.json", "links/all/secret.json"):
            found = await call("open", path="tiny_cnn.onnx", config=config)
            assert "outside of the" in found
            assert "c0ffee" not in found
        assert "outside of the" in await call("open", path="tiny_cnn.onnx", inputs={"input": secret})
        assert "outside of the" in await call("open", path="reader.py", shapes=SHAPES)
        await call("open", path="vector_add.py", shapes=SHAPES)
        for sql in (
            f"select * from read_text('{secret}')",
            f"copy (select 1) to '{folder}/x.csv'",
            "install httpfs",
        ):
            assert (await call("query", sql=sql)).startswith("error: ")
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if not path.is_symlink()}
        assert "stop: finished" in await call("run")
        assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if not p.is_symlink()} == before
        assert "closed: s1" in await call("close")
        await nonsense(call)

    converse(folder, work)


def test_programs_run_only_where_that_is_allowed(folder: Path):
    tools = Tools(Policy(Folders([folder]), runs_programs=False), Answers(4096))
    for path in ("vector_add.py", "row_sum"):
        with pytest.raises(UsageError, match="--no-programs"):
            tools.open(path, {"shapes": SHAPES})
    assert "session: s1" in tools.open("tiny_cnn.onnx", {"settings": {"batch": 1}})


@quick("row_sum")
@pytest.mark.parametrize("root", ["", "row_sum"])
def test_a_folder_of_csl_runs_its_script(folder: Path, root: str):
    """Beside it lie other files of the server's folder, or what the server may not list."""

    async def work(client: "Client", call: Call) -> None:
        assert "target: wavelet" in await call("open", path=str(folder / "row_sum"))
        assert "stop: finished" in await call("run")

    converse(folder / root, work)


def test_a_client_that_goes_away_leaves_no_process(folder: Path):
    words = parameters(folder)
    server = subprocess.Popen(
        [words.command, *words.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert server.stdin is not None
    server.stdin.write(b'not json\n{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}\n[]\n')
    server.stdin.close()
    assert server.wait(60) == 0
    assert server.stdout is not None
    assert server.stderr is not None
    answers = [json.loads(line) for line in server.stdout]
    assert {"id": None, "error": {"code": -32700, "message": ANY}, "jsonrpc": "2.0"} in answers
    server.stdout.close()
    server.stderr.close()
    assert not [child for child in psutil.Process().children() if child.pid == server.pid]


def test_a_long_answer_is_cut_between_characters_and_lines():
    answers = Answers(512)
    text = "\n".join(f"{number}: \N{SNOWMAN}" * 7 for number in range(200))
    parts, offset = [answers.bounded(text)], 0
    while "more(handle=" in parts[-1]:
        assert len(parts[-1].encode()) <= 512
        offset = int(parts[-1].rpartition("offset=")[2].partition(")")[0])
        parts.append(answers.more("h1", offset))
    joined = "\n".join(part.rpartition("\n[")[0] if "more(handle=" in part else part for part in parts)
    assert joined == text
    assert answers.bounded("short") == "short"
    with pytest.raises(UsageError, match="h7"):
        answers.more("h7", 0)
    with pytest.raises(UsageError, match="offset"):
        answers.more("h1", 1 << 40)
    with pytest.raises(UsageError, match="answer-bytes"):
        Answers(3)


def test_running_ends_with_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tools = Tools(Policy(Folders([SAMPLES])), Answers(4096))
    tools.open("tiny_cnn.onnx", {"settings": {"batch": 1}})
    session = tools._session("")
    advance = session.session.machine.advance

    def slow(*arguments: Any) -> Any:
        time.sleep(0.02)
        return advance(*arguments)

    monkeypatch.setattr(session.session.machine, "advance", slow)
    assert "stop: interrupted" in tools.run("", None, "", 0.1)
    monkeypatch.undo()
    assert "stop: finished" in tools.run("", None, "", 60.0)
    assert signal.getsignal(signal.SIGINT) is not None
    tools.close_all()
