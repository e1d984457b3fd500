"""Files of NKI kernels: the kernel that the user named, its arguments, and the program that it becomes."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import BoundArguments, Parameter, getdoc, isclass, isfunction, signature
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from npuviz.base.errors import FormatError, NpuvizError, SettingsNeeded, UsageError
from npuviz.base.progress import Progress
from npuviz.program.program import Note
from npuviz.program.source import CallSite, LoopTurn, Place, SourceFile
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.check.reference_call import ReferenceCall
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.nki.kernel import Kernel, Traced, lower_traced, trace_on
from npuviz.targets.neuroncore.nki.lowering import Lowered
from npuviz.targets.neuroncore.nki.record.call_stacks import Moment, turn_counts
from npuviz.targets.neuroncore.nki.record.element_types import dtype_of, name_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError, KernelTimeout
from npuviz.targets.neuroncore.nki.sniffing import OWN_NAMES, SHAPE_PREFIX
from npuviz.targets.neuroncore.nki.user_python import (
    imported,
    package_folders,
    stand_ins,
    user_error,
    watched,
)
from npuviz.targets.neuroncore.spec import SETTINGS, NeuronSpec, make_spec

_SHAPE = re.compile(r"^(\d{1,15}(?:x\d{1,15})*)(?::([A-Za-z0-9_]+))?$")
_TYPES = (
    *("float32", "bfloat16", "float16", "float8_e4m3", "float8_e5m2"),
    *("int32", "uint32", "int16", "uint16", "int8", "uint8"),
)
_MANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
MAX_BYTES = 1 << 36
"""Of one argument: what is larger than the memory of a chip is a mistake."""


@dataclass(frozen=True)
class _Recorded:
    """A recorded kernel on its machine.

    given   the kernel's parameters in their order: values, None for the arrays
    chosen  settings of the request that are not the machine's
    """

    spec: NeuronSpec
    notes: tuple[Note, ...]
    traced: Traced
    given: dict[str, Any]
    chosen: Mapping[str, str]


def compile_kernel(request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, tuple[Note, ...], Compiled]:
    """Record the kernel that the user named and lower it. Raises FormatError, UsageError, KernelError."""
    progress.report(-1.0, "running the kernel's Python")
    with stand_ins(request.path.parent, *package_folders(request.path)):
        found = watched(lambda: _record(request), progress, request.path)
    traced, chosen = found.traced, found.chosen
    lowered = lower_traced(traced, found.spec, progress)
    compiled = _with_sources(traced, lowered)
    if "reference" in chosen:
        outputs = tuple((each.storage.name, each.shape) for each in traced.outputs)
        call = ReferenceCall(request.path, chosen["reference"], found.given, outputs, traced.changed)
        compiled = replace(compiled, reference=call)
    return found.spec, found.notes, compiled


def _with_sources(traced: Traced, lowered: Lowered) -> Compiled:
    """The program with the texts that its instructions come from."""
    recording = traced.recording
    files: dict[str, int] = {}
    for number in lowered.lines:
        if number >= 0:
            files.setdefault(recording.places[number].file, len(files))
    for moment in recording.moments:
        for call in moment.calls:
            files.setdefault(call.file, len(files))
    sources: list[SourceFile] = []
    for path in files:
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        sources.append(SourceFile(Path(path).name, text, path, "python"))
    lines: list[Place | None] = []
    for number in lowered.lines:
        place = recording.places[number] if number >= 0 else None
        lines.append(Place(files[place.file], place.line) if place is not None else None)
    moments = tuple(_call_sites(recording.moments, files))
    return replace(lowered.compiled, sources=tuple(sources), lines=tuple(lines), moments=moments)


def _call_sites(moments: Sequence[Moment], files: Mapping[str, int]) -> Iterator[tuple[CallSite, ...]]:
    """Moments as listings have them."""
    for moment, ranks in zip(moments, turn_counts(moments), strict=True):
        sites: list[CallSite] = []
        for call, turns in zip(moment.calls, ranks, strict=True):
            file = files[call.file]
            loops = tuple(
                LoopTurn(Place(file, loop.line), loop.variable, loop.value, *turn)
                for loop, turn in zip(call.loops, turns, strict=True)
            )
            sites.append(CallSite(call.function, Place(file, call.line), loops))
        yield tuple(sites)


def _record(request: LoadRequest) -> _Recorded:
    """The recorded kernel. A setting that has the name of one of its parameters is that parameter."""
    settings = dict(request.settings)
    make_spec(request.preset or "trn2", request.config)  # before any Python of the user's runs
    module = imported(request.path)
    kernel = _kernel_of(module, settings.get("kernel", ""), request.path)
    if "grid" in settings:
        kernel = kernel[_whole_numbers("grid", settings["grid"])]
    own = {name: text for name, text in settings.items() if name not in kernel.parameters}
    machine = SETTINGS.names.own(own)
    spec, notes = make_spec(request.preset or "trn2", request.config, machine)
    chosen = {name: text for name, text in settings.items() if name not in machine}
    arguments = _arguments(kernel, chosen, request.inputs)
    try:
        drawn = [name for name in arguments if name not in request.inputs]
        bound = BoundArguments(signature(kernel.function), arguments)
        bound.apply_defaults()
        traced = trace_on(kernel, bound.args, bound.kwargs, spec, (drawn, request.seed))
    except (KernelTimeout, NpuvizError):
        raise
    except Exception as error:
        raise user_error(error, request.path) from error
    given: dict[str, Any] = {}
    for name, parameter in kernel.parameters.items():
        if name in arguments or parameter.default is not parameter.empty:
            value = arguments.get(name, parameter.default)
            given[name] = None if isinstance(value, np.ndarray) else value
    return _Recorded(spec, notes, traced, given, chosen)


def _kernel_of(module: ModuleType, name: str, path: Path) -> Kernel:
    """The kernel of a name, or the only one."""
    found = {key: made for key, value in _named(module).items() if (made := _as_kernel(value)) is not None}
    if name:
        if name in found:
            return found[name]
        chosen: Any = vars(module).get(name)
        if isfunction(chosen):
            return Kernel(chosen, 1 if b"neuronxcc" in path.read_bytes() else 2)
        others = [key for key, value in vars(module).items() if key not in found and isfunction(value)]
        names = ", ".join(found) or f"no kernel; its functions are {', '.join(others) or 'none'}"
        raise UsageError(f"--kernel {name[:80]}: {path.name} has {names}")
    own = {key: value for key, value in found.items() if value.function.__module__ == module.__name__}
    if len(own) == 1:
        return next(iter(own.values()))
    if not own:
        raise FormatError(f"{path.name}: no function under nki.jit; name one with --kernel NAME")
    raise SettingsNeeded(f"{path.name} has several kernels: choose one with --kernel: {', '.join(own)}")


def _named(module: ModuleType) -> dict[str, Any]:
    """What a module holds, and what its classes hold that needs no object of the class ("Class.name")."""
    found = dict(vars(module))
    for key, value in vars(module).items():
        if not isclass(value) or value.__module__ != module.__name__:
            continue
        for name, member in vars(value).items():
            inner = getattr(member, "__func__", member) if isinstance(member, staticmethod) else member
            if isinstance(inner, Kernel) and next(iter(inner.parameters), "") not in ("self", "cls"):
                found[f"{key}.{name}"] = inner
    return found


def _as_kernel(value: Any) -> Kernel | None:
    """A kernel, also one that further decorators wrap (with functools.wraps); None for anything else."""
    if isinstance(value, Kernel):
        return value
    inner: Any = value
    while isfunction(inner):
        inner = getattr(inner, "__wrapped__", None)
    return Kernel(value, inner.version, inner.grid, inner.mode) if isinstance(inner, Kernel) else None


def _whole_numbers(name: str, text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise UsageError(f"--{name} {text[:80]}: expected whole numbers, as 2 or 4x2") from None
    if any(each < 1 for each in found):
        raise UsageError(f"--{name} {text[:80]}: expected numbers of at least 1")
    return found


def _arguments(kernel: Kernel, chosen: Mapping[str, str], inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The kernel's arguments: arrays that are given, empty ones of given shapes, numbers by name."""
    parameters = kernel.parameters
    shapes = {key[len(SHAPE_PREFIX) :]: text for key, text in chosen.items() if key.startswith(SHAPE_PREFIX)}
    values = {
        key: text for key, text in chosen.items() if key not in OWN_NAMES and not key.startswith(SHAPE_PREFIX)
    }
    for option, names in (("--input", inputs), ("--shape", shapes), ("--set", values)):
        for name in names:
            if name not in parameters:
                if option == "--set":
                    raise SETTINGS.names.unknown(name)
                raise UsageError(f"{option} {name[:80]}: the kernel's parameters are {', '.join(parameters)}")
            if parameters[name].kind in _MANY:
                raise UsageError(
                    f"{option} {name[:80]}: {parameters[name]} stands for any number of arguments; "
                    "write a function with named parameters that calls the kernel, and name that one"
                )
    arguments: dict[str, Any] = {name: _given(name, array) for name, array in inputs.items()}
    for name, text in shapes.items():
        made = _placeholder(name, text)
        arguments[name] = _shaped(name, text, arguments[name], made) if name in arguments else made
    for name, text in values.items():
        try:
            arguments[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            arguments[name] = text
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in arguments and parameter.default is parameter.empty and parameter.kind not in _MANY
    ]
    if missing:
        given = " ".join(f"--shape {name}=128x512:float32" for name in missing)
        code = kernel.function.__code__
        raise SettingsNeeded(
            f"{Path(code.co_filename).name}:{code.co_firstlineno}: the kernel {code.co_name} needs "
            f"{', '.join(missing)}: give --input NAME=FILE.npy or, for example, {given}"
            f"{_described(kernel.function)}"
        )
    return arguments


