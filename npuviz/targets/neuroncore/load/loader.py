"""Opening a NEFF: what npuviz can run is run, what it cannot is laid out as an estimated schedule."""

from npuviz.base.names import printable
from npuviz.base.progress import Progress
from npuviz.formats.neff.file import read_neff
from npuviz.formats.neff.model import Neff
from npuviz.onnx.inputs import draw_inputs
from npuviz.program.program import Note, Program
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.machine.payload import Payload, fingerprint
from npuviz.targets.neuroncore.neff.foreign import open_foreign
from npuviz.targets.neuroncore.neff.reader import has_own_encoding, load_compiled, neff_spec
from npuviz.targets.neuroncore.spec import NeuronSpec, is_setting, make_spec, unknown_setting
from npuviz.targets.neuroncore.target import NeuronTarget, make_program

MAX_WARNINGS = 20
"""Broken rules of a file that become notes; `npuviz neff check` lists all."""


def load_neff(request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, Program]:
    """Machine and program of a NEFF file. Raises FormatError, UsageError."""
    for name in request.settings:
        if not is_setting(name):
            raise unknown_setting(name)
    # The limit counts before anything of the file is known.
    chosen = {key: text for key, text in request.settings.items() if key == "limit"}
    limit = make_spec("", None, chosen)[0].limit
    progress.report(-1.0, "reading the NEFF")
    neff = read_neff(request.path, limit)
    spec, notes = neff_spec(neff, request.preset, request.config, request.settings)
    notes = (*notes, *_warnings(neff))
    progress.report(-1.0, "reading its programs")
    if has_own_encoding(neff):
        return spec, make_program(request, spec, notes, load_compiled(neff, spec))
    return spec, _foreign(request, spec, notes, neff)


def _foreign(request: LoadRequest, spec: NeuronSpec, notes: tuple[Note, ...], neff: Neff) -> Program:
    found = open_foreign(neff, spec)
    inputs = draw_inputs(found.graph, request.inputs, request.seed)
    payload = Payload(found.tables, inputs, is_estimated=True)
    return Program(
        target=NeuronTarget.id,
        title=printable(request.path.stem),
        graph=found.graph,
        listing=found.listing,
        memory_map=found.memory_map,
        notes=(*found.notes, *notes),
        placement=found.placement,
        payload=payload,
        fingerprint=fingerprint(payload, found.graph, repr(spec)),
    )


def _warnings(neff: Neff) -> tuple[Note, ...]:
    return tuple(
        Note("warning", each.rule, f"{each.where}: {each.text}") for each in neff.warnings[:MAX_WARNINGS]
    )
