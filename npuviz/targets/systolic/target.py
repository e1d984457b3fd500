"""The systolic target: ONNX models and ONNXim's model lists on weight-stationary multi-core NPUs."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import DoesNotFit, FormatError, TargetError, UsageError
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.base.units import format_bytes
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.workloads import is_model_list
from npuviz.program.program import Note, Program
from npuviz.sim.machine import Machine
from npuviz.sim.target import CheckResult, LoadRequest, MapResult
from npuviz.targets.systolic.presets import PRESETS
from npuviz.targets.systolic.spec import (
    SystolicSpec,
    is_setting,
    make_spec,
    similar_settings,
    unknown_setting,
)

if TYPE_CHECKING:
    from npuviz.targets.systolic.compiler.compiled import Compiled

# What compiles, runs or checks is imported where it is used: every target is loaded to find the one that
# takes a file.


class SystolicTarget:
    """Stateless; see npuviz.sim.target.Target for the contract."""

    id = "systolic"
    title = "Systolic multi-core NPU (ONNXim)"
    presets: Mapping[str, str] = {name: preset[0] for name, preset in PRESETS.items()}
    file_kinds: Mapping[str, str] = {".onnx": "ONNX model", ".json": "ONNXim model list"}

    def accepts(self, path: Path, head: bytes) -> bool:
        """ONNX files by name; JSON files that hold a list of models."""
        suffix = path.suffix.lower()
        return suffix == ".onnx" or (suffix == ".json" and is_model_list(head))

    def locate(self, name: str, config: Path | None) -> Path | None:
        """A model of the ONNXim home folder by its bare name."""
        if not name or "/" in name or name.startswith("."):
            return None
        try:
            path = OnnximHome.of_list(config or Path("list.json")).model(name)
        except FormatError:
            return None
        return path if path.is_file() else None

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read and compile; see the contract."""
        own = {key: value for key, value in request.settings.items() if is_setting(key)}
        spec, notes = make_spec(request.preset, request.config, own)
        dimensions = _dimensions({k: v for k, v in request.settings.items() if k not in own})
        path = request.path
        try:
            compiled = _compile(path, spec, dimensions, progress)
        except UsageError as error:
            similar = [close for name in dimensions for close in similar_settings(name)]
            if not similar:
                raise
            raise UsageError(f"{error}; settings with such a name: {', '.join(similar)}") from None
        _check_dram(spec, compiled)
        return spec, _program(request, spec, compiled, notes)

    def build(self, spec: Any, program: Program) -> Machine:
        """A machine at cycle 0."""
        from npuviz.targets.systolic.machine.machine import SystolicMachine
        from npuviz.targets.systolic.machine.networked import NetworkedMachine

        if spec.flits is None:
            return SystolicMachine(spec, program)
        _compile_kernels("mesh")
        return NetworkedMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every computed tensor with ONNX Runtime."""
        from npuviz.targets.systolic.check import check
        from npuviz.targets.systolic.machine.machine import SystolicMachine

        if not isinstance(machine, SystolicMachine) or machine.values is None:
            raise TargetError("values are computed in true mode only; leave out --set mode=parity to check")
        return check(machine.values, machine.program.graph, progress)

    def map(self, request: LoadRequest, candidates: int, out: Path | None, progress: Progress) -> MapResult:
        """Search tilings and core assignments of an ONNX model; see the contract."""
        from npuviz.onnx.reader import read_model
        from npuviz.targets.systolic.compiler.tiling.choices import write_choices
        from npuviz.targets.systolic.mapper import Mapper

        if request.path.suffix.lower() != ".onnx":
            raise TargetError(f"{request.path}: tilings are searched for one ONNX model, not for a list")
        own = {key: value for key, value in request.settings.items() if is_setting(key)}
        spec, _ = make_spec(request.preset, request.config, own)
        dimensions = _dimensions({k: v for k, v in request.settings.items() if k not in own})
        graph = read_model(request.path, dimensions, optimize=True, progress=progress)
        result, found = Mapper(graph, spec, candidates, progress).search()
        if out is not None:
            write_choices(out, found)
        return result

    def warm_up(self, progress: Progress) -> None:
        """Compile the kernels, or load them from the cache: runs a program of one empty tile."""
        progress.report(-1.0, "compiling kernels (first run only)")
        _compile_kernels("")


@cache
def _compile_kernels(network: str) -> None:
    """Compile the kernels of machines with a flit-level network or without, or load them from the cache."""
    from npuviz.sim.parts.bits_kernels import light_optimisation
    from npuviz.sim.stop import NO_STOPS
    from npuviz.targets.systolic.compiler.builder import ProgramBuilder
    from npuviz.targets.systolic.machine.engine import Engine

    spec, _ = make_spec("edge-8x8", None, {"network": network} if network else {})
    builder = ProgramBuilder()
    builder.add_skip_layer("warm-up")
    with light_optimisation():
        Engine(spec, builder.finish()).advance(1 << 40, NO_STOPS, None)


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


def _check_dram(spec: SystolicSpec, compiled: "Compiled") -> None:
    """Refuse a model larger than the DRAM (true mode; ONNXim checks language models only)."""
    size = spec.config.dram_size << 30
    end = max((each.address + each.size_bytes for each in compiled.memory_map.allocations), default=0)
    if spec.mode == "true" and compiled.tables.values is not None and 0 < size < end:
        raise DoesNotFit(
            f"the model needs {format_bytes(end)} of DRAM, there are {format_bytes(size)}; "
            "--set dram_size=0 runs it all the same"
        )


def _compile(path: Path, spec: SystolicSpec, dimensions: Mapping[str, int], progress: Progress) -> "Compiled":
    from npuviz.onnx.reader import read_model
    from npuviz.targets.systolic.compiler.compile import compile_true
    from npuviz.targets.systolic.load.loader import load_true_list
    from npuviz.targets.systolic.load.parity import load_parity
    from npuviz.targets.systolic.view.description import dram_memory

    dram = dram_memory(spec)
    if spec.mode == "parity":
        return load_parity(path, spec, dimensions, progress, dram=dram)
    if path.suffix.lower() == ".json":
        return load_true_list(path, spec, dimensions, progress, dram=dram)
    graph = read_model(path, dimensions, optimize=True, progress=progress)
    return compile_true(graph, spec, dram, progress)


def _program(
    request: LoadRequest,
    spec: SystolicSpec,
    compiled: "Compiled",
    notes: tuple[Note, ...],
) -> Program:
    from npuviz.onnx.inputs import draw_inputs
    from npuviz.targets.systolic.machine.payload import Payload, fingerprint, pack_entries
    from npuviz.targets.systolic.view.description import memory_ids, unit_ids
    from npuviz.targets.systolic.view.listing import SystolicListing

    graph, tables = compiled.graph, compiled.tables
    has_values = tables.values is not None
    if not has_values:
        tables = pack_entries(tables)
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    inputs = draw_inputs(graph, request.inputs, request.seed) if has_values else {}
    payload = Payload(tables, inputs, compiled.requests)
    names = [tensor.name for tensor in graph.tensors]
    listing = SystolicListing(tables, spec.num_cores, unit_ids(spec), memory_ids(spec), names)
    return Program(
        target=SystolicTarget.id,
        title=printable(request.path.stem),
        graph=graph,
        listing=listing,
        memory_map=compiled.memory_map,
        notes=(*notes, *assumed, *compiled.notes),
        placement=compiled.placement,
        payload=payload,
        fingerprint=fingerprint(payload, graph, repr(spec)),
    )


TARGET = SystolicTarget()
