"""Judges one file of NKI kernels, run as a separate process; prints the result as one line of JSON.

    python -m benchmarks.nki_judge tests FILE                     its unit tests, with stand-ins for NKI
    python -m benchmarks.nki_judge library FILE [OPTION...]       those of nki-library, in simulation mode;
                                                                  options are those of pytest
    python -m benchmarks.nki_judge cases FILE                     its kernels on the calls of nki_cases.py
    python -m benchmarks.nki_judge kernel FILE REFERENCE PRESET   its kernel against a numpy reference
    python -m benchmarks.nki_judge time FILE REFERENCE PRESET     only its cycles, without values; further
                                                                  KEY=VALUE are settings of the machine
    python -m benchmarks.nki_judge file FILE                      whether it can be imported

A verdict is "right", "wrong" (other values than the reference), "refused" (npuviz says that it does not run
this), "elsewhere" (something outside of npuviz is missing: a package, a fixture) or "failed".
"""

import importlib
import importlib.util
import json
import os
import sys
import time
import unittest
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.nki_cases import cases_of, kernel_count
from npuviz.base.errors import NpuvizError
from npuviz.base.progress import NoProgress
from npuviz.sim.stop import NO_STOPS
from npuviz.sim.target import LoadRequest
from npuviz.targets.neuroncore.costs.instructions import issue_cycles, to_base
from npuviz.targets.neuroncore.isa import Engine
from npuviz.targets.neuroncore.load.programs import make_program
from npuviz.targets.neuroncore.machine.machine import NeuronMachine
from npuviz.targets.neuroncore.nki import kernel as nki_kernel
from npuviz.targets.neuroncore.nki.absent import missing_packages
from npuviz.targets.neuroncore.nki.kernel import Kernel, execute, lower_traced, trace_on
from npuviz.targets.neuroncore.nki.reference import coarsest_of
from npuviz.targets.neuroncore.nki.user_python import SHIMS, imported
from npuviz.targets.neuroncore.spec import NeuronSpec, make_spec
from npuviz.targets.neuroncore.tables import Tables

MARK = "@@ "
"""Prefix of the line of JSON, which follows the output of the file itself."""
LIMITS = {"float32": 2e-5, "bfloat16": 1e-2, "float16": 1e-2}
"""Type of the output -> largest relative L2 distance that counts as right."""
_NOT_OURS = ("ModuleNotFoundError", "fixture '", "ImportError: cannot import name 'XLA")


def verdict_of(error: BaseException | str) -> tuple[str, str]:
    """Return (verdict, reason) for an exception, or for pytest's text about one."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    first = next((line for line in text.splitlines() if line.strip()), "")
    if any(mark in text for mark in _NOT_OURS) and "neuronxcc.nki" not in first:
        return "elsewhere", first
    if isinstance(error, NpuvizError) or "KernelError" in text or "not simulated" in text:
        return "refused", first
    return ("wrong" if "AssertionError" in text or "assert" in text else "failed"), first


class _Watcher:
    """Collects the outcome of each test."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> None:
        """Note the verdict when a phase of a test has ended."""
        if call.excinfo is not None and call.excinfo.typename not in ("Skipped", "XFailed"):
            expected = item.get_closest_marker("xfail") or getattr(
                getattr(item, "function", None), "__unittest_expecting_failure__", False
            )
            verdict, reason = ("right", "") if expected else verdict_of(call.excinfo.value)
            self.found.append({"name": item.name, "verdict": verdict, "reason": reason})
        elif call.excinfo is None and call.when == "call":
            self.found.append({"name": item.name, "verdict": "right", "reason": ""})

    def pytest_collectreport(self, report: Any) -> None:
        """Note the verdict if a file could not be collected."""
        if report.failed:
            lines = [line[2:] for line in str(report.longrepr).splitlines() if line.startswith("E ")]
            verdict, reason = verdict_of((lines or [str(report.longrepr)])[0].strip())
            self.found.append({"name": "collection", "verdict": verdict, "reason": reason})


def tests(path: Path) -> dict[str, Any]:
    """Run the unit tests of a file."""
    watcher = _Watcher()
    options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(path.parent), "-o", "addopts="]
    pytest.main([*options, str(path)], plugins=[watcher])
    return {"results": watcher.found}


