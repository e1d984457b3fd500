"""Files become programs: models are compiled; of a NEFF, what npuviz can run is run, and what it cannot is
laid out as an estimated schedule."""

from collections.abc import Mapping
from functools import cache, partial

from npuviz.base.errors import UsageError
from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.formats.neff.file import read_neff
from npuviz.onnx.inputs import draw_inputs
from npuviz.program.graph import Graph
from npuviz.program.memory import MemoryMap
from npuviz.program.program import Note, Program
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.ids import TARGET_ID
from npuviz.targets.neuroncore.load.model import compile_request
from npuviz.targets.neuroncore.machine.payload import Payload, fingerprint
from npuviz.targets.neuroncore.neff.foreign import open_foreign
from npuviz.targets.neuroncore.neff.reader import has_own_encoding, load_compiled, neff_spec
from npuviz.targets.neuroncore.spec import SETTINGS, NeuronSpec, make_spec
from npuviz.targets.neuroncore.view.listing import NeuronListing
from npuviz.targets.neuroncore.view.sourced_listing import SourcedListing

MAX_WARNINGS = 20
"""Broken rules of a file that become notes; `npuviz neff check` lists all."""


def load(request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, Program]:
    """Machine and program of a file. Raises FormatError, UsageError."""
    suffix = request.path.suffix.lower()
    if suffix == ".py":
        from npuviz.targets.neuroncore.nki.files import compile_kernel

        spec, notes, compiled = compile_kernel(request, progress)
        return spec, make_program(request, spec, notes, compiled)
    if suffix != ".onnx":
        return _load_neff(request, progress)
    spec, notes, compiled = compile_request(request, progress)
    return spec, make_program(request, spec, notes, compiled)


def _load_neff(request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, Program]:
    SETTINGS.names.refuse_others(request.settings)
    # The limit counts before anything of the file is known.
    chosen = {key: text for key, text in request.settings.items() if key == "limit"}
    limit = make_spec("", None, chosen)[0].limit
    progress.report(-1.0, "reading the NEFF")
    neff = read_neff(request.path, limit)
    spec, notes = neff_spec(neff, request.preset, request.config, request.settings)
    notes += tuple(
        Note("warning", each.rule, f"{each.where}: {each.text}") for each in neff.warnings[:MAX_WARNINGS]
    )
    progress.report(-1.0, "reading its programs")
    if has_own_encoding(neff):
        return spec, make_program(request, spec, notes, load_compiled(neff, spec))
    found = open_foreign(neff, spec)
    payload = Payload(found.tables, draw_inputs(found.graph, request.inputs, request.seed), is_estimated=True)
    notes = (*found.notes, *notes)
    return spec, _program(
        request, spec, found.graph, found.listing, found.memory_map, notes, found.placement, payload
    )


def make_program(
    request: LoadRequest, spec: NeuronSpec, notes: tuple[Note, ...], compiled: Compiled
) -> Program:
    """The program of compiled tables, with inputs given or drawn."""
    graph, tables = compiled.graph, compiled.tables
    if request.path.suffix.lower() != ".onnx" and request.inputs and not graph.inputs:
        raise UsageError("--input: the file does not name its inputs")
    payload = Payload(tables, draw_inputs(graph, request.inputs, request.seed))
    assumed = tuple(Note("warning", "assumed", text) for text in graph.assumptions)
    notes = (*notes, *assumed, *compiled.notes)
    listing = NeuronListing(tables, spec, graph)
    if compiled.sources:
        listing = SourcedListing(tables, spec, graph, compiled.sources, compiled.lines)
    return _program(request, spec, graph, listing, compiled.memory_map, notes, compiled.placement, payload)


def _program(
    request: LoadRequest,
    spec: NeuronSpec,
    graph: Graph,
    listing: NeuronListing,
    memory_map: MemoryMap,
    notes: tuple[Note, ...],
    placement: Mapping[int, str],
    payload: Payload,
) -> Program:
    digest = cache(partial(fingerprint, payload, graph, repr(spec)))
    title = printable(request.path.stem)
    return Program(TARGET_ID, title, graph, listing, memory_map, notes, placement, payload, digest)
