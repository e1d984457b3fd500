"""A kernel's results against a function of the user's own, and the line where they part."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.base.progress import Progress
from npuviz.onnx.check.errors import FLOAT_LIMITS, INTEGERS, Errors, float_errors, integer_errors
from npuviz.onnx.check.spread import spread_of
from npuviz.program.program import Program
from npuviz.program.source import line_of
from npuviz.sim.check_result import CheckResult, Finding, TensorErrors, Verdict
from npuviz.targets.neuroncore.check.origin import Bad, first_divergence
from npuviz.targets.neuroncore.check.reference_call import ReferenceCall
from npuviz.targets.neuroncore.isa import DTYPE_NAMES, Space
from npuviz.targets.neuroncore.nki.frameworks import array_of
from npuviz.targets.neuroncore.nki.record.errors import KernelTimeout
from npuviz.targets.neuroncore.nki.user_python import imported, stand_ins, user_error, watched
from npuviz.targets.neuroncore.values.engine import ValueEngine

_FLOATS = tuple(FLOAT_LIMITS)
NO_VALUE = "the reference gives no value for them"


def check_kernel(engine: ValueEngine, program: Program, log: np.ndarray, progress: Progress) -> CheckResult:
    """Compare what a finished kernel left with what its program's reference says.

    Raises UsageError for a reference that cannot be found or called, KernelError for one that fails.
    """
    call: ReferenceCall = program.payload.reference
    inputs = {name: np.array(values) for name, values in program.payload.inputs.items()}
    expected = watched(partial(_expected, call, inputs), progress, call.path)
    comparison = _Comparison(engine, program, log)
    with engine.at(log, engine.edits):
        for name, shape in (*call.outputs, *((name, ()) for name in call.changed)):
            if name not in comparison.seen:
                comparison.compare(name, shape, expected.get(name))
        return comparison.result()


# --- what is expected ------------------------------------------------------------------------------


def _expected(call: ReferenceCall, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Tensor -> what the reference gives for it. Narrow floats go in as float32."""
    arrays = {name: _widened(values) for name, values in inputs.items()}
    before = {name: arrays[name].copy() for name in call.changed if name in arrays}
    with stand_ins(call.path.parent, Path.cwd()):
        function, path = _found(call)
        positional, named = _arguments(function, call, arrays)
        try:
            result = function(*positional, **named)
        except (KernelTimeout, NpuvizError):
            raise
        except Exception as error:
            raise user_error(error, path) from error
    found = _by_name(call, result)
    for name, values in before.items():
        if name not in found and not np.array_equal(values, arrays[name], equal_nan=values.dtype.kind == "f"):
            found[name] = arrays[name]
    return found


def _widened(values: np.ndarray) -> np.ndarray:
    is_narrow = values.dtype.kind not in "iub" and values.dtype.itemsize < 4
    return values.astype(np.float32) if is_narrow else values.copy()


def _found(call: ReferenceCall) -> tuple[Callable[..., Any], Path]:
    """The function and its file. Raises UsageError, FormatError, KernelError."""
    where, _, name = call.text.rpartition(":")
    option = f"--reference {call.text[:120]}"
    if not name.isidentifier():
        raise UsageError(
            f"{option}: expected module:function, file.py:function or a function of the kernel's file"
        )
    path, file = call.path, call.path.name
    if where:
        file = where if where.endswith(".py") else where.replace(".", "/") + ".py"
        places = [folder / file for folder in (Path.cwd(), call.path.parent)]
        path = next((each for each in places if each.is_file()), Path(where))
    if path.is_file():
        module = imported(path)
    else:
        try:
            module = __import__(where, fromlist=[name])
        except ImportError as error:
            if not where.startswith(error.name or "?"):
                raise user_error(error, path) from error
            raise UsageError(
                f"{option}: no module {where}, and no file {file} in {Path.cwd()} or {call.path.parent}"
            ) from None
        except Exception as error:
            raise user_error(error, path) from error
    function = vars(module).get(name)
    if not callable(function):
        names = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise UsageError(f"{option}: {path.name} has no function {name}; it has {', '.join(names) or 'none'}")
    return function, path


