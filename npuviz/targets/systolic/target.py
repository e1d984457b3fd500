"""The systolic target: ONNX models and ONNXim's model lists on weight-stationary multi-core NPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import FormatError, TargetError
from npuviz.base.names import is_named_file
from npuviz.base.progress import NoProgress, Progress
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.workloads import is_model_list
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.latencies import Varied, spec_text
from npuviz.sim.machine import Machine
from npuviz.sim.remedy import Knob, Remedy
from npuviz.sim.target import LoadRequest, MapResult, Sample, Setting
from npuviz.targets.systolic.presets import PRESETS

# What compiles, runs or checks is imported where it is used: every target is loaded to find the one that
# takes a file.


class SystolicTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = "systolic"
    title = "Systolic multi-core NPU (ONNXim)"
    sample = Sample(
        "tiny_cnn.onnx",
        "Four cores share a DRAM: which tile loads, which computes, and what each waits for.",
    )
    presets: Mapping[str, str] = {name: preset[0] for name, preset in PRESETS.items()}
    file_kinds: Mapping[str, str] = {".onnx": "ONNX model", ".json": "ONNXim model list"}

    def accepts(self, path: Path, head: bytes) -> bool:
        """Accept ONNX files by name, and JSON files that hold a list of models."""
        suffix = path.suffix.lower()
        return suffix == ".onnx" or (suffix == ".json" and is_model_list(head))

    def locate(self, name: str, config: Path | None) -> Path | None:
        """Find a model of the ONNXim home folder by its bare name."""
        if not name or "/" in name or name.startswith("."):
            return None
        try:
            path = OnnximHome.of_list(config or Path("list.json")).model(name)
        except FormatError:
            return None
        return path if is_named_file(path) else None

    def settings(self, request: LoadRequest) -> Sequence[Setting]:
        """Return every setting with its value and origin; see the contract."""
        from npuviz.targets.systolic.load.settings import list_settings

        return list_settings(request)

    def remedies(self, request: LoadRequest) -> Sequence[Remedy]:
        """Return settings that would make a run shorter; see npuviz.sim.remedy."""
        from npuviz.targets.systolic.remedies import remedies

        return remedies(request)

    def knobs(self, request: LoadRequest) -> Sequence[Knob]:
        """Return settings that times are proportional to; see npuviz.sim.remedy."""
        from npuviz.targets.systolic.remedies import knobs

        return knobs(request)

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read and compile; see the contract."""
        from npuviz.targets.systolic.load.loader import load

        return load(request, progress)

    def feed(self, spec: Any, program: Program, inputs: Mapping[str, np.ndarray]) -> Program:
        """Return the same program with other inputs; see the contract."""
        from npuviz.onnx.inputs import draw_inputs
        from npuviz.targets.systolic.machine.payload import fingerprint

        payload = replace(program.payload, inputs=draw_inputs(program.graph, inputs))
        digest = cache(partial(fingerprint, payload, program.graph, spec_text(spec)))
        return replace(program, payload=payload, fingerprint=digest)

    def varied(self, spec: Any, program: Program) -> Sequence[Varied]:
        """Return the latencies that a seed changes: of vector units, DRAM and network, and Host calls."""
        from npuviz.targets.systolic.machine.latencies import varied

        return varied(spec, program.payload.tables)

    def not_varied(self, spec: Any, program: Program) -> Sequence[str]:
        """Return the times that no seed changes."""
        from npuviz.targets.systolic.machine.latencies import NOT_VARIED

        return NOT_VARIED

    def build(self, spec: Any, program: Program) -> Machine:
        """Build a machine at cycle 0."""
        from npuviz.targets.systolic.machine.machine import SystolicMachine
        from npuviz.targets.systolic.machine.networked import NetworkedMachine

        if spec.flits is None:
            return SystolicMachine(spec, program)
        from npuviz.sim.parts.kernel_call import prepare
        from npuviz.targets.systolic.kernels.advance import advance_network

        prepare(advance_network, NoProgress())
        return NetworkedMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every computed tensor with ONNX Runtime."""
        from npuviz.targets.systolic.check import check
        from npuviz.targets.systolic.machine.machine import SystolicMachine

        if not isinstance(machine, SystolicMachine) or machine.values is None:
            raise TargetError("values are computed in true mode only; leave out --set mode=parity to check")
        return check(machine.values, machine.program.graph, machine.access_table, progress)

    def map(self, request: LoadRequest, candidates: int, out: Path | None, progress: Progress) -> MapResult:
        """Search tilings and core assignments of an ONNX model; see the contract."""
        from npuviz.onnx.inputs import Given
        from npuviz.onnx.reader import read_model
        from npuviz.targets.systolic.compiler.tiling.choices import write_choices
        from npuviz.targets.systolic.load.form import form_for
        from npuviz.targets.systolic.load.loader import read_settings
        from npuviz.targets.systolic.mapper import Mapper

        if request.path.suffix.lower() != ".onnx":
            raise TargetError(f"{request.path}: tilings are searched for one ONNX model, not for a list")
        spec, _, dimensions = read_settings(request)
        graph = read_model(
            request.path,
            dimensions,
            given=Given(request.inputs, request.seed),
            form=form_for(spec),
            progress=progress,
        )
        result, found = Mapper(graph, spec, candidates, progress).search()
        if out is not None:
            write_choices(out, found)
        return result

    def warm_up(self, progress: Progress) -> None:
        """Load the compiled kernels, or have them compiled."""
        from npuviz.sim.parts.kernel_call import prepare
        from npuviz.targets.systolic.kernels.advance import advance

        prepare(advance, progress)


TARGET = SystolicTarget()
