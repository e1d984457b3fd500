"""Loads a spec and a program from an ONNX model, or one of ONNXim's list files."""

from collections.abc import Mapping
from functools import cache, partial

from npuviz.base.errors import DoesNotFit
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.base.units import format_bytes
from npuviz.onnx.inputs import Given, draw_inputs
from npuviz.onnx.reader import read_model
from npuviz.program.program import Note, Program
from npuviz.sim.latencies import spec_text
from npuviz.sim.target import LoadRequest
from npuviz.targets.systolic.compiler.bodies import with_bodies
from npuviz.targets.systolic.compiler.compile import compile_true
from npuviz.targets.systolic.compiler.compiled import Compiled
from npuviz.targets.systolic.compiler.parity.compile import ModelRequest, compile_parity_list
from npuviz.targets.systolic.compiler.placement import nodes_in_fp32
from npuviz.targets.systolic.compiler.row_copies import with_row_copies
from npuviz.targets.systolic.load.form import form_for
from npuviz.targets.systolic.load.model_list import compile_list, read_parity_model
from npuviz.targets.systolic.machine.payload import Payload, fingerprint, pack_entries
from npuviz.targets.systolic.spec import SETTING_NAMES, SystolicSpec, make_spec
from npuviz.targets.systolic.view.description import dram_memory, memory_ids, unit_ids
from npuviz.targets.systolic.view.listing import SystolicListing


def load(request: LoadRequest, progress: Progress) -> tuple[SystolicSpec, Program]:
    """Read and compile what the user asked for. Raises NpuvizError."""
    spec, notes, dimensions = read_settings(request)
    with SETTING_NAMES.hints(dimensions):
        compiled = compile_file(request, spec, dimensions, progress)
    _check_dram(spec, compiled)
    return spec, _program(request, spec, compiled, notes)


def read_settings(request: LoadRequest) -> tuple[SystolicSpec, tuple[Note, ...], dict[str, int]]:
    """Return the spec, notes about it, and the values of the model's symbolic dimensions."""
    spec, notes = make_spec(request.preset, request.config, SETTING_NAMES.own(request.settings))
    return spec, notes, SETTING_NAMES.dimensions(request.settings)


def compile_file(
    request: LoadRequest, spec: SystolicSpec, dimensions: Mapping[str, int], progress: Progress
) -> Compiled:
    """Read and compile a list file (.json) or an ONNX model; `<model>.mapping` counts in parity mode."""
    path, dram = request.path, dram_memory(spec)
    if path.suffix.lower() == ".json":
        return compile_list(path, spec, dimensions, progress, dram)
    if spec.mode == "parity":
        model = read_parity_model(path, path.stem, dimensions, ModelRequest(), progress)
        return compile_parity_list([model], spec, dram=dram, progress=progress)
    given = Given(request.inputs, request.seed)
    graph = read_model(
        path,
        dimensions,
        given=given,
        form=form_for(spec),
        progress=progress,
    )
    graph = with_bodies(graph, nodes_in_fp32(graph, spec))
    compiled = compile_true(graph, spec, dram, progress)
    on_host = [node for node, place in compiled.placement.items() if place == "Host"]
    with_copies = with_row_copies(graph, spec, on_host)
    return compiled if with_copies is graph else compile_true(with_copies, spec, dram, progress)


def _check_dram(spec: SystolicSpec, compiled: Compiled) -> None:
    """Raise if a model is larger than the DRAM (true mode; ONNXim checks language models only)."""
    size = spec.config.dram_size << 30
    end = max((each.address + each.size_bytes for each in compiled.memory_map.allocations), default=0)
    if spec.mode == "true" and compiled.tables.values is not None and 0 < size < end:
        raise DoesNotFit(
            f"the model needs {format_bytes(end)} of DRAM, there are {format_bytes(size)}; "
            "--set dram_size=0 runs it all the same"
        )


def _program(
    request: LoadRequest, spec: SystolicSpec, compiled: Compiled, notes: tuple[Note, ...]
) -> Program:
    graph, tables = compiled.graph, compiled.tables
    has_values = tables.values is not None
    if not has_values:
        tables = pack_entries(tables)
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    inputs = draw_inputs(graph, request.inputs, request.seed) if has_values else {}
    payload = Payload(tables, inputs, compiled.requests)
    names = [tensor.name for tensor in graph.tensors]
    return Program(
        target="systolic",
        title=printable(request.path.stem),
        graph=graph,
        listing=SystolicListing(tables, spec.num_cores, unit_ids(spec), memory_ids(spec), names),
        memory_map=compiled.memory_map,
        notes=(*notes, *assumed, *compiled.notes),
        placement=compiled.placement,
        payload=payload,
        fingerprint=cache(partial(fingerprint, payload, graph, spec_text(spec))),
    )
