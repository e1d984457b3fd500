"""Files of NKI kernels: found, imported beside stand-ins for the vendor's packages, recorded, lowered."""

import ast
import ctypes
import importlib.util
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numpy as np

from npuviz.base.errors import FormatError, NpuvizError, UsageError
from npuviz.base.progress import Progress
from npuviz.program.program import Note
from npuviz.program.source import Place, SourceFile
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.compiler.compiled import Compiled
from npuviz.targets.neuroncore.nki.kernel import Kernel, Traced, lower_traced, trace_on
from npuviz.targets.neuroncore.nki.lowering import Lowered
from npuviz.targets.neuroncore.nki.record.element_types import dtype_of
from npuviz.targets.neuroncore.nki.record.errors import KernelError, KernelTimeout
from npuviz.targets.neuroncore.spec import SETTINGS, NeuronSpec, make_spec

SHIMS = Path(__file__).parent / "shims"
"""Holds the packages `neuronxcc` and `nki` that kernel files import."""
MAX_SECONDS = 60.0
"""For which the Python of a kernel may run."""
_OWN_NAMES = ("kernel", "grid")
_SHAPE_PREFIX = "shape."
_SHAPE = re.compile(r"^(\d+(?:x\d+)*)(?::([a-z0-9_]+))?$")
_OUTER_MODULES = ("neuronxcc", "nki")
Result = TypeVar("Result")


def compile_kernel(request: LoadRequest, progress: Progress) -> tuple[NeuronSpec, tuple[Note, ...], Compiled]:
    """Record the kernel that the user named and lower it. Raises FormatError, UsageError, KernelError."""
    settings = dict(request.settings)
    machine = SETTINGS.names.own(settings)
    spec, notes = make_spec(request.preset or "trn2", request.config, machine)
    chosen = {name: text for name, text in settings.items() if name not in machine}
    progress.report(-1.0, "running the kernel's Python")
    with _stand_ins(request.path):
        traced = _watched(lambda: _record(request, chosen, spec), progress, request.path)
    lowered = lower_traced(traced, spec, progress)
    return spec, notes, _with_sources(traced, lowered)


def _with_sources(traced: Traced, lowered: Lowered) -> Compiled:
    """The program with the texts that its instructions come from."""
    recording = traced.recording
    files: dict[str, int] = {}
    for number in lowered.lines:
        if number >= 0:
            files.setdefault(recording.places[number].file, len(files))
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
    return replace(lowered.compiled, sources=tuple(sources), lines=tuple(lines))


def _record(request: LoadRequest, chosen: Mapping[str, str], spec: NeuronSpec) -> Traced:
    module = _module(request.path)
    kernel = _kernel_of(module, chosen.get("kernel", ""), request.path)
    if "grid" in chosen:
        kernel = kernel[_whole_numbers("grid", chosen["grid"])]
    arguments = _arguments(kernel, chosen, request.inputs)
    try:
        return trace_on(kernel, (), arguments, spec)
    except (KernelTimeout, NpuvizError):
        raise
    except Exception as error:
        raise KernelError(_user_error(error, request.path)) from error


