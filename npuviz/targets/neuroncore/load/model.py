"""An ONNX model, read and compiled as the user asked."""

from collections.abc import Mapping

from npuviz.base.errors import UsageError
from npuviz.base.progress import Progress
from npuviz.onnx.reader import read_model
from npuviz.program.program import Note
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.compile import compile_graph
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.spec import (
    NeuronSpec,
    is_setting,
    make_spec,
    similar_settings,
    unknown_setting,
)


def compile_request(
    request: LoadRequest, progress: Progress
) -> tuple[NeuronSpec, tuple[Note, ...], Compiled]:
    """Read and compile an ONNX model as the user asked: spec, notes about it, and the result."""
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
