"""List the settings of a NeuronCore, and of a kernel file its parameters, before the program is loaded."""

from npuviz.formats.json_text import read_json_object
from npuviz.formats.neff.file import read_neff
from npuviz.sim.target import LoadRequest, Setting
from npuviz.targets.neuroncore.neff.reader import neff_spec
from npuviz.targets.neuroncore.nki.sniffing import (
    OWN_NAMES,
    SHAPE_PREFIX,
    KernelText,
    described,
)
from npuviz.targets.neuroncore.presets import PRESETS
from npuviz.targets.neuroncore.spec import SETTINGS, make_spec

_SCALARS = ("int", "float", "bool", "str")
_TENSOR = "tensor in HBM: sizes and element type, as 128x512:bfloat16"


def list_settings(request: LoadRequest) -> tuple[Setting, ...]:
    """Return every setting with its value and the value's origin: of a NEFF, those of its own machine; of a
    kernel file, first the kernel, its grid and parameters.

    Raises as `make_spec`, and FormatError for a NEFF that cannot be read.
    """
    given = read_json_object(request.config) if request.config is not None else {}
    suffix = request.path.suffix.lower()
    if suffix == ".onnx":
        return SETTINGS.rows(request, given)
    if suffix == ".py":
        return (*kernel_settings(request), *SETTINGS.rows(request, given))
    limit = make_spec()[0].limit
    neff = read_neff(request.path, limit)
    spec, _ = neff_spec(neff, request.preset, request.config, request.settings)
    usual, _ = make_spec(next((name for name, each in PRESETS.items() if each.arch == spec.arch), ""))
    stored = {
        each.name: f"stored in {request.path.name}"
        for each, known in zip(SETTINGS.listed(spec), SETTINGS.listed(usual), strict=True)
        if each.value != known.value
    }
    return SETTINGS.listed(spec, {**stored, **dict.fromkeys(given, f"in {request.config}")})


def kernel_settings(request: LoadRequest) -> tuple[Setting, ...]:
    """Return settings for the kernel to run, its grid and its parameters, without running the file.

    Raises FormatError for a text that is no Python.
    """
    kernels = {each.name: each for each in described(request.path)}
    wanted = request.settings.get("kernel", "")
    # The kernel may also be imported by the file, which only running the file would tell.
    words = tuple(dict.fromkeys((*kernels, *([wanted] if wanted else ())))) if kernels else ()
    only = next(iter(kernels)) if len(kernels) == 1 else ""
    chosen = kernels.get(wanted or only)
    rows = [
        Setting("kernel", only, "function to run", words, is_needed=not only),
        Setting("grid", "", "instances of the kernel, as 2 or 4x2; one where nobody says"),
    ]
    if chosen is not None:
        rows += _parameter_rows(chosen, request)
    names = {row.name for row in rows}
    rows += [
        Setting(name, "", f"no parameter of {chosen.name if chosen else 'a kernel'}: empty this")
        for name in request.settings
        if name not in names and name not in SETTINGS.names and name not in OWN_NAMES
    ]
    return tuple(rows)


def _parameter_rows(kernel: KernelText, request: LoadRequest) -> list[Setting]:
    """Return a row for each parameter; two if the text does not tell whether it is a tensor or a number."""
    rows: list[Setting] = []
    for parameter in kernel.parameters:
        name, shape = parameter.name, SHAPE_PREFIX + parameter.name
        is_given = name in request.settings or name in request.inputs or shape in request.settings
        is_needed = not parameter.default and not is_given
        is_scalar = bool(parameter.default) or parameter.kind in _SCALARS
        if not is_scalar or shape in request.settings:
            rows.append(Setting(shape, "", _TENSOR, is_needed=is_needed))
        # A setting of the machine with the same name takes precedence: such a parameter cannot be given.
        if name in SETTINGS.names or parameter.is_tensor or shape in request.settings:
            continue
        source = f"parameter of {kernel.name}" if is_scalar else "instead of a tensor: a number or a word"
        rows.append(Setting(name, parameter.default, source, is_needed=is_needed and is_scalar))
    return rows
