"""Runs all node cases of onnx's backend test, distributed over processes.

Every result is appended to a file at once, so that an interrupted run can resume and a process that dies
loses one case only.
"""

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.base.progress import NoProgress
from npuviz.workbench.onnx_backend.cases import (
    EXPANDED,
    FAIL,
    CaseResult,
    load_cases,
    operator_of,
    run_case,
    single_operators,
)
from npuviz.workbench.onnx_backend.execution import ExecutionOptions, choose_onnx_target


def run_share(
    pattern: str, share: tuple[int, int], results: Path, options: ExecutionOptions, skip: Iterable[str] = ()
) -> None:
    """Run every n-th case (share = (first, n)) and append its result as a line of JSON to a file.

    A line with the name alone says that a case has begun.
    """
    done = set(skip)
    everything = load_cases()
    operators = single_operators(everything)
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
    """Read result files. Returns the results by name, and the names of cases that began but did not end."""
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
                row.update({name: tuple(row.get(name, ())) for name in ("reasons", "parameters")})
                found[row["name"]] = CaseResult(**row)
    return found, begun - found.keys()


def run_suite(
    folder: Path, options: ExecutionOptions, *, pattern: str = "", jobs: int = 2, resumes: bool = False
) -> dict[str, CaseResult]:
    """Run all cases whose name matches the pattern in `jobs` processes, and return the results by name.

    folder   of the results, one file per process
    resumes  keep results that the folder already has
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
    """Record the case in which a process died as failed. Returns False if it had begun none."""
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
    return subprocess.Popen([sys.executable, "-m", "npuviz.workbench.onnx_backend.suite", text])


def _main(text: str) -> None:
    task: dict[str, Any] = json.loads(text)
    folder = Path(task["folder"])
    first, jobs = task["share"]
    done, _ = read_results(sorted(folder.glob("share-*.jsonl")))
    file = folder / f"share-{first}.jsonl"
    run_share(task["pattern"], (first, jobs), file, ExecutionOptions(**task["options"]), done)


if __name__ == "__main__":
    _main(sys.argv[1])
