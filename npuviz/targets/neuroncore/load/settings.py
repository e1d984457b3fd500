"""What a NeuronCore is made of, before a file is opened."""

from npuviz.formats.json_text import read_json_object
from npuviz.formats.neff.file import read_neff
from npuviz.sim.target import LoadRequest, Setting
from npuviz.targets.neuroncore.neff.reader import neff_spec
from npuviz.targets.neuroncore.presets import PRESETS
from npuviz.targets.neuroncore.spec import SETTINGS, make_spec


def list_settings(request: LoadRequest) -> tuple[Setting, ...]:
    """Every setting with its value and where that is from; of a NEFF, those of its own machine.

    Raises as `make_spec`, and FormatError for a NEFF that cannot be read.
    """
    described = read_json_object(request.config) if request.config is not None else {}
    if request.path.suffix.lower() == ".onnx":
        return SETTINGS.rows(request, described)
    limit = make_spec()[0].limit
    neff = read_neff(request.path, limit)
    spec, _ = neff_spec(neff, request.preset, request.config, request.settings)
    usual, _ = make_spec(next((name for name, each in PRESETS.items() if each.arch == spec.arch), ""))
    stored = {
        each.name: f"stored in {request.path.name}"
        for each, known in zip(SETTINGS.listed(spec), SETTINGS.listed(usual), strict=True)
        if each.value != known.value
    }
    return SETTINGS.listed(spec, {**stored, **dict.fromkeys(described, f"in {request.config}")})
