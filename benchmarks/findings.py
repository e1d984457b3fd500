"""Counts seeded bugs that are found, and findings in right programs: samples, ONNX node cases, kernels,
CSL."""

import contextlib
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.row import Row
from benchmarks.stencil import stencil
from benchmarks.time_travel import MODEL
from npuviz.base.errors import NpuvizError
from npuviz.sim.checks.findings import findings_of
from npuviz.sim.machine import HOST_OPERATOR, Hazard, Machine
from npuviz.sim.stop import NO_STOPS, StopKind
from npuviz.workbench.onnx_backend.cases import EXPANDED, load_cases, operator_of
from npuviz.workbench.onnx_backend.execution import ExecutionOptions, compiled_machine
from npuviz.workbench.opening import OpenOptions, open_file
from tests.seeded import found_in, seeds
from tests.seeded.seed import SAMPLES
from tests.seeded.wavelet import right
from tests.targets.wavelet.samples import heat, row_sum

TARGETS = ("neuroncore", "rk3588", "systolic")
LIMIT = 20_000_000
SHORT_SECONDS = 0.02
"""Groups of programs that run for less than this on average get no row about the cost of looking relative to
running."""
SIDE = 32
_OF_VALUES = "true warning of value"
_NO_NUMBERS = ("string", "opaque")
_SHAPES = {
    "vector_add": {"a": "256x64", "b": "256x64"},
    "matmul": {"a_transposed": "256x256", "b": "256x512"},
    "softmax": {"x": "300x64"},
    "flash_attention": {"q": "64x256", "k": "64x256", "v": "256x64"},
}
"""Sample kernel -> shapes of its parameters."""
Made = tuple[str, Callable[[], Machine]]


def run(corpus: Path | None = None) -> list[Row]:
    """Count found seeds by machine and kind, and findings in right programs, and measure the cost of looking.

    corpus  a folder of ONNX models to use instead of the samples
    Takes some minutes.
    """
    rows = list(_seeded())
    for target in TARGETS:
        rows += _right(target, [*_models(corpus or SAMPLES, target), *_node_cases(target)])
        network = partial(_opened, MODEL, OpenOptions(target=target))
        rows += _right(f"{target}, {MODEL.stem}", [(MODEL.stem, network)])
    rows += _right("neuroncore, kernels", _kernels())
    rows += _right("wavelet", _wafer())
    with tempfile.TemporaryDirectory() as folder:
        large = partial(stencil, Path(folder), SIDE)
        return [*rows, *_right(f"wavelet, stencil of {SIDE} x {SIDE}", [("stencil", large)])]


def _seeded() -> Iterator[Row]:
    counts: dict[tuple[str, str], list[bool]] = {}
    for seed in seeds():
        found = bool(found_in(seed.make()).kinds & seed.expected)
        counts.setdefault((seed.machine, seed.kind), []).append(found)
    for (machine, kind), found in counts.items():
        yield Row(f"{machine}: {kind}", sum(found), f"of {len(found)}", "all", not all(found))


def _models(folder: Path, target: str) -> Iterator[Made]:
    for path in sorted(folder.rglob("*.onnx")):
        yield path.name, lambda path=path: _opened(path, OpenOptions(target=target))


def _node_cases(target: str) -> Iterator[Made]:
    """Yield one case of onnx's backend test for each operator."""
    options = ExecutionOptions(target=target)
    cases: dict[str, list[Any]] = {}
    for case in load_cases():
        if EXPANDED not in case.name:
            cases.setdefault(operator_of(case, {}), []).append(case)
    for several in cases.values():
        case = several[len(several) // 2]
        yield case.name, lambda case=case: compiled_machine(case.model, case.data_sets[0][0], options)[0]


def _kernels() -> Iterator[Made]:
    for name, shapes in _SHAPES.items():
        path = SAMPLES / "nki" / f"{name}.py"
        settings = {f"shape.{parameter}": shape for parameter, shape in shapes.items()}
        yield name, lambda path=path, settings=settings: _opened(path, OpenOptions(settings=settings))


def _wafer() -> Iterator[Made]:
    yield from right()
    yield "heat", heat
    yield "row_sum", row_sum


def _opened(path: Path, options: OpenOptions) -> Machine:
    session = open_file(path, options).session
    if session is None:
        raise NpuvizError(f"{path}: nothing to run")
    return session.machine


def _level_of(hazard: Hazard) -> str:
    """Return the level of a hazard; hazards of values (NaN, infinity, overflow) are a level of their own, as
    they are true statements about the values of a right program too."""
    return _OF_VALUES if hazard.kind in ("nan", "infinity", "overflow") else hazard.level


def _right(name: str, programs: "Iterator[Made] | list[Made]") -> Iterator[Row]:
    """Count findings in right programs, and measure the cost of looking relative to running and computing
    values."""
    counts, first = Counter[str](), dict[str, str]()
    running = looking = 0.0
    for program, make in programs:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                machine = make()
            except NpuvizError:
                continue
            if any(tensor.dtype in _NO_NUMBERS for tensor in machine.program.graph.tensors):
                continue
            begin = time.process_time()
            if machine.advance(LIMIT, NO_STOPS, None).kind != StopKind.FINISHED:
                continue
            with contextlib.suppress(NpuvizError):
                for tensor in machine.program.graph.outputs:
                    machine.tensor(tensor)
            middle = time.process_time()
            try:
                findings = findings_of(machine)
            except NpuvizError:
                continue
            running, looking = running + middle - begin, looking + time.process_time() - middle
        if any(hazard.kind == HOST_OPERATOR for hazard in findings.hazards):
            continue  # the right result is unknown
        counts["programs"] += 1
        for level, kind in {(_level_of(hazard), hazard.kind) for hazard in findings.hazards}:
            counts[level] += 1
            first.setdefault(level, f"; {program}: {kind}")
    for level in ("error", "warning", _OF_VALUES):
        wrong, shown = counts[level], first.get(level, "")
        is_true = level == _OF_VALUES
        if wrong or not is_true:
            what = f"{name}: right programs with {level}s"
            yield Row(what, wrong, f"of {counts['programs']}", f"0{shown}", wrong > 0 and not is_true)
    each = 1e3 * looking / max(counts["programs"], 1)
    yield Row(f"{name}: looking at one program", each, "ms")
    # Looking takes about a millisecond even for the shortest program, which says nothing about its share.
    if running >= SHORT_SECONDS * counts["programs"]:
        share = 100 * looking / running
        yield Row(f"{name}: looking", share, "% of running and values", "under 15", share >= 15)
