"""Load a file as a program: compile a model, trace a kernel, decode a NEFF in npuviz's encoding, and make an
estimated schedule of a NEFF in the vendor's."""

from dataclasses import replace

from npuviz.base.progress import Progress
from npuviz.formats.neff.file import read_neff
from npuviz.onnx.inputs import draw_inputs
from npuviz.program.program import Note, Program
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.load.model import compile_request
from npuviz.targets.neuroncore.load.programs import make_program, program_of
from npuviz.targets.neuroncore.machine.payload import Payload
from npuviz.targets.neuroncore.neff.foreign import open_foreign
from npuviz.targets.neuroncore.neff.reader import has_own_encoding, load_compiled, neff_spec
from npuviz.targets.neuroncore.spec import SETTINGS, NeuronSpec, make_spec

MAX_WARNINGS = 20
"""Most broken rules of a file that become notes; `npuviz neff check` lists all."""


def load(request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, Program]:
    """Return machine and program of a file. Raises FormatError, UsageError."""
    suffix = request.path.suffix.lower()
    if suffix == ".py":
        from npuviz.targets.neuroncore.nki.files import compile_kernel
        from npuviz.targets.neuroncore.nki.record.element_types import held

        spec, notes, compiled = compile_kernel(request, progress)
        request = replace(request, inputs={name: held(values) for name, values in request.inputs.items()})
        return spec, make_program(request, spec, notes, compiled)
    if suffix != ".onnx":
        return _load_neff(request, progress)
    spec, notes, compiled = compile_request(request, progress)
    return spec, make_program(request, spec, notes, compiled)


def _load_neff(request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, Program]:
    SETTINGS.names.refuse_others(request.settings)
    # The limit applies while the file is read, before its machine is known.
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
    return spec, program_of(
        request, spec, found.graph, found.listing, found.memory_map, notes, found.placement, payload
    )
