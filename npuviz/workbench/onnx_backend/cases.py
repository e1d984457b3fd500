"""Runs the node cases of onnx's backend test on a simulated machine, and puts each in a category."""

import re
import signal
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.base.errors import NpuvizError, SimulationError
from npuviz.onnx.semantics.operators import RANDOM
from npuviz.sim.check_result import Verdict
from npuviz.workbench.onnx_backend.execution import (
    Execution,
    ExecutionFault,
    ExecutionOptions,
    as_array,
    execute,
    is_float,
)

PASS = "pass"
HOST = "host"
FOLDED = "folded"
ROUNDING = "rounding"
COARSE = "coarse"
RUNTIME = "runtime"
UNSUPPORTED = "unsupported"
FAIL = "fail"
CATEGORIES = (PASS, COARSE, HOST, FOLDED, ROUNDING, RUNTIME, UNSUPPORTED, FAIL)
"""pass: right, every operator on the engines
coarse: every operator on the engines, outside of onnx's tolerance, but within the tolerance of the machine's
number types, either by the machine's own check or for the inputs as those types hold them
host: right, but some operator ran on the host
folded: right, but all inputs are parameters, so that the compiler computed the result
rounding: wrong by at most two units in the last place of the largest element of the tensor
runtime: not the expected values, but exactly those of ONNX Runtime, which computed the single operator on the
host
unsupported: refused with a reason
fail: wrong values, a run that did not end, or an exception"""
CASE_SECONDS = 120
"""Longest time a case may take."""
SAME = 1e-3
"""Share of the largest element by which ONNX Runtime and ONNX's expected values may differ."""
EXPANDED = "_expanded"
_MODEL_FILE = re.compile(r"\S*/model\.onnx[,:]? ?")
"""Path in error messages of the temporary file of a case; left out of reasons."""


@dataclass(frozen=True)
class CaseResult:
    """One case.

    operator  of the single node; for a function body, of the case that it belongs to
    reasons   why not everything ran on the engines, or what went wrong
    parameters  inputs that were compiled into the program
    is_narrowed  whether float64 was computed in a narrower type
    """

    name: str
    operator: str
    is_body: bool
    category: str
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    cycles: int = 0
    parameters: tuple[str, ...] = ()
    is_narrowed: bool = False


def load_cases() -> list[Any]:
    """Load the node cases (onnx.backend.test.case.test_case.TestCase), in onnx's order."""
    with warnings.catch_warnings():
        # Making the expected values overflows and divides by zero on purpose.
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            from onnx.backend.test.loader import load_model_tests

            return list(load_model_tests(kind="node"))


def operator_of(case: Any, operators: Mapping[str, str]) -> str:
    """Return the operator that a case tests. operators  name of a case that is no function body -> its
    operator"""
    nodes = case.model.graph.node
    if EXPANDED not in case.name:
        return "+".join(dict.fromkeys(node.op_type for node in nodes))
    base = case.name.split(EXPANDED)[0]
    return operators.get(base) or operators.get(base.removesuffix("_function"), base)


def single_operators(cases: Iterable[Any]) -> dict[str, str]:
    """Return name -> operator of the cases that are no function bodies."""
    return {case.name: operator_of(case, {}) for case in cases if EXPANDED not in case.name}


def run_case(case: Any, operator: str, options: ExecutionOptions) -> CaseResult:
    """Run one case and put its result in a category. Never raises, except for an interrupt."""
    begin = time.perf_counter()
    category, reasons = PASS, list[str]()
    cycles, parameters, is_narrowed = 0, tuple[str, ...](), False
    try:
        with _time_limit(CASE_SECONDS):
            for inputs, expected in case.data_sets:
                category, found, run = _run_data_set(case, inputs, expected, options)
                reasons += found
                if run is not None:
                    cycles, parameters, is_narrowed = run.cycles, run.parameters, run.is_narrowed
    except ExecutionFault as error:
        category, reasons = FAIL, [str(error)]
    except SimulationError as error:
        category, reasons = FAIL, [f"bug: {error}"]
    except NpuvizError as error:
        category, reasons = UNSUPPORTED, [_short(str(error))]
    except AssertionError as error:
        category, reasons = FAIL, [f"values differ: {_short(str(error))}"]
    except Exception as error:
        category, reasons = FAIL, [f"{type(error).__name__}: {_short(str(error))}"]
    seconds = round(time.perf_counter() - begin, 4)
    is_body = EXPANDED in case.name
    return CaseResult(
        case.name, operator, is_body, category, tuple(reasons), seconds, cycles, parameters, is_narrowed
    )


def _run_data_set(
    case: Any, inputs: Sequence[Any], expected: Sequence[Any], options: ExecutionOptions
) -> tuple[str, list[str], Execution | None]:
    import onnx
    from onnx.backend.test.runner import Runner

    arrays, wanted = (
        [as_array(each) if isinstance(each, onnx.TensorProto) else each for each in given]
        for given in (inputs, expected)
    )
    random = sorted(_random_operators(case, arrays))
    if random:
        return UNSUPPORTED, [f"random numbers ({', '.join(random)}): no value is the expected one"], None
    run = execute(case.model, arrays, options)
    on_host = [f"{node}: {reason}" for node, reason in run.host_nodes.items()]
    try:
        Runner.assert_similar_outputs(wanted, run.outputs, rtol=case.rtol, atol=case.atol)
    except AssertionError:
        difference = [_largest_difference(run.outputs, wanted)]
        if all(is_rounding(*pair) for pair in zip(run.outputs, wanted, strict=True)):
            return ROUNDING, difference, run
        if len(run.nodes) == 1 and on_host and _is_of_runtime(case.model, arrays, run):
            return RUNTIME, [*on_host, *difference], run
        if not _is_coarse(run, wanted):
            if not _is_right_for_held(case.model, arrays, run, wanted):
                raise
            difference.append(f"the machine's type has no such inputs: {', '.join(run.held)}")
        return (HOST if on_host else COARSE), difference + on_host, run
    if on_host:
        return HOST, on_host, run
    if not run.nodes:
        return FOLDED, [f"known when compiling: {', '.join(run.parameters) or 'no inputs'}"], run
    return PASS, [], run


