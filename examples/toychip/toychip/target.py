"""The plug-in: what npuviz finds by the entry point."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.progress import Progress
from npuviz.program.program import Program
from npuviz.sim.check_result import CheckResult
from npuviz.sim.machine import Machine
from npuviz.sim.target import LoadRequest
from toychip.spec import SETTINGS

# What runs is imported where it is used: every target is loaded to find the one that takes a file.


class ToyChip:
    """Stateless; see npuviz.sim.target.Target."""

    id = "toychip"
    title = "Toy chip (element-wise programs)"
    presets: Mapping[str, str] = {"small": "blocks of 16 elements", "wide": "blocks of 64"}
    file_kinds: Mapping[str, str] = {".toy": "program text"}

    def accepts(self, path: Path, head: bytes) -> bool:
        """Program texts, by name."""
        return path.suffix == ".toy"

    def locate(self, name: str, config: Path | None) -> Path | None:
        """There is no home folder of programs."""
        return None

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read and compile. Inputs that are not given are small integers, so that results are exact."""
        from toychip.load.program import make_program
        from toychip.load.source import read_source

        spec, _ = SETTINGS.make(request.preset, settings=request.settings)
        graph = read_source(request.path)
        random = np.random.default_rng(request.seed)
        inputs: dict[int, np.ndarray] = {}
        for tensor in (graph.tensors[each] for each in graph.inputs):
            drawn = random.integers(-4, 5, tensor.shape).astype(np.float32)
            given = request.inputs.get(tensor.name, drawn)
            inputs[tensor.id] = np.asarray(given, np.float32).reshape(tensor.shape)
        progress.report(1.0, "compiled")
        return spec, make_program(graph, spec, inputs)

    def build(self, spec: Any, program: Program) -> Machine:
        """A machine at cycle 0."""
        from toychip.machine.machine import ToyMachine

        return ToyMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every tensor with numpy on whole tensors."""
        graph = machine.program.graph
        expected: dict[int, np.ndarray] = dict(machine.program.payload.inputs)
        failed: list[str] = []
        error = 0.0
        for node in graph.nodes:
            left, right = (expected[tensor] for tensor in node.inputs)
            expected[node.outputs[0]] = left * right if node.op_type == "Mul" else left + right
            found = machine.tensor(node.outputs[0])
            assert found is not None
            error = max(error, float(np.abs(found - expected[node.outputs[0]]).max()))
            if not np.array_equal(found, expected[node.outputs[0]]):
                failed.append(graph.tensors[node.outputs[0]].name)
        return CheckResult(len(graph.nodes), len(failed), error, error, "".join(failed[:1]), "equal")

    def warm_up(self, progress: Progress) -> None:
        """Load the compiled kernels, or have them compiled."""
        from npuviz.sim.parts.kernel_call import prepare
        from toychip.kernels.advance import advance

        prepare(advance, progress)


TARGET = ToyChip()
