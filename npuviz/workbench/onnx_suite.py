"""The node cases of onnx's own backend test, each run on a simulated machine and put in a category.

Cases are shared out over processes; every result is appended to a file at once, so that an interrupted
run goes on where it was and a process that dies costs one case.
"""

import json
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.errors import NpuvizError, SimulationError
from npuviz.workbench.onnx_execution import ExecutionFault, ExecutionOptions, choose_onnx_target, execute

PASS = "pass"
HOST = "host"
FOLDED = "folded"
ROUNDING = "rounding"
UNSUPPORTED = "unsupported"
FAIL = "fail"
CATEGORIES = (PASS, HOST, FOLDED, ROUNDING, UNSUPPORTED, FAIL)
"""pass: wholly on the engines; host: right, but some operator ran on the host; folded: right, but the
compiler knew the result, as all inputs are parameters; rounding: outside of onnx's tolerance by no more
than two units in the last place of the largest element of the tensor; unsupported: refused with a
reason; fail: wrong values, a stuck machine, or an exception."""
CASE_SECONDS = 120
"""Longest time a case may take."""
EXPANDED = "_expanded"
RANDOM_OPERATORS = frozenset(
    ("Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial")
)
_MODEL_FILE = re.compile(r"\S*/model\.onnx[,:]? ?")
"""The file that each case is written to, which means nothing to a reader."""


@dataclass(frozen=True)
class CaseResult:
    """One case.

    operator  of the single node, or of the case whose function body this is
    reasons   why not everything ran on the engines, or what went wrong
    """

    name: str
    operator: str
    is_body: bool
    category: str
    reasons: tuple[str, ...] = ()
    seconds: float = 0.0
    cycles: int = 0


def load_cases(pattern: str = "") -> list[Any]:
    """The node cases (onnx.backend.test.case.test_case.TestCase) whose name matches, in onnx's order."""
    with warnings.catch_warnings():
        # Making the expected values overflows and divides by zero on purpose.
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            from onnx.backend.test.loader import load_model_tests

            cases = load_model_tests(kind="node")
    return [case for case in cases if re.search(pattern, case.name)]


def operator_of(case: Any, operators: Mapping[str, str]) -> str:
    """What a case tests. operators: name of a case with a single node -> its operator."""
    nodes = case.model.graph.node
    if EXPANDED not in case.name:
        return "+".join(dict.fromkeys(node.op_type for node in nodes))
    base = case.name.split(EXPANDED)[0]
    return operators.get(base) or operators.get(base.removesuffix("_function"), base)


def single_operators(cases: Iterable[Any]) -> dict[str, str]:
    """Name -> operator of the cases that are no function bodies."""
    return {case.name: operator_of(case, {}) for case in cases if EXPANDED not in case.name}


def run_case(case: Any, operator: str, options: ExecutionOptions) -> CaseResult:
    """Run one case and say how it went. Never raises, except for an interrupt."""
    begin = time.perf_counter()
    category, reasons, cycles = PASS, [], 0
    try:
        with _time_limit(CASE_SECONDS):
            for inputs, expected in case.data_sets:
                category, found, cycles = _run_data_set(case, inputs, expected, options)
                reasons += found
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
    return CaseResult(case.name, operator, is_body, category, tuple(reasons), seconds, cycles)


def _run_data_set(
    case: Any, inputs: Sequence[Any], expected: Sequence[Any], options: ExecutionOptions
) -> tuple[str, list[str], int]:
    import onnx
    from onnx.backend.test.runner import Runner

    arrays = [
        onnx.numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each for each in inputs
    ]
    wanted = [
        onnx.numpy_helper.to_array(each) if isinstance(each, onnx.TensorProto) else each for each in expected
    ]
    random = sorted(_random_operators(case, arrays))
    if random:
        return UNSUPPORTED, [f"random numbers ({', '.join(random)}): no value is the expected one"], 0
    run = execute(case.model, arrays, options)
    try:
        Runner.assert_similar_outputs(wanted, run.outputs, rtol=case.rtol, atol=case.atol)
    except AssertionError as error:
        if not all(is_rounding(*pair) for pair in zip(run.outputs, wanted, strict=True)):
            raise
        return ROUNDING, [f"{_short(str(error))}"], run.cycles
    if run.host_nodes:
        return HOST, [f"{node}: {reason}" for node, reason in run.host_nodes.items()], run.cycles
    if not run.nodes:
        return FOLDED, [f"known when compiling: {', '.join(run.parameters) or 'no inputs'}"], run.cycles
    return PASS, [], run.cycles


