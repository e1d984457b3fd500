"""The NeuronCore target: NEFF files, and ONNX models compiled for NeuronCores."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.program.program import Note, Program
from npuviz.sim.machine import Machine
from npuviz.sim.target import CheckResult, LoadRequest
from npuviz.targets.neuroncore.presets import PRESETS
from npuviz.targets.neuroncore.spec import (
    NeuronSpec,
    is_setting,
    make_spec,
    similar_settings,
    unknown_setting,
)

if TYPE_CHECKING:
    from npuviz.targets.neuroncore.compiler.compiled import Compiled

# What compiles, runs or checks is imported where it is used: every target is loaded to find the one that
# takes a file.

_NEFF_HEAD = 16
"""Bytes of pkg_version and header_size."""


class NeuronTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = "neuroncore"
    title = "AWS NeuronCore (NEFF)"
    presets: Mapping[str, str] = {name: preset.text for name, preset in PRESETS.items()}
    file_kinds: Mapping[str, str] = {".neff": "NEFF file", ".onnx": "ONNX model, compiled"}
    compiled_kinds: Mapping[str, str] = {".neff": "NEFF file"}

    def accepts(self, path: Path, head: bytes) -> bool:
        """NEFF files, by name or by their header; ONNX models only when this target is asked for."""
        if path.suffix.lower() == ".neff":
            return True
        version, size = (int.from_bytes(head[at : at + 8], "little") for at in (0, 8))
        return len(head) >= _NEFF_HEAD and version in (1, 2) and size == 1024

    def locate(self, name: str, config: Path | None) -> Path | None:
        """NeuronCores have no home folder of models."""
        return None

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read, and compile what is not compiled yet; see the contract."""
        if request.path.suffix.lower() == ".onnx":
            return self._load_onnx(request, progress)
        from npuviz.targets.neuroncore.load.loader import load_neff

        return load_neff(request, progress)

    def _load_onnx(self, request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, Program]:
        spec, notes, compiled = compile_request(request, progress)
        return spec, make_program(request, spec, notes, compiled)

    def compile(self, request: LoadRequest, out: Path, progress: Progress) -> str:
        """Write a model as a NEFF file; returns a sentence about it. Raises NpuvizError."""
        from npuviz.targets.neuroncore.neff.writer import write_compiled

        spec, notes, compiled = compile_request(request, progress)
        return write_compiled(request, spec, notes, compiled, out)

    def build(self, spec: Any, program: Program) -> Machine:
        """A machine at cycle 0."""
        from npuviz.targets.neuroncore.machine.machine import NeuronMachine

        return NeuronMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every computed tensor with ONNX Runtime."""
        from npuviz.targets.neuroncore.check.check import check
        from npuviz.targets.neuroncore.machine.machine import NeuronMachine

        assert isinstance(machine, NeuronMachine)
        values = machine.values()
        if values is None or not machine.program.graph.source:
            raise TargetError(
                "values cannot be checked: the file holds no model that npuviz could run for comparison"
            )
        return check(values, machine.program.graph, machine.log()[:, 0], progress)

    def warm_up(self, progress: Progress) -> None:
        """Compile the kernels, or load them from the cache: runs an empty program."""
        from npuviz.targets.neuroncore.machine.warm_up import warm_up

        warm_up(progress)


def compile_request(
    request: LoadRequest, progress: Progress
) -> tuple[NeuronSpec, tuple[Note, ...], "Compiled"]:
    """Read and compile an ONNX model as the user asked: spec, notes about it, and the result."""
    from npuviz.onnx.reader import read_model
    from npuviz.targets.neuroncore.compiler.compile import compile_graph

    own = {key: value for key, value in request.settings.items() if is_setting(key)}
    spec, notes = make_spec(request.preset, request.config, own)
    dimensions = _dimensions({k: v for k, v in request.settings.items() if k not in own})
    try:
        graph = read_model(request.path, dimensions, optimize=True, progress=progress)
    except UsageError as error:
        similar = [close for name in dimensions for close in similar_settings(name)]
        if not similar:
            raise
        raise UsageError(f"{error}; settings with such a name: {', '.join(similar)}") from None
    return spec, notes, compile_graph(graph, spec, progress)


def _dimensions(settings: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in settings.items():
        try:
            found[name] = int(text)
        except ValueError:
            if similar_settings(name):
                raise unknown_setting(name) from None
            raise UsageError(
                f"--set {name[:60]}={text[:60]}: no setting has this name, and a dimension of the model "
                "needs a whole number"
            ) from None
    return found


def make_program(
    request: LoadRequest, spec: NeuronSpec, notes: tuple[Note, ...], compiled: "Compiled"
) -> Program:
    """The program of compiled tables, with inputs given or drawn."""
    from npuviz.onnx.inputs import draw_inputs
    from npuviz.targets.neuroncore.machine.payload import Payload, fingerprint
    from npuviz.targets.neuroncore.view.listing import NeuronListing

    graph, tables = compiled.graph, compiled.tables
    if request.path.suffix.lower() != ".onnx" and request.inputs and not graph.inputs:
        raise UsageError("--input: the file does not name its inputs")
    payload = Payload(tables, draw_inputs(graph, request.inputs, request.seed))
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    return Program(
        target=NeuronTarget.id,
        title=printable(request.path.stem),
        graph=graph,
        listing=NeuronListing(tables, spec, graph),
        memory_map=compiled.memory_map,
        notes=(*notes, *assumed, *compiled.notes),
        placement=compiled.placement,
        payload=payload,
        fingerprint=fingerprint(payload, graph, repr(spec)),
    )


TARGET = NeuronTarget()
