"""Starts the server: declares the tools with their schemas, bounds answers and errors, and cleans up at the
end."""

import functools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import anyio
from anyio import to_thread
from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.stdio import stdio_server
from pydantic import Field

from npuviz import __version__
from npuviz.base.errors import NpuvizError
from npuviz.base.names import echo
from npuviz.protocols.mcp.answers import Answers
from npuviz.protocols.mcp.folders import Folders, Guard, own_scratch
from npuviz.protocols.mcp.tools import Policy, Tools
from npuviz.protocols.mcp.wire import Wire, own_wire

INSTRUCTIONS = """npuviz simulates neural processing units cycle by cycle; any cycle can be gone to.
Call `open` with a model (.onnx, .neff, .rknn), an NKI kernel (.py), a folder of a CSL program or a trace
bundle; then `run`, `why`, `who`, `explain`, `hazards`. Long answers end with a handle: call `more`.
`command` takes any line of the text debugger (`help` lists them). Conditions: `cycle == 1200`,
`instr 10..20`, `op conv1`, `line kernel.py:42`, `write HBM 0x100..0x180`, `queue NAME >= 2`, or a probe
compared with a number."""
DEFAULT_SECONDS = 60.0
MOST_INLINE_BYTES = 1 << 20
"""Largest picture within an answer."""