def _is_of_runtime(model: Any, inputs: Sequence[Any], run: Execution) -> bool:
    """Return whether the outputs equal those of ONNX Runtime for the unchanged model; False if it refuses
    it."""
    made = _runtime_outputs(model, inputs, {})
    return len(made) == len(run.outputs) and all(map(np.array_equal, run.outputs, made))


def _runtime_outputs(model: Any, inputs: Sequence[Any], others: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run the model in ONNX Runtime with the inputs, those in `others` replaced. Returns [] if it refuses."""
    from npuviz.onnx.runtime import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    providers = ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
        names = [value.name for value in session.get_inputs()]
        given = {**dict(zip(names, map(np.asarray, inputs), strict=False)), **others}
        return [np.asarray(each) for each in session.run(None, given)]
    except Exception:  # the runtime's refusals have no type in common
        return []


def _is_coarse(run: Execution, expected: Sequence[Any]) -> bool:
    """Return whether the machine's own check passes, and outputs are within its end-to-end tolerance."""
    check = run.check()
    if not check.is_passed or check.end_to_end is None:
        return False
    return _are_within(run.outputs, expected, check.end_to_end)


def _is_right_for_held(model: Any, inputs: Sequence[Any], run: Execution, expected: Sequence[Any]) -> bool:
    """Return whether the outputs are right for the inputs as rounded by the machine's number types.

    That is: no operator fails the machine's check, the outputs are within its tolerance of ONNX Runtime's
    outputs
    for the rounded inputs, and ONNX Runtime's outputs for the given inputs are the expected ones.
    """
    if not run.held:
        return False
    check = run.check()
    if check.end_to_end is None or check.per_operator is None or check.per_operator.num_failed:
        return False
    given, held = (_runtime_outputs(model, inputs, others) for others in ({}, run.held))
    return (
        len(given) == len(held) == len(run.outputs)
        and _are_within(run.outputs, held, check.end_to_end)
        and all(is_within(*pair, SAME) for pair in zip(given, expected, strict=True))
    )


def _are_within(outputs: Sequence[np.ndarray], expected: Sequence[Any], verdict: Verdict) -> bool:
    """Return whether each output is within its own tolerance of a check end to end."""
    shares = verdict.output_shares
    if len(shares) != len(outputs):
        shares = (verdict.share,) * len(outputs)
    return all(is_within(*each) for each in zip(outputs, expected, shares, strict=True))


def is_within(actual: np.ndarray, expected: Any, share: float) -> bool:
    """Return whether floats differ by at most a share of the largest finite expected value, 8-bit integers
    by at
    most 1 (a value close to half way may round either way), and all others not at all."""
    expected = np.asarray(expected) if isinstance(expected, np.generic) else expected
    if not isinstance(expected, np.ndarray) or actual.dtype != expected.dtype:
        return False
    if actual.shape == expected.shape and expected.dtype in (np.int8, np.uint8):
        return bool((np.abs(actual.astype(np.int64) - expected.astype(np.int64)) <= 1).all())
    if actual.shape != expected.shape or not is_float(expected):
        return bool(actual.shape == expected.shape and np.array_equal(actual, expected))
    found, wanted = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wanted)
    if not np.array_equal(found[~finite], wanted[~finite], equal_nan=True):
        return False
    largest = np.abs(wanted[finite]).max(initial=0)
    return bool((np.abs(found[finite] - wanted[finite]) <= share * largest).all())


def _largest_difference(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    pairs = [
        (np.abs(one.astype(np.float64) - other.astype(np.float64)).max(), np.abs(other).max())
        for one, other in zip(actual, expected, strict=True)
        if one.size
    ]
    difference, largest = max(pairs)
    return f"differs by up to {difference:.2g} where the largest element is {float(largest):.3g}"


def is_rounding(actual: np.ndarray, expected: Any) -> bool:
    """Return whether floats differ by at most two units in the last place of the largest expected value.

    A sum whose terms cancel has an error of that size in any implementation, the expected values included.
    """
    if not isinstance(expected, np.ndarray) or actual.dtype != expected.dtype:
        return False
    if actual.shape != expected.shape or expected.dtype.kind != "f" or not expected.size:
        return bool(actual.shape == expected.shape and np.array_equal(actual, expected))
    largest = np.abs(expected).max()
    if not np.isfinite(largest):
        return False
    error = np.abs(actual.astype(np.float64) - expected.astype(np.float64)).max()
    return bool(error <= 2 * np.spacing(largest))


def _random_operators(case: Any, inputs: Sequence[Any]) -> Iterator[str]:
    names = [value.name for value in case.model.graph.input]
    values = dict(zip(names, inputs, strict=False))
    for node in case.model.graph.node:
        if node.op_type in RANDOM:
            yield node.op_type
        elif node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
            ratio = values.get(node.input[1]) if node.input[1] else 0.5
            if bool(np.all(values.get(node.input[2], False))) and ratio is not None and np.any(ratio):
                yield "Dropout in training"


def _short(text: str) -> str:
    plain = _MODEL_FILE.sub("", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return " | ".join(lines[:6])[:300] if lines else "no message"


@contextmanager
def _time_limit(seconds: int) -> Generator[None]:
    def stop(*_: object) -> None:
        raise ExecutionFault(f"took more than {seconds} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
