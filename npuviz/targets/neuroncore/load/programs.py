"""Make programs from compiled tables."""

from collections.abc import Mapping
from functools import cache, partial

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.base.names import printable
from npuviz.onnx.inputs import draw_inputs
from npuviz.onnx.passes.narrow_floats import NARROW, WIDE, beyond_range
from npuviz.program.graph import Graph
from npuviz.program.memory import MemoryMap
from npuviz.program.program import Note, Program
from npuviz.sim.latencies import spec_text
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.ids import TARGET_ID
from npuviz.targets.neuroncore.machine.payload import Payload, fingerprint
from npuviz.targets.neuroncore.spec import KEEPING_FLOAT64, NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.view.listing import NeuronListing
from npuviz.targets.neuroncore.view.sourced_listing import SourcedListing


def make_program(
    request: LoadRequest, spec: NeuronSpec, notes: tuple[Note, ...], compiled: Compiled
) -> Program:
    """Make the program of compiled tables; inputs that are not given are drawn at random."""
    graph, tables = compiled.graph, compiled.tables
    if request.path.suffix.lower() != ".onnx" and request.inputs and not graph.inputs:
        raise UsageError("--input: the file does not name its inputs")
    inputs = draw_inputs(graph, request.inputs, request.seed)
    check_range(tables, graph, request.inputs)
    payload = Payload(tables, inputs, reference=compiled.reference)
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    notes = (*notes, *assumed, *compiled.notes)
    listing = NeuronListing(tables, spec, graph)
    if compiled.sources:
        listing = SourcedListing(tables, spec, graph, compiled.sources, compiled.lines, compiled.moments)
    return program_of(request, spec, graph, listing, compiled.memory_map, notes, compiled.placement, payload)


def check_range(tables: Tables, graph: Graph, given: Mapping[str, np.ndarray]) -> None:
    """Raise UsageError for float64 inputs with numbers that the float32 of their variables cannot hold.

    given  inputs by name;  tables  of the program that they are for
    """
    for variable in tables.variables:
        if variable.kind != "input" or variable.dtype != NARROW or variable.tensor < 0:
            continue
        tensor = graph.tensors[variable.tensor]
        values = given.get(tensor.name)
        beyond = beyond_range(values) if tensor.dtype == WIDE and values is not None else None
        if beyond is not None:
            raise UsageError(
                f"input {tensor.name}: {NARROW}, as which this program holds {WIDE}, cannot hold {beyond:.4g}"
                f"; {KEEPING_FLOAT64}"
            )


def program_of(
    request: LoadRequest,
    spec: NeuronSpec,
    graph: Graph,
    listing: NeuronListing,
    memory_map: MemoryMap,
    notes: tuple[Note, ...],
    placement: Mapping[int, str],
    payload: Payload,
) -> Program:
    """Make a program from its parts; its fingerprint is computed when it is asked for."""
    digest = cache(partial(fingerprint, payload, graph, spec_text(spec)))
    kernel = request.settings.get("kernel", "")
    title = f"{request.path.stem}.{kernel}" if kernel not in ("", request.path.stem) else request.path.stem
    return Program(TARGET_ID, printable(title), graph, listing, memory_map, notes, placement, payload, digest)
