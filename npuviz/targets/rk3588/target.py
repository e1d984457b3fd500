"""The RK3588 target: ONNX models, register command streams and .rknn files on the RK3588 NPU."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import TargetError
from npuviz.base.progress import Progress
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.latencies import Varied, spec_text
from npuviz.sim.machine import Machine
from npuviz.sim.remedy import Knob, Remedy
from npuviz.sim.target import LoadRequest, Sample, Setting
from npuviz.targets.rk3588.spec import PRESETS

# What compiles, runs or checks is imported where it is used: every target is loaded to find the one that
# takes a file.

_STREAMS = (".regcmd", ".rknn")
_WORD_LINE = re.compile(rb"(?:\s*#[^\n]*\n|\s*\n)*\s*(?:\d+\s+)?(?:0x)?[0-9a-f]{16}\b", re.IGNORECASE)
"""Begin of a command stream as text: comments, then a word of 64 bits, perhaps after its number."""


class RknnTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = "rk3588"
    title = "RK3588 NPU (register commands)"
    sample = Sample(
        "tiny_cnn_int8.onnx",
        "Register commands run an int8 network through CNA, CORE, DPU and PPU, stripe by stripe.",
        panel="floorplan",
    )
    presets: Mapping[str, str] = {name: text for name, (text, _) in PRESETS.items()}
    file_kinds: Mapping[str, str] = {
        ".rknn": "RKNN file, version 6",
        ".regcmd": "register command stream",
        ".txt": "register command stream as text, one word a line",
        ".onnx": "ONNX model, compiled",
    }
    compiled_kinds: Mapping[str, str] = {
        ".regcmd": "register command streams, binary",
        ".regcmd.txt": "register command streams, one word a line",
    }

    def accepts(self, path: Path, head: bytes) -> bool:
        """Return whether a file is an RKNN file or a stream, by name or content.

        ONNX models are taken only when this target is asked for.
        """
        name = path.name.lower()
        if name.endswith((*_STREAMS, ".regcmd.txt")) or head[:4] == b"RKNN":
            return True
        return name.endswith(".txt") and _WORD_LINE.match(head) is not None

    def locate(self, name: str, config: Path | None) -> Path | None:
        """Return None: there is no home folder of models."""
        return None

    def settings(self, request: LoadRequest) -> Sequence[Setting]:
        """Return every setting with its value and the source of the value; see the contract."""
        from npuviz.targets.rk3588.spec import list_settings

        return list_settings(request)

    def remedies(self, request: LoadRequest) -> Sequence[Remedy]:
        """Return settings that would make a run shorter; see npuviz.sim.remedy."""
        from npuviz.targets.rk3588.remedies import remedies

        return remedies(request)

    def knobs(self, request: LoadRequest) -> Sequence[Knob]:
        """Return the settings that times are proportional to; see the contract."""
        from npuviz.targets.rk3588.remedies import knobs

        return knobs(request)

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read a file, and compile it if it is not compiled yet; see the contract."""
        from npuviz.targets.rk3588.load.loader import load

        return load(request, progress)

    def compile(self, request: LoadRequest, out: Path, progress: Progress) -> str:
        """Write a model's register command streams; return a sentence about them."""
        from npuviz.targets.rk3588.compiler.writer import write_compiled
        from npuviz.targets.rk3588.load.loader import compile_request

        _, _, compiled = compile_request(request, progress)
        return write_compiled(compiled, out)

    def feed(self, spec: Any, program: Program, inputs: Mapping[str, np.ndarray]) -> Program:
        """Return the same program with other inputs; see the contract."""
        from npuviz.onnx.inputs import draw_inputs
        from npuviz.targets.rk3588.machine.payload import fingerprint

        payload = replace(program.payload, inputs=draw_inputs(program.graph, inputs))
        digest = cache(partial(fingerprint, payload, program.graph, spec_text(spec)))
        return replace(program, payload=payload, fingerprint=digest)

    def varied(self, spec: Any, program: Program) -> Sequence[Varied]:
        """Return the latencies that a seed changes: tasks, Host calls, DDR and driver."""
        from npuviz.targets.rk3588.machine.latencies import varied

        return varied(program.payload.tables)

    def not_varied(self, spec: Any, program: Program) -> Sequence[str]:
        """Return the times that no seed changes."""
        from npuviz.targets.rk3588.machine.latencies import NOT_VARIED

        return NOT_VARIED

    def build(self, spec: Any, program: Program) -> Machine:
        """Return a machine at cycle 0."""
        from npuviz.targets.rk3588.machine.machine import RknnMachine

        return RknnMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every computed tensor with ONNX Runtime."""
        from npuviz.targets.rk3588.check import check
        from npuviz.targets.rk3588.machine.machine import RknnMachine

        assert isinstance(machine, RknnMachine)
        if not machine.program.graph.source:
            raise TargetError("values cannot be checked: there is no ONNX model to compare with")
        return check(
            machine.values(), machine.program.graph, machine.log()[:, 0], machine.engine.spec, progress
        )

    def warm_up(self, progress: Progress) -> None:
        """Load the compiled kernels, or have them compiled."""
        from npuviz.sim.parts.kernel_call import prepare
        from npuviz.targets.rk3588.kernels.advance import advance

        prepare(advance, progress)


TARGET = RknnTarget()
