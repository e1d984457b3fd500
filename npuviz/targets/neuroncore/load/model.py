"""An ONNX model, read and compiled as the user asked."""

from npuviz.base.progress import Progress
from npuviz.onnx.inputs import Given
from npuviz.onnx.reader import read_model
from npuviz.program.program import Note
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.spec import SETTINGS, NeuronSpec, make_spec


def compile_request(
    request: LoadRequest, progress: Progress
) -> tuple[NeuronSpec, tuple[Note, ...], Compiled]:
    """Read and compile an ONNX model as the user asked: spec, notes about it, and the result."""
    names = SETTINGS.names
    spec, notes = make_spec(request.preset, request.config, names.own(request.settings))
    dimensions = names.dimensions(request.settings)
    with names.hints(dimensions):
        graph = read_model(
            request.path, dimensions, given=Given(request.inputs, request.seed), progress=progress
        )
    return spec, notes, compile_graph(graph, spec, progress)
