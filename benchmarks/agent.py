"""Counts the MCP calls with which an agent with a fixed plan finds each of ten seeded bugs."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import onnx
from mcp import StdioServerParameters, stdio_client
from mcp.client.client import Client
from onnx import helper, numpy_helper

from benchmarks.row import Row
from tests.seeded.neuroncore import HALF, NEVER_BEGUN
from tests.seeded.wavelet import PASS_ON
from tests.targets.wavelet.small import EASTWARD, HEAD, LAYOUT, START, line_with

MOST_CALLS = 12
_RUN = """
import argparse
from cerebras.sdk.runtime.sdkruntimepybind import SdkRuntime

parser = argparse.ArgumentParser()
parser.add_argument("--name")
runner = SdkRuntime(parser.parse_args().name)
runner.load()
runner.run()
runner.launch("start", nonblock=False)
runner.stop()
"""
_COMMANDS = """#!/usr/bin/env bash
set -e
cslc --arch=wse3 ./layout.csl --fabric-dims=9,3 --fabric-offsets=4,1 -o out --memcpy --channels 1
cs_python run.py --name out
"""


@dataclass(frozen=True)
class Bug:
    """A broken program.

    write  writes the program into a folder, and returns the arguments of the tool `open`
    told   words that name the fault and its place: the bug counts as found when the answers contain all of
    them
    """

    name: str
    write: Callable[[Path], Mapping[str, Any]]
    told: tuple[str, ...]


def bugs() -> Iterator[Bug]:
    """Yield ten bugs on four machines."""
    yield Bug("NKI: half of an output", _kernel(HALF), ("incomplete", "out"))
    yield Bug("NKI: a sum that nobody began", _kernel(NEVER_BEGUN), ("unwritten", "kernel.py:13"))
    one = np.ones(4, np.float32)
    yield _model("a NaN", "neuroncore", "Log", (-one,), ("nan", "culprit"))
    yield _model("an infinity in fp16", "rk3588", "Mul", (300 * one, 300 * one), ("infinity", "culprit"))
    large = np.full(4, 1 << 30, np.int32)
    yield _model("integers that wrap", "systolic", "Mul", (large, large), ("overflow", "culprit"))
    send = "    @fmovs(out, all, .{ .async = true, .activate = done });"
    yield _csl("a send left out", send, "    @activate(done);", ("deadlock", "@fmovs(all, in)"))
    receive = "fabin_dsd, .{ .extent = "
    yield _csl("a receiver that takes fewer words", f"{receive}64", f"{receive}40", ("words-left", ""))
    yield _csl("an activation too many", "    @activate(done);", "    @activate(done); @activate(done);",
               ("activation-absorbed", "@activate(done); @activate(done);"))  # fmt: skip
    yield _csl("a task that stays blocked", "  @bind_local_task(end, done);",
               "  @bind_local_task(end, done); @block(done);", ("task-blocked", ""))  # fmt: skip
    yield _csl("operands of two lengths", "    @fadds(all, all, all);",
               "    const part = @set_dsd_length(all, 3);\n    @fadds(all, all, part);",
               ("operand-lengths", "@fadds(all, all, part)"))  # fmt: skip


def _kernel(text: str) -> Callable[[Path], Mapping[str, Any]]:
    def write(folder: Path) -> Mapping[str, Any]:
        (folder / "kernel.py").write_text(text)
        return {"path": str(folder / "kernel.py"), "shapes": {"a": "128x64"}}

    return write


def _model(
    name: str, target: str, op_type: str, operands: tuple[np.ndarray, ...], told: tuple[str, ...]
) -> Bug:
    """Make a model whose operator `culprit` is wrong, between two operators that are right."""

    def write(folder: Path) -> Mapping[str, Any]:
        kind = helper.np_dtype_to_tensor_dtype(operands[0].dtype)
        first = helper.make_tensor_value_info("x", kind, operands[0].shape)
        last = helper.make_tensor_value_info("y", kind, operands[0].shape)
        names = [f"c{number}" for number in range(len(operands))]
        nodes = [
            helper.make_node("Add", ["x", "c0"], ["sum"], "before"),
            helper.make_node(op_type, ["sum", *names[1:]], ["wrong"], "culprit"),
            helper.make_node("Add", ["wrong", "x"], ["y"], "behind"),
        ]
        constants = [numpy_helper.from_array(*pair) for pair in zip(operands, names, strict=True)]
        graph = helper.make_graph(nodes, "g", [first], [last], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.save(model, folder / "model.onnx")
        np.save(folder / "x.npy", np.zeros_like(operands[0]))
        return {"path": str(folder / "model.onnx"), "target": target, "inputs": {"x": str(folder / "x.npy")}}

    return Bug(f"{target}: {name}", write, told)


def _csl(name: str, old: str, new: str, told: tuple[str, str]) -> Bug:
    """Make a CSL program with `old` replaced by `new`.

    told  a word, and text in the line of pe.csl that the answers must name, or ""
    """
    text = PASS_ON.replace(old, new)
    line = (f"pe.csl:{line_with(text, told[1])}",) if told[1] else ()

    def write(folder: Path) -> Mapping[str, Any]:
        files = {
            "layout.csl": LAYOUT % {"width": 2, "routes": EASTWARD},
            "pe.csl": HEAD + text + START,
            "run.py": _RUN,
            "commands_wse3.sh": _COMMANDS,
        }
        for file, content in files.items():
            (folder / file).write_text(content)
        return {"path": str(folder)}

    return Bug(f"wavelet: {name}", write, (told[0], *line))


async def hunt(call: Callable[..., Any], bug: Bug, folder: Path) -> tuple[int, str]:
    """Run the plan of the agent, the same for every bug. Returns the calls until it has read what is wrong,
    and all answers; MOST_CALLS + 1 calls if it has not."""
    arguments = bug.write(folder)
    read = ""
    plan: list[tuple[str, dict[str, Any]]] = [
        ("open", dict(arguments)), ("run", {}), ("hazards", {}), ("command", {"line": "units"}),
    ]  # fmt: skip
    for number in range(1, MOST_CALLS + 1):
        if not plan:
            return MOST_CALLS + 1, read
        name, given = plan.pop(0)
        answer = await call(name, given)
        read += f"--- {name}\n{answer}\n"
        if all(word in read for word in bug.told):
            return number, read
        if given == {"line": "units"}:
            lines = [line.split() for line in answer.splitlines()]
            plan += [("why", {"unit": words[0]}) for words in lines if {"waiting", "stalled"} & {*words}]
    return MOST_CALLS + 1, read


def run() -> list[Row]:
    """Count the calls for each bug; takes a minute."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        anyio.run(_hunt_all, Path(name), rows)
    return rows


async def _hunt_all(folder: Path, rows: list[Row]) -> None:
    words = ["-m", "npuviz.cli.main", "mcp", "--folder", str(folder)]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:

        async def call(tool: str, arguments: dict[str, Any]) -> str:
            found = await client.call_tool(tool, arguments)
            return "\n".join(getattr(part, "text", "") for part in found.content)

        for number, bug in enumerate(bugs()):
            place = folder / str(number)
            place.mkdir()
            calls, read = await hunt(call, bug, place)
            await call("close", {})
            if "SHOW" in os.environ:
                print(bug.name, calls, read)
            rows.append(Row(bug.name, calls, "calls", f"at most {MOST_CALLS}", calls > MOST_CALLS))
