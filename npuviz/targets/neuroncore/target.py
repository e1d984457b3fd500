"""The NeuronCore target: NEFF files, and ONNX models compiled for NeuronCores."""

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
from npuviz.targets.neuroncore.ids import TARGET_ID
from npuviz.targets.neuroncore.presets import PRESETS

# Code that compiles, runs or checks is imported where it is used, because every target is loaded to find
# the one that accepts a file.

_NEFF_HEAD = 16
"""Bytes of pkg_version and header_size at the start of a NEFF."""


class NeuronTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = TARGET_ID
    title = "AWS NeuronCore (NEFF)"
    sample = Sample(
        "tiny_transformer.onnx",
        "Five engines hand tiles over with semaphores; SBUF and PSUM hold real values at every cycle.",
        panel="memory",
    )
    presets: Mapping[str, str] = {name: preset.text for name, preset in PRESETS.items()}
    file_kinds: Mapping[str, str] = {
        ".neff": "NEFF file",
        ".onnx": "ONNX model, compiled",
        ".py": "NKI kernels",
    }
    compiled_kinds: Mapping[str, str] = {".neff": "NEFF file"}

    def accepts(self, path: Path, head: bytes) -> bool:
        """Accept NEFF files, by name or header, and Python that imports NKI; not ONNX models, which need this
        target to be requested."""
        if path.suffix.lower() == ".neff":
            return True
        if path.suffix.lower() == ".py":
            from npuviz.targets.neuroncore.nki.sniffing import imports_nki

            return imports_nki(path)
        version, size = (int.from_bytes(head[at : at + 8], "little") for at in (0, 8))
        return len(head) >= _NEFF_HEAD and version in (1, 2) and size == 1024

    def scripts(self, path: Path) -> tuple[Path, ...]:
        """Return kernel files, because their Python is run."""
        return (path,) if path.suffix.lower() == ".py" else ()

    def locate(self, name: str, config: Path | None) -> Path | None:
        """Return None: NeuronCores have no home folder of models."""
        return None

    def settings(self, request: LoadRequest) -> Sequence[Setting]:
        """Return every setting with its value and the value's origin; see the contract."""
        from npuviz.targets.neuroncore.load.settings import list_settings

        return list_settings(request)

    def remedies(self, request: LoadRequest) -> Sequence[Remedy]:
        """Return settings that would make a run shorter; see npuviz.sim.remedy."""
        from npuviz.targets.neuroncore.remedies import remedies

        return remedies(request)

    def knobs(self, request: LoadRequest) -> Sequence[Knob]:
        """Return settings that durations are proportional to; see the contract."""
        from npuviz.targets.neuroncore.remedies import knobs

        return knobs(request)

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read a file, and compile it if necessary; see the contract."""
        from npuviz.targets.neuroncore.load.loader import load

        return load(request, progress)

    def compile(self, request: LoadRequest, out: Path, progress: Progress) -> str:
        """Write a model as a NEFF file; return a sentence about it. Raises NpuvizError."""
        from npuviz.targets.neuroncore.load.model import compile_request
        from npuviz.targets.neuroncore.neff.writer import write_compiled

        spec, notes, compiled = compile_request(request, progress)
        return write_compiled(request, spec, notes, compiled, out)

    def feed(self, spec: Any, program: Program, inputs: Mapping[str, np.ndarray]) -> Program:
        """Return the program with other inputs; see the contract."""
        from npuviz.onnx.inputs import draw_inputs
        from npuviz.targets.neuroncore.load.programs import check_range
        from npuviz.targets.neuroncore.machine.payload import fingerprint

        check_range(program.payload.tables, program.graph, inputs)
        payload = replace(program.payload, inputs=draw_inputs(program.graph, inputs))
        digest = cache(partial(fingerprint, payload, program.graph, spec_text(spec)))
        return replace(program, payload=payload, fingerprint=digest)

    def varied(self, spec: Any, program: Program) -> Sequence[Varied]:
        """Return the durations that a latency seed varies: of instructions, transfers and Host calls."""
        from npuviz.targets.neuroncore.machine.latencies import varied

        return varied(program.payload.tables)

    def not_varied(self, spec: Any, program: Program) -> Sequence[str]:
        """Return the durations that a latency seed does not vary."""
        from npuviz.targets.neuroncore.machine.latencies import NOT_VARIED

        return NOT_VARIED

    def build(self, spec: Any, program: Program) -> Machine:
        """Make a machine at cycle 0."""
        from npuviz.targets.neuroncore.machine.machine import NeuronMachine

        return NeuronMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every computed tensor with ONNX Runtime, and a kernel's results with its reference."""
        from npuviz.targets.neuroncore.check.check import check
        from npuviz.targets.neuroncore.machine.machine import NeuronMachine

        assert isinstance(machine, NeuronMachine)
        program = machine.program
        values = machine.unmoved_values()
        if values is not None and program.payload.reference is not None:
            from npuviz.targets.neuroncore.nki.reference import check_kernel

            machine.values()
            return check_kernel(values, program, machine.log()[:, 0], progress)
        if values is None or not program.graph.source:
            raise TargetError(
                "values cannot be checked: the file holds no model that npuviz could run for comparison; "
                "for a kernel, --reference module:function says what it should compute"
            )
        return check(values, program.graph, machine.log()[:, 0], progress, machine.edits)

    def warm_up(self, progress: Progress) -> None:
        """Load the compiled kernels, or compile them."""
        from npuviz.sim.parts.kernel_call import prepare
        from npuviz.targets.neuroncore.kernels.advance import advance

        prepare(advance, progress)


TARGET = NeuronTarget()