def is_rounding(actual: np.ndarray, expected: Any) -> bool:
    """Whether floats differ by no more than two units in the last place of the largest expected one.

    A sum whose terms cancel has an error of that size whoever computes it, also in the expected values.
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
        if node.op_type in RANDOM_OPERATORS:
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


def run_share(
    pattern: str, share: tuple[int, int], results: Path, options: ExecutionOptions, skip: Iterable[str] = ()
) -> None:
    """Run every n-th case (share = (first, n)) and append its result as a line of JSON to a file.

    A line with the name alone says that a case has begun.
    """
    done = set(skip)
    everything = load_cases()
    operators = single_operators(everything)
    from npuviz.base.progress import NoProgress

    choose_onnx_target(options.target).warm_up(NoProgress())
    with results.open("a") as stream:
        for case in [each for each in everything if re.search(pattern, each.name)][share[0] :: share[1]]:
            if case.name in done:
                continue
            stream.write(json.dumps({"begun": case.name}) + "\n")
            stream.flush()
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                result = run_case(case, operator_of(case, operators), options)
            stream.write(json.dumps(asdict(result)) + "\n")
            stream.flush()


def read_results(files: Iterable[Path]) -> tuple[dict[str, CaseResult], set[str]]:
    """Results by name, and the cases that began without an end."""
    found: dict[str, CaseResult] = {}
    begun: set[str] = set()
    for file in files:
        if not file.exists():
            continue
        for line in file.read_text().splitlines():
            try:
                row: dict[str, Any] = json.loads(line)
            except ValueError:
                continue  # a line that an interrupt cut off
            if "begun" in row:
                begun.add(row["begun"])
            else:
                row["reasons"] = tuple(row["reasons"])
                found[row["name"]] = CaseResult(**row)
    return found, begun - found.keys()


def run_suite(
    folder: Path, options: ExecutionOptions, *, pattern: str = "", jobs: int = 2, resumes: bool = False
) -> dict[str, CaseResult]:
    """Run all cases in processes of their own; results by name.

    folder  where the results are kept, one file a process
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not resumes:
        for file in folder.glob("share-*.jsonl"):
            file.unlink()
    running = {at: _start(folder, at, jobs, pattern, options) for at in range(jobs)}
    while running:
        for at, process in list(running.items()):
            try:
                status = process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                continue
            del running[at]
            if status != 0 and _note_death(folder, at, status):
                running[at] = _start(folder, at, jobs, pattern, options)
    return read_results(sorted(folder.glob("share-*.jsonl")))[0]


def _note_death(folder: Path, at: int, status: int) -> bool:
    """Record the case a process died of; False if it did not even begin one."""
    file = folder / f"share-{at}.jsonl"
    _, begun = read_results(sorted(folder.glob("share-*.jsonl")))
    own = [name for name in begun if f'"begun": "{name}"' in (file.read_text() if file.exists() else "")]
    with file.open("a") as stream:
        for name in own:
            died = CaseResult(
                name, name, EXPANDED in name, FAIL, (f"the process ended with status {status}",)
            )
            stream.write(json.dumps(asdict(died)) + "\n")
    return bool(own)


def _start(
    folder: Path, at: int, jobs: int, pattern: str, options: ExecutionOptions
) -> subprocess.Popen[bytes]:
    text = json.dumps(
        {"share": [at, jobs], "folder": str(folder), "pattern": pattern, "options": asdict(options)}
    )
    return subprocess.Popen([sys.executable, "-m", "npuviz.workbench.onnx_suite", text])


def _main(text: str) -> None:
    task: dict[str, Any] = json.loads(text)
    folder = Path(task["folder"])
    first, jobs = task["share"]
    done, _ = read_results(sorted(folder.glob("share-*.jsonl")))
    file = folder / f"share-{first}.jsonl"
    run_share(task["pattern"], (first, jobs), file, ExecutionOptions(**task["options"]), done)


if __name__ == "__main__":
    _main(sys.argv[1])