def _described(function: Any) -> str:
    """The first line of a kernel's docstring, where shapes are often told; nothing if there is none."""
    text = (getdoc(function) or "").strip().partition("\n")[0]
    return f"; it is described as: {text[:200]}" if text else ""


def _placeholder(name: str, text: str) -> np.ndarray:
    match = _SHAPE.match(text)
    if match is None:
        raise UsageError(f"--shape {name}={text[:80]}: expected sizes and a type, as 128x512:bfloat16")
    sizes = tuple(int(part) for part in match[1].split("x"))
    try:
        dtype = dtype_of((match[2] or "float32").lower())
    except KernelError as error:
        raise UsageError(f"--shape {name}={text[:80]}: {error}; known: {', '.join(_TYPES)}") from None
    if 0 in sizes:
        raise UsageError(f"--shape {name}={text[:80]}: a size is at least 1")
    if prod(sizes) * dtype.itemsize > MAX_BYTES:
        size = prod(sizes) * dtype.itemsize / 1e9
        most = MAX_BYTES / 1e9
        raise UsageError(f"--shape {name}={text[:80]}: {size:.3g} GB; an argument has at most {most:.3g}")
    return np.broadcast_to(np.zeros((), dtype), sizes)


def _given(name: str, array: np.ndarray) -> np.ndarray:
    """An array of the user's, if engines have its type."""
    try:
        name_of(dtype_of(array.dtype))
    except KernelError as error:
        raise UsageError(f"--input {name}: {error}; known: {', '.join(_TYPES)}") from None
    return array


def _shaped(name: str, text: str, array: np.ndarray, made: np.ndarray) -> np.ndarray:
    """An array that is given in the type that its --shape says. Raises UsageError for another shape."""
    if array.shape != made.shape:
        found = list(array.shape)
        raise UsageError(f"--shape {name}={text[:80]}: the array of --input {name} has shape {found}")
    return array.astype(made.dtype) if ":" in text else array