def library(path: Path, *more: str) -> dict[str, Any]:
    """Run the quick tests of a file of nki-library, with its own checks, on npuviz as its simulator.

    more  options of pytest, which win over those that are given here
    """
    from benchmarks import nki_simulator

    root = next(each for each in path.parents if (each / "src" / "nkilib_src").is_dir())
    sys.path[:0] = [str(root), str(root / "src"), str(root / "src" / "nkilib_src")]
    os.chdir(root)
    nki_simulator.install()
    watcher = _Watcher()
    options = ["-q", "-p", "no:cacheprovider", "--test-mode", "simulation", "-m", "fast", "--timeout", "120"]
    pytest.main([*options, *more, str(path)], plugins=[watcher, nki_simulator.Harness()])
    return {"results": watcher.found}


def cases(path: Path) -> dict[str, Any]:
    """Run the kernels of a file with the calls of nki_cases.py, and compare the results.

    The coarsest type that the kernel of a result computes with limits its error, as it does for --check.
    """
    found: list[dict[str, Any]] = []
    kinds: list[str] = []
    run = nki_kernel.run_kernel

    def noted(*args: Any) -> Any:
        result = run(*args)
        kinds.append(coarsest_of(nki_kernel.LAST[-1].types))
        return result

    nki_kernel.run_kernel = noted
    with missing_packages():
        module = _in_package(path)
        for name, case in cases_of(path).items():
            kinds.clear()
            try:
                pairs = case(module)
            except Exception as error:
                verdict, reason = verdict_of(error)
                found.append({"name": name, "verdict": verdict, "reason": reason})
                continue
            types = kinds * len(pairs) if len(kinds) == 1 else kinds if len(kinds) == len(pairs) else []
            for number, (got, wanted) in enumerate(pairs):
                distance = _distance(got, wanted)
                limit = LIMITS.get(types[number] if types else str(np.asarray(got).dtype), 2e-5)
                verdict = "right" if distance <= limit else "wrong"
                found.append({"name": f"{name} {number}", "verdict": verdict, "reason": f"L2 {distance:.1e}"})
    return {"results": found}