def _arguments(
    function: Callable[..., Any], call: ReferenceCall, arrays: Mapping[str, np.ndarray]
) -> tuple[list[Any], dict[str, Any]]:
    """The kernel's arguments by the names that both functions have, else in their order."""
    values = {name: arrays.get(name, value) for name, value in call.parameters.items()}
    try:
        wanted = inspect.signature(function).parameters
    except ValueError:  # a function of numpy itself
        return list(values.values()), {}
    takes_all = any(each.kind is each.VAR_KEYWORD for each in wanted.values())
    needed = [
        name
        for name, each in wanted.items()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    is_named = not any(each.kind is each.POSITIONAL_ONLY for each in wanted.values())
    if is_named and all(name in values for name in needed):
        return [], {name: value for name, value in values.items() if takes_all or name in wanted}
    for given in (list(arrays.values()), [v for n, v in values.items() if n not in call.changed]):
        if len(given) == len(needed):
            return given, {}
    name = getattr(function, "__name__", call.text)
    raise UsageError(
        f"--reference {call.text[:120]}: {name} takes {', '.join(needed)}; the kernel's parameters are "
        f"{', '.join(values)}"
    )


def _by_name(call: ReferenceCall, result: Any) -> dict[str, np.ndarray]:
    """Results by the tensors that they are for: in order, or as a dictionary names them."""
    if result is None:
        return {}
    names = [*(name for name, _ in call.outputs), *call.changed]
    names = list(dict.fromkeys(names))
    if isinstance(result, Mapping):
        unknown = [str(name) for name in result if name not in names]
        if unknown:
            raise UsageError(
                f"--reference {call.text[:120]}: it gives {', '.join(unknown)}; "
                f"the kernel writes {', '.join(names)}"
            )
        pairs = list(result.items())
    else:
        values = list(result) if isinstance(result, tuple | list) else [result]
        if len(values) > len(names):
            raise UsageError(
                f"--reference {call.text[:120]}: it gives {len(values)} values; "
                f"the kernel writes {', '.join(names)}"
            )
        pairs = list(zip(names, values, strict=False))
    return {name: _array(value) for name, value in pairs if value is not None}


def _array(value: Any) -> np.ndarray:
    found = array_of(value)
    return np.asarray(value) if found is None else found


# --- comparison --------------------------------------------------------------------------------------


@dataclass
class _Comparison:
    """Tensors compared so far."""

    engine: ValueEngine
    program: Program
    log: np.ndarray
    seen: dict[str, str] = field(default_factory=dict[str, str])
    findings: list[Finding] = field(default_factory=list[Finding])
    bad: list[Bad] = field(default_factory=list[Bad])
    rules: dict[str, None] = field(default_factory=dict[str, None])
    left_out: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    tensors: list[TensorErrors] = field(default_factory=list[TensorErrors])
    largest: tuple[float, float] = (0.0, 0.0)

    def compare(self, name: str, shape: tuple[int, ...], expected: np.ndarray | None) -> None:
        """One tensor, as the kernel returned it: of `shape`, () for all of it."""
        graph = self.program.graph
        tensor = next(each.id for each in graph.tensors if each.name == name)
        if expected is None:
            self.seen[name] = "not compared"
            self.left_out.setdefault(NO_VALUE, []).append(name)
            return
        number = self.engine.variable_of(tensor)
        found = np.asarray(self.engine.variable(number))
        shape = shape or graph.tensors[tensor].shape
        if _without_ones(shape) != _without_ones(expected.shape):
            text = f"has shape {list(shape)}, the reference's has {list(expected.shape)}"
            self._wrong(name, text)
            return
        if found.size != expected.size:
            self.seen[name] = "not compared"
            self.left_out.setdefault("the kernel returns a part of the tensor", []).append(name)
            return
        self._compare_values(name, tensor, found.reshape(-1), expected.reshape(-1))

    def _compare_values(self, name: str, tensor: int, found: np.ndarray, expected: np.ndarray) -> None:
        errors, distance, limit = _errors(found, expected, _coarsest(self.program, self.engine))
        self.rules[f"{name} {errors.rule}"] = None
        self.largest = max(self.largest[0], errors.absolute), max(self.largest[1], errors.relative)
        unwritten = ~self.engine.written_elements(self.engine.variable_of(tensor))
        wrong = errors.bad | unwritten
        if wrong.any():
            first = int(wrong.argmax())
            at = [int(i) for i in np.unravel_index(first, self.program.graph.tensors[tensor].shape)]
            text = f"is wrong in {int(wrong.sum())} of {wrong.size} elements"
            if unwritten.any():
                text += f", {int(unwritten.sum())} of them never written"
            text += f", by up to {errors.absolute:.3g}"
            text += f"; the first at {at}: {found[first]}, expected {expected[first]}"
            self.bad.append(Bad(tensor, wrong))
            self._wrong(name, text)
        elif distance > limit:
            self.bad.append(Bad(tensor, _farthest(found, expected)))
            self._wrong(name, f"is off by {distance:.3g} (relative L2), allowed {limit:g}")
        else:
            self.seen[name] = "right"
        spread, producer = spread_of(found, expected), self.program.graph.tensors[tensor].producer
        self.tensors.append(
            TensorErrors(tensor, producer, spread, None, self.seen[name], "not measured", limit)
        )

    def _wrong(self, name: str, text: str) -> None:
        self.seen[name] = "wrong"
        self.findings.append(Finding(name, text))

    def result(self) -> CheckResult:
        """The verdict. The contents must be at the end of the log."""
        place = partial(line_of, self.program.listing)
        first, instruction = first_divergence(self.engine, self.program.graph, self.log, self.bad, place)
        if not first and self.findings:
            first = self.findings[0].tensor
        counts = {word: sum(each == word for each in self.seen.values()) for word in ("right", "wrong")}
        rule = "; ".join(self.rules) or "no tensor to compare"
        if not sum(counts.values()):
            raise UsageError("--reference: it gives no value for any tensor that the kernel writes")
        verdict = Verdict(counts["wrong"], counts, *self.largest, first, f"against the reference: {rule}")
        compared = sum(counts.values())
        left = {reason: tuple(names) for reason, names in self.left_out.items()}
        return CheckResult(
            compared, counts["wrong"], *self.largest, first, rule, None, verdict, tuple(self.findings), left,
            tuple(self.tensors), instruction,
        )  # fmt: skip


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _errors(found: np.ndarray, expected: np.ndarray, coarsest: str) -> tuple[Errors, float, float]:
    """Errors of elements, the relative L2 distance, and what is allowed of it."""
    if found.dtype.kind in "iub":
        if expected.dtype.kind in "iub":
            return integer_errors(found, expected, 0, INTEGERS), 0.0, 0.0
        return integer_errors(found, np.rint(expected.astype(np.float64)), 1, "integers within one"), 0.0, 0.0
    tolerance, limit = FLOAT_LIMITS[coarsest]
    with np.errstate(all="ignore"):
        exact = expected.astype(np.float64)
        # What the tensor's type cannot hold is right when it is what the cast makes of it.
        held = np.where(np.isfinite(exact), expected.astype(found.dtype).astype(np.float64), exact)
        held = np.where(np.isfinite(held), exact, held)
        usable = np.isfinite(held) & np.isfinite(found.astype(np.float64))
        apart = np.linalg.norm((found.astype(np.float64) - held)[usable])
        whole = np.linalg.norm(held[usable])
    rule = f"{tolerance.text(coarsest)}, relative L2 {limit:g}"
    return float_errors(found, held, tolerance, rule), float(apart / whole if whole else apart), limit


def _farthest(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """The element that is farthest off."""
    with np.errstate(all="ignore"):
        distance = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    made = np.zeros(found.size, np.bool_)
    made[int(np.nan_to_num(distance).argmax())] = True
    return made


def _coarsest(program: Program, engine: ValueEngine) -> str:
    """The coarsest float type, a key of FLOAT_LIMITS, that the kernel's tensors and tiles have."""
    return coarsest_of(
        {tensor.dtype for tensor in program.graph.tensors} | types_used(engine.tables.instructions)
    )


def types_used(instructions: np.ndarray) -> set[str]:
    """The element types of what instructions read and write."""
    operands = instructions["operands"]
    return {DTYPE_NAMES[number] for number in np.unique(operands["dtype"][operands["space"] != Space.NONE])}


def coarsest_of(types: Iterable[str]) -> str:
    """The key of FLOAT_LIMITS of the coarsest float type among some types; the finest if none is a float."""
    return _FLOATS[max((_FLOATS.index(found) for found in map(_family, types) if found), default=0)]


def _family(dtype: str) -> str:
    """The key of FLOAT_LIMITS of a type, "" for integers."""
    if dtype == "tfloat32":
        return "float16"  # as many bits of a fraction
    return "float8" if dtype.startswith("float8") else dtype if dtype in FLOAT_LIMITS else ""