def _user_error(error: BaseException, path: Path) -> str:
    """One line about an exception of the user's own Python: where and what."""
    own = str(Path(__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not frame.filename.startswith(own)]
    inside = [frame for frame in users if Path(frame.filename).resolve() == path.resolve()]
    place = (inside or users or frames)[-1:]
    where = f"{Path(place[0].filename).name}:{place[0].lineno}: " if place else ""
    return f"{where}{type(error).__name__}: {error}"


def _module(path: Path) -> ModuleType:
    """The imported file. Raises FormatError, KernelError."""
    text = path.read_bytes()
    try:
        ast.parse(text, str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise FormatError(f"{path.name}:{line or 1}: {getattr(error, 'msg', error)}") from None
    found = importlib.util.spec_from_file_location(f"npuviz_kernel_{abs(hash(str(path)))}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    try:
        found.loader.exec_module(module)
    except (KernelTimeout, NpuvizError):
        raise
    except Exception as error:
        raise KernelError(_user_error(error, path)) from error
    finally:
        sys.modules.pop(found.name, None)
    return module


def _kernel_of(module: ModuleType, name: str, path: Path) -> Kernel:
    """The kernel of a name, or the only one."""
    found = {key: value for key, value in vars(module).items() if isinstance(value, Kernel)}
    if name:
        chosen: Any = vars(module).get(name)
        if isinstance(chosen, Kernel):
            return chosen
        if callable(chosen):
            return Kernel(chosen, 1 if b"neuronxcc" in path.read_bytes() else 2)
        raise UsageError(f"--kernel {name[:80]}: {path.name} has {', '.join(found) or 'no kernel'}")
    own = {key: value for key, value in found.items() if value.function.__module__ == module.__name__}
    if len(own) == 1:
        return next(iter(own.values()))
    if not own:
        raise FormatError(f"{path.name}: no function under nki.jit; name one with --kernel NAME")
    raise UsageError(f"{path.name} has several kernels: choose one with --kernel: {', '.join(own)}")


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
    shapes = {
        key[len(_SHAPE_PREFIX) :]: text for key, text in chosen.items() if key.startswith(_SHAPE_PREFIX)
    }
    values = {
        key: text
        for key, text in chosen.items()
        if key not in _OWN_NAMES and not key.startswith(_SHAPE_PREFIX)
    }
    for option, names in (("--input", inputs), ("--shape", shapes), ("--set", values)):
        for name in names:
            if name not in parameters:
                if option == "--set":
                    raise SETTINGS.names.unknown(name)
                raise UsageError(f"{option} {name[:80]}: the kernel's parameters are {', '.join(parameters)}")
    arguments: dict[str, Any] = dict(inputs)
    for name, text in shapes.items():
        arguments.setdefault(name, _placeholder(name, text))
    for name, text in values.items():
        try:
            arguments[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            arguments[name] = text
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in arguments
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if missing:
        given = " ".join(f"--shape {name}=128x512:float32" for name in missing)
        name = kernel.function.__name__
        raise UsageError(
            f"the kernel {name} needs {', '.join(missing)}: give --input NAME=FILE.npy or {given}"
        )
    return arguments


def _placeholder(name: str, text: str) -> np.ndarray:
    match = _SHAPE.match(text)
    if match is None:
        raise UsageError(f"--shape {name}={text[:80]}: expected sizes and a type, as 128x512:bfloat16")
    sizes = tuple(int(part) for part in match[1].split("x"))
    return np.broadcast_to(np.zeros((), dtype_of(match[2] or "float32")), sizes)


@contextmanager
def _stand_ins(path: Path) -> Generator[None]:
    """Let imports find the stand-ins and the kernel's own folder; forget afterwards what was imported."""
    before = set(sys.modules)
    outer = [name for name in sys.modules if name.split(".")[0] in _OUTER_MODULES]
    kept = {name: sys.modules.pop(name) for name in outer}
    folders = [str(SHIMS), str(path.parent.resolve())]
    sys.path[:0] = folders
    try:
        yield
    finally:
        for folder in folders:
            if folder in sys.path:
                sys.path.remove(folder)
        own = str(path.parent.resolve())
        for name in set(sys.modules) - before:
            origin = getattr(sys.modules.get(name), "__file__", None) or ""
            if name.split(".")[0] in _OUTER_MODULES or origin.startswith(own):
                sys.modules.pop(name, None)
        sys.modules.update(kept)


def _watched(work: Callable[[], Result], progress: Progress, path: Path) -> Result:
    """Run the user's Python so that it can be cancelled and ends after a while.

    Raises what the work raised, UsageError when it ran for too long, Cancelled from `progress`.
    """
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="kernel", daemon=True)
    started = time.monotonic()
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.05)
            progress.report(-1.0, "running the kernel's Python")
            if time.monotonic() - started > MAX_SECONDS:
                _stop(thread)
                raise UsageError(
                    f"{path.name}: its Python ran for {MAX_SECONDS:g} seconds without an end; look for a "
                    "loop that does not end, or make the kernel smaller"
                )
    except BaseException:
        _stop(thread)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _stop(thread: threading.Thread) -> None:
    """Raise KernelTimeout in a thread, at its next line of Python."""
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(KernelTimeout)
        )
        thread.join(1.0)


def described(path: Path) -> Sequence[tuple[str, Sequence[str]]]:
    """Names and parameters of the kernels that a file defines, from its text; nothing is run.

    Raises FormatError.
    """
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise FormatError(
            f"{path.name}:{getattr(error, 'lineno', 1)}: {getattr(error, 'msg', error)}"
        ) from None
    found: list[tuple[str, Sequence[str]]] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(
            "jit" in ast.unparse(each) for each in node.decorator_list
        ):
            found.append((node.name, [argument.arg for argument in node.args.args]))
    return found
