"""Read and compile an ONNX model with the settings of a request."""

from npuviz.base.progress import Progress
from npuviz.onnx.inputs import Given
from npuviz.onnx.model_form import MIN_DYNAMIC_WEIGHTS, ModelForm
from npuviz.onnx.passes.contrib.expand import only_recurrent_or_standard
from npuviz.onnx.reader import read_model
from npuviz.program.program import Note
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.spec import SETTINGS, NeuronSpec, make_spec

_FORM = ModelForm(
    whole=only_recurrent_or_standard, float_recurrence=MIN_DYNAMIC_WEIGHTS, integer_products=True
)
"""LSTMs with fewer 8-bit weights stay in floats: quantized they would run on the Host, rounded at each
step. So would sums and means of 8-bit numbers, which become those of floats.
"""


def compile_request(
    request: LoadRequest, progress: Progress
) -> tuple[NeuronSpec, tuple[Note, ...], Compiled]:
    """Read and compile the request's ONNX model; return spec, notes about the spec, and the result."""
    names = SETTINGS.names
    spec, notes = make_spec(request.preset, request.config, names.own(request.settings))
    dimensions = names.dimensions(request.settings)
    with names.hints(dimensions):
        given = Given(request.inputs, request.seed)
        graph = read_model(request.path, dimensions, given=given, form=_FORM, progress=progress)
    return spec, notes, compile_graph(graph, spec, progress)
