"""The systolic target: ONNX models and ONNXim's model lists on weight-stationary multi-core NPUs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from npuviz.base.errors import FormatError, TargetError, UsageError
from npuviz.base.progress import Progress
from npuviz.formats.onnx_model import read_model
from npuviz.formats.onnxim_mapping import read_mapping
from npuviz.formats.onnxim_models import (
    ModelEntry,
    is_model_list,
    read_language_model,
    read_model_list,
    read_trace,
)
from npuviz.program.graph import Graph
from npuviz.program.memory import Allocation, MemoryMap
from npuviz.program.program import Note, Program
from npuviz.sim.machine import Machine
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import CheckResult, LoadRequest
from npuviz.targets.systolic.check import check as check_values
from npuviz.targets.systolic.compiler.builder import ProgramBuilder
from npuviz.targets.systolic.compiler.compile import compile_true
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.listing import SystolicListing
from npuviz.targets.systolic.compiler.parity.compile import ModelRequest, compile_parity
from npuviz.targets.systolic.compiler.parity.language import compile_language
from npuviz.targets.systolic.description import dram_memory, memory_ids, unit_ids
from npuviz.targets.systolic.engine import Engine
from npuviz.targets.systolic.home import home_of, language_model_path, onnx_path, trace_path
from npuviz.targets.systolic.machine import SystolicMachine
from npuviz.targets.systolic.payload import Payload, fingerprint, pack_entries
from npuviz.targets.systolic.presets import PRESETS
from npuviz.targets.systolic.spec import SystolicSpec, is_setting, make_spec
from npuviz.targets.systolic.values_inputs import draw_inputs


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
        path = onnx_path(home_of(config or Path("configs") / "any"), name)
        return path if path.is_file() else None

    def load(self, request: LoadRequest, progress: Progress) -> tuple[Any, Program]:
        """Read and compile; see the contract."""
        own = {key: value for key, value in request.settings.items() if is_setting(key)}
        spec, notes = make_spec(request.preset, request.config, own)
        dimensions = _dimensions({k: v for k, v in request.settings.items() if k not in own})
        if request.path.suffix.lower() == ".json":
            spec, compiled, placement = self._load_list(request, spec, dimensions, progress)
        else:
            entry = ModelEntry(request.path.stem, dimensions=dimensions)
            compiled, placement = _compile_onnx(request.path, spec, entry, progress)
        return spec, _program(request, spec, compiled, placement, notes)

    def _load_list(
        self, request: LoadRequest, spec: SystolicSpec, dimensions: Mapping[str, int], progress: Progress
    ) -> tuple[SystolicSpec, Compiled, Mapping[int, str]]:
        entries = read_model_list(request.path)
        if len(entries) > 1:
            raise TargetError(
                f"{request.path}: {len(entries)} models in one run are not modelled yet; keep one in the list"
            )
        entry, home = entries[0], home_of(request.path)
        entry = replace(entry, dimensions={**entry.dimensions, **dimensions})
        model = onnx_path(home, entry.name)
        if model.is_file():
            return spec, *_compile_onnx(model, spec, entry, progress)
        sizes = language_model_path(home, entry.name)
        if not sizes.is_file():
            raise FormatError(
                request.path,
                field=f"model {entry.name}",
                expected=f"{model} or {sizes}",
                found="neither",
                hint="set ONNXIM_HOME to the folder that holds models/",
            )
        if spec.mode != "parity":
            spec = replace(spec, mode="parity")
        trace = read_trace(trace_path(home, entry.trace_file or "input.csv"))
        compiled = compile_language(read_language_model(sizes), spec, entry, trace)
        note = Note("info", "parity", "language models run in parity mode; a true mode for them is to come")
        return spec, replace(compiled, notes=(*compiled.notes, note)), {}

    def build(self, spec: Any, program: Program) -> Machine:
        """A machine at cycle 0."""
        return SystolicMachine(spec, program)

    def check(self, machine: Machine, progress: Progress) -> CheckResult:
        """Compare every computed tensor with ONNX Runtime."""
        if not isinstance(machine, SystolicMachine) or machine.values is None:
            raise TargetError("values are computed in true mode only; leave out --set mode=parity to check")
        return check_values(machine.values, machine.program.graph, progress)

    def warm_up(self, progress: Progress) -> None:
        """Compile the kernels, or load them from the cache: runs a program of one empty tile."""
        progress.report(-1.0, "compiling kernels (first run only)")
        spec, _ = make_spec("edge-8x8")
        builder = ProgramBuilder()
        builder.add_skip_layer("warm-up")
        Engine(spec, builder.finish()).advance(1 << 40, NO_STOPS, None)


def _dimensions(settings: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in settings.items():
        try:
            found[name] = int(text)
        except ValueError:
            raise UsageError(
                f"--set {name[:60]}={text[:60]}: unknown key, or a dimension that is not a whole number"
            ) from None
    return found


def _compile_onnx(
    path: Path, spec: SystolicSpec, entry: ModelEntry, progress: Progress
) -> tuple[Compiled, Mapping[int, str]]:
    if spec.mode == "parity":
        graph = read_model(path, entry.dimensions, optimize=False, progress=progress)
        mapping_path = path.with_suffix(".mapping")
        mapping = read_mapping(mapping_path) if mapping_path.is_file() else None
        request = ModelRequest(entry.request_time_ps, entry.target_core, entry.nr_atten)
        compiled = compile_parity(graph, spec, mapping, request)
        return _with_assumptions(compiled, graph), {}
    graph = read_model(path, entry.dimensions, optimize=True, progress=progress)
    made = compile_true(graph, spec, dram_memory(spec), progress)
    compiled = Compiled(made.tables, graph, made.memory_map, made.notes)
    return _with_assumptions(compiled, graph), made.placement


def _with_assumptions(compiled: Compiled, graph: Graph) -> Compiled:
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    return replace(compiled, notes=(*assumed, *compiled.notes))


def _program(
    request: LoadRequest,
    spec: SystolicSpec,
    compiled: Compiled,
    placement: Mapping[int, str],
    notes: tuple[Note, ...],
) -> Program:
    graph, tables = compiled.graph, compiled.tables
    has_values = tables.values is not None
    if not has_values:
        tables = pack_entries(tables)
    inputs = draw_inputs(graph, request.inputs, request.seed) if has_values else {}
    payload = Payload(tables, inputs)
    names = [tensor.name for tensor in graph.tensors]
    listing = SystolicListing(tables, spec.num_cores, unit_ids(spec), memory_ids(spec), names)
    places = tuple(
        Allocation(a.tensor, dram_memory(spec), a.address, a.size_bytes)
        for a in sorted(compiled.memory_map.allocations, key=lambda a: a.address)
    )
    return Program(
        target=SystolicTarget.id,
        title=request.path.stem,
        graph=graph,
        listing=listing,
        memory_map=MemoryMap(places),
        notes=(*notes, *compiled.notes),
        placement=placement,
        payload=payload,
        fingerprint=fingerprint(payload, graph, repr(spec)),
    )


TARGET = SystolicTarget()