Session = Annotated[str, Field(description="Name from `open`, such as s1; the newest if left out.")]
Seconds = Annotated[float, Field(description="Stop after so many seconds; call again to go on.")]
Condition = Annotated[str, Field(description="A condition, such as `op conv1` or `line kernel.py:42`.")]
Words = dict[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Folders that may be read, whether programs in them may be run, and bytes of the longest answer."""

    folders: tuple[Path, ...]
    runs_programs: bool = True
    answer_bytes: int = 4096


class BoundedServer(MCPServer[Any]):
    """A server whose error messages are short too: they do not repeat long arguments of a client in full."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """Call a tool. Raises ToolError with at most LONGEST_TEXT characters."""
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            text = str(error).removeprefix(f"Error executing tool {name}: ")
            raise ToolError(str(NpuvizError(text))) from error.__cause__

    async def converse(self, wire: Wire) -> None:
        """Serve the client of a connection until it disconnects."""
        ends = anyio.wrap_file(cast(TextIO, wire)), anyio.wrap_file(cast(TextIO, wire))
        async with stdio_server(*ends) as streams:
            await self._lowlevel_server.run(*streams, self._lowlevel_server.create_initialization_options())


def serve(options: ServerOptions) -> None:
    """Serve over standard input and output until the client closes them. Raises UsageError."""
    folders = Folders(options.folders)
    tools = Tools(Policy(folders, options.runs_programs), Answers(options.answer_bytes))
    with own_scratch() as scratch:
        guard = Guard(folders, Path(scratch))
        server = make_server(tools)
        wire = own_wire()
        guard.start()
        try:
            anyio.run(server.converse, wire)
        finally:
            guard.stop()
            tools.interrupt()
            if tools.lock.acquire(timeout=1.0):
                tools.close_all()
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        os._exit(0)  # a thread that cannot be interrupted is still running: do not wait for it


def make_server(tools: Tools) -> BoundedServer:
    """Make the server with all tools."""
    server = BoundedServer("npuviz", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")
    for add in (_add_sessions, _add_verbs, _add_questions, _add_pictures):
        add(server, tools)
    return server


def _tool(server: MCPServer[Any], tools: Tools) -> Callable[[Callable[..., str]], Callable[..., Any]]:
    """Return a decorator that makes a function that returns text a tool: in a thread, one call at a time,
    bounded, interruptible."""

    def decorate(function: Callable[..., str]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def call(**arguments: Any) -> str:
            return await _in_thread(tools, lambda: tools.answers.bounded(function(**arguments)))

        server.add_tool(call, structured_output=False)
        return call

    return decorate


async def _in_thread(tools: Tools, work: Callable[[], Any]) -> Any:
    """Do work in a thread beside the event loop, and interrupt it if the request is cancelled. Raises
    ToolError."""

    def locked() -> Any:
        with tools.lock:
            return work()

    try:
        return await to_thread.run_sync(locked, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        tools.interrupt()
        raise
    except NpuvizError as error:
        raise ToolError(str(error)) from error
    except (OSError, ValueError, KeyError) as error:
        raise ToolError(str(NpuvizError(f"{type(error).__name__}: {error}"))) from error
    except MemoryError as error:
        raise ToolError("out of memory; open a smaller model, or close a session") from error
    except Exception as error:
        text = f"internal error: {type(error).__name__}: {error}; this is a bug of npuviz"
        raise ToolError(str(NpuvizError(text))) from error


def _add_sessions(server: MCPServer[Any], tools: Tools) -> None:
    tool = _tool(server, tools)

    # The parameters of a tool are its schema, which clients see: they are not grouped to an object.
    @tool
    def open(
        path: Annotated[
            str, Field(description="File or folder, relative to the first folder of the server.")
        ],
        target: Annotated[str, Field(description="Machine; by default chosen by the file.")] = "",
        preset: Annotated[str, Field(description="Named configuration of the machine.")] = "",
        config: Annotated[str, Field(description="Hardware description file of the machine.")] = "",
        settings: Annotated[Words | None, Field(description="Keys of the machine or dimensions.")] = None,
        inputs: Annotated[dict[str, str] | None, Field(description="Input tensor -> .npy file.")] = None,
        kernel: Annotated[str, Field(description="Which kernel of an NKI file.")] = "",
        shapes: Annotated[
            dict[str, str] | None,
            Field(description='Parameter of a kernel -> shape: {"a": "128x512:bfloat16"}.'),
        ] = None,
        seed: Annotated[int, Field(description="Seed of inputs that are not given.", ge=0)] = 0,
    ) -> str:
        """Open a model, kernel, program or trace at cycle 0; a program's own Python is run for that."""
        chosen = {"target": target, "preset": preset, "config": config, "settings": settings}
        chosen |= {"inputs": inputs, "kernel": kernel, "shapes": shapes, "seed": seed}
        return tools.open(path, chosen)

    @tool
    def sessions() -> str:
        """List the open sessions."""
        return tools.sessions()

    @tool
    def close(session: Session = "") -> str:
        """Close a session."""
        return tools.close(session)

    @tool
    def more(handle: str, offset: int = 0) -> str:
        """Read on in an answer that was too long."""
        return tools.answers.more(handle, offset)

    _ = (open, sessions, close, more)


def _add_verbs(server: MCPServer[Any], tools: Tools) -> None:
    tool = _tool(server, tools)

    @tool
    def run(
        until: Annotated[int | None, Field(description="Stop at this cycle.", ge=0)] = None,
        condition: Condition = "",
        seconds: Seconds = DEFAULT_SECONDS,
        session: Session = "",
    ) -> str:
        """Run to a breakpoint, a condition, a cycle, a fault or the end, and say why it stopped."""
        return tools.run(session, until, condition, seconds)

    @tool
    def step(
        cycles: Annotated[int, Field(ge=1)] = 1,
        unit: Annotated[str, Field(description="Go to the next instruction of this unit instead.")] = "",
        seconds: Seconds = DEFAULT_SECONDS,
        session: Session = "",
    ) -> str:
        """Run some cycles, or to the next instruction of a unit."""
        return tools.step(session, cycles, unit, seconds)

    @tool
    def back(
        cycles: Annotated[int | None, Field(description="So many cycles.", ge=1)] = None,
        condition: Condition = "",
        unit: Annotated[str, Field(description="To the previous instruction of this unit.")] = "",
        session: Session = "",
    ) -> str:
        """Go back: by cycles, to where a condition last held, or (without any) to the last breakpoint."""
        return tools.back(session, cycles, condition, unit)

    @tool
    def goto(
        cycle: Annotated[int, Field(ge=0)], seconds: Seconds = DEFAULT_SECONDS, session: Session = ""
    ) -> str:
        """Be at a cycle, before or after the present one; breakpoints are passed."""
        return tools.goto(session, cycle, seconds)

    @tool
    def break_on(condition: str, session: Session = "") -> str:
        """Set a breakpoint for `run` and `back`."""
        return tools.command(session, f"break {condition}")

    _ = (run, step, back, goto, break_on)


def _add_questions(server: MCPServer[Any], tools: Tools) -> None:
    tool = _tool(server, tools)

    @tool
    def why(unit: str, cycle: int | None = None, until: int | None = None, session: Session = "") -> str:
        """Why a unit is idle or waits in a cycle (now): the chain of what waits for what, with cycles lost.

        With `until`: what it lost the cycles from `cycle` to there to.
        """
        return tools.why(session, unit, cycle, until)

    @tool
    def who(
        place: Annotated[str, Field(description="`HBM 0x1000`, or the name of a tensor.")],
        session: Session = "",
    ) -> str:
        """Which instruction wrote a byte last, before now."""
        return tools.who(session, place)

    @tool
    def explain(session: Session = "") -> str:
        """What the critical path up to now consists of: cycles by cause, and its costliest parts."""
        return tools.explain(session)

    @tool
    def accuracy(session: Session = "") -> str:
        """After the whole run: how far each tensor is from the reference, and the first wrong instruction."""
        return tools.accuracy(session)

    @tool
    def hazards(session: Session = "") -> str:
        """What went wrong up to now: reads of bytes never written, races, overflows and the like."""
        return tools.hazards(session)

    @tool
    def diff(other: str, session: Session = "") -> str:
        """Where two sessions (B is `other`) first differ, and the units that work longer or shorter in B."""
        return tools.diff(session, other)

    @tool
    def query(sql: str, session: Session = "") -> str:
        """SQL (DuckDB) over what is recorded: slices(start, end, cycles, track, kind, role, node), samples,
        residence, flows, unit_times(name, cycles, busy, waiting, idle, share), nodes, tensors."""
        return tools.query(session, sql)

    @tool
    def tensor(
        name: Annotated[str, Field(description="Name of a tensor; left out: a table of all.")] = "",
        part: Annotated[str, Field(description="Elements a:b of the flattened tensor.")] = "0:32",
        session: Session = "",
    ) -> str:
        """Values of a tensor now, with minimum, maximum, mean and the number of NaN."""
        return tools.tensor(session, name, part)

    @tool
    def command(line: str, session: Session = "") -> str:
        """A line of the text debugger: units, queues, semaphores, deps N, mem, frames, list; see `help`."""
        return tools.command(session, line)

    _ = (why, who, explain, accuracy, hazards, diff, query, tensor, command)


def _add_pictures(server: MCPServer[Any], tools: Tools) -> None:
    async def picture(
        panels: Annotated[list[str] | None, Field(description="For example timeline; default: all.")] = None,
        size: Annotated[str, Field(description="WIDTHxHEIGHT in pixels.")] = "1280x800",
        inline: Annotated[bool, Field(description="Put the image itself into this (long) answer.")] = False,
        session: Session = "",
    ) -> list[Any]:
        """A picture of the window at the present cycle, as a resource npuviz://picture/NAME (PNG)."""
        name, found = await _in_thread(tools, lambda: tools.picture(session, tuple(panels or ()), size))
        text = f"picture: {name}\nbytes: {len(found.data)}\nresource: npuviz://picture/{name}"
        if not inline:
            return [text]
        if len(found.data) > MOST_INLINE_BYTES:
            raise ToolError(f"{len(found.data)} bytes are too many for an answer; ask for a smaller size")
        return [text, Image(data=found.data, format="png")]

    server.add_tool(picture, structured_output=False)

    @server.resource("npuviz://picture/{name}", mime_type="image/png")
    def kept(name: str) -> bytes:
        """A picture that the tool `picture` made."""
        try:
            return tools.kept_picture(name).data
        except NpuvizError as error:
            raise ResourceNotFoundError(echo(str(error))) from error

    _ = kept