def _in_package(path: Path) -> ModuleType:
    """Import a file, by its full name if it is in a package."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    return importlib.import_module(".".join(names)) if len(names) > 1 else imported(path)


def _imported(path: Path) -> ModuleType:
    sys.path.insert(0, str(path.parent))
    found = importlib.util.spec_from_file_location(f"judged_{path.stem.replace('-', '_')}", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def kernel(path: Path, reference: Path, preset: str) -> dict[str, Any]:
    """Run a kernel on the inputs of its reference, and compare the results."""
    module, wanted = _imported(path), _imported(reference)
    np.random.seed(0)  # noqa: NPY002 - the generator that the references draw from
    inputs = wanted.get_inputs()
    expected = wanted.forward(*[each.copy() if isinstance(each, np.ndarray) else each for each in inputs])
    spec = make_spec(preset, None, {})[0]
    begin = time.perf_counter()
    chosen: Kernel = module.kernel
    traced = trace_on(chosen, wanted.transform_to_nki_inputs(inputs), {}, spec)
    lowered = lower_traced(traced, spec, NoProgress())
    made = time.perf_counter()
    run = execute(traced, lowered, spec, ())
    done = time.perf_counter()
    outputs = run.outputs if traced.is_tuple else run.outputs[0]
    got = wanted.transform_nki_outputs(outputs, expected)
    pairs = list(zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True))
    distance = max(_distance(a, b) for a, b in pairs)
    limit = max(LIMITS.get(str(np.asarray(a).dtype), 2e-5) for a, _ in pairs)
    return {
        "verdict": "right" if distance <= limit else "wrong",
        "reason": f"L2 {distance:.1e}",
        "distance": distance,
        **moved_bytes(lowered.compiled.tables),
        "milliseconds": run.nanoseconds / 1e6,
        "steps": len(traced.recording.steps),
        "lowering": made - begin,
        "running": done - made,
    }


@dataclass(frozen=True)
class Timed:
    """How long a kernel took on the machine, the program that it became, and its steps."""

    milliseconds: float
    tables: Tables
    steps: int
    spec: NeuronSpec


def with_harness(
    path: Path,
    name: str,
    given: Sequence[Any],
    keywords: Mapping[str, Any],
    preset: str,
    settings: Sequence[str],
) -> Timed:
    """Simulate the time of a kernel of a file with these arguments, without its values."""
    return _timed(getattr(imported(path), name), given, keywords, preset, settings)


def _timed(
    kernel: Kernel, given: Sequence[Any], keywords: Mapping[str, Any], preset: str, settings: Sequence[str]
) -> Timed:
    spec = make_spec(preset, None, dict(each.split("=", 1) for each in settings))[0]
    traced = trace_on(kernel, given, keywords, spec)
    lowered = lower_traced(traced, spec, NoProgress())
    program = make_program(LoadRequest(Path("kernel.neff"), inputs={}), spec, (), lowered.compiled)
    machine = NeuronMachine(spec, program)
    machine.advance(1 << 62, NO_STOPS, None)
    return Timed(machine.cycle / spec.pe_hz * 1e3, lowered.compiled.tables, len(traced.recording.steps), spec)


def timed(path: Path, reference: Path, preset: str, *settings: str) -> dict[str, Any]:
    """Simulate the time of a kernel, without its values. settings  KEY=VALUE of the machine"""
    module, wanted = _imported(path), _imported(reference)
    given = wanted.transform_to_nki_inputs(wanted.get_inputs())
    found = _timed(module.kernel, given, {}, preset, settings)
    return {
        "verdict": "right",
        "reason": "values not looked at",
        "milliseconds": found.milliseconds,
        "steps": found.steps,
        "work": engine_work(found.tables, found.spec),
        **moved_bytes(found.tables),
    }


def engine_work(tables: Tables, spec: NeuronSpec) -> dict[str, float]:
    """Return the milliseconds that instructions occupy the Tensor, Scalar and Vector engines, without
    waits."""
    code = tables.instructions
    cycles = to_base(issue_cycles(code, spec), code["engine"], spec)
    engines = {"PE": Engine.PE, "Scl": Engine.ACTIVATION, "Vec": Engine.DVE}
    return {
        name: float(cycles[code["engine"] == each].sum()) / spec.pe_hz * 1e3 for name, each in engines.items()
    }


def moved_bytes(tables: Tables) -> dict[str, int]:
    """Return the bytes that transfers read from HBM and write to it, and the parts of these for spilled
    tiles."""
    saved = {each.id for each in tables.variables if ".saved." in each.name}
    descriptors = [each for transfer in tables.transfers for each in transfer.descriptors]
    reads = [access for each in descriptors for access in each.sources if access.variable >= 0]
    writes = [each.to for each in descriptors if each.to.variable >= 0]
    return {
        "read": sum(each.num_bytes for each in reads),
        "written": sum(each.num_bytes for each in writes),
        "reloaded": sum(each.num_bytes for each in reads if each.variable in saved),
        "saved": sum(each.num_bytes for each in writes if each.variable in saved),
    }


def _distance(a: Any, b: Any) -> float:
    """Return the relative L2 distance; infinite for NaN, infinities or different shapes."""
    got, wanted = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if got.shape != wanted.shape:
        return float("inf")
    found = float(np.linalg.norm(got - wanted) / max(float(np.linalg.norm(wanted)), 1e-30))
    return found if np.isfinite(found) else float("inf")


def file(path: Path) -> dict[str, Any]:
    """Import a file and count its kernels."""
    with missing_packages():
        return {"verdict": "imported", "reason": "", "kernels": kernel_count(_in_package(path))}


def main() -> None:
    """Judge the file of the command line."""
    kind, path = sys.argv[1], Path(sys.argv[2])
    sys.path.insert(0, str(SHIMS))
    try:
        if kind == "kernel":
            found = kernel(path, Path(sys.argv[3]), sys.argv[4])
        elif kind == "time":
            found = timed(path, Path(sys.argv[3]), *sys.argv[4:])
        elif kind == "library":
            found = library(path, *sys.argv[3:])
        else:
            found = {"tests": tests, "cases": cases, "file": file}[kind](path)
    except (Exception, unittest.SkipTest) as error:
        verdict, reason = verdict_of(error)
        found = {"verdict": verdict, "reason": reason}
    print(f"{MARK}{json.dumps(found)}")


if __name__ == "__main__":
    main()
