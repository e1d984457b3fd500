"""Finds and runs the benchmarks of a checkout, and prints them as one table.

A benchmark is a module of the folder `benchmarks` with a function `run() -> list[Row]`; Row is
defined in benchmarks/row.py.
"""

import ast
import importlib
import inspect
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npuviz.base.errors import NpuvizError, UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.base.text_table import table_lines

FOLDER = Path(__file__).resolve().parent.parent.parent / "benchmarks"


def benchmark_names(folder: Path = FOLDER) -> list[str]:
    """Return names of the benchmarks of this checkout, sorted."""
    return sorted(path.stem for path in folder.glob("*.py") if _has_run(path))


def run_benchmarks(
    name: str = "", progress: Progress | None = None, folder: Path = FOLDER, corpus: Path | None = None
) -> list[dict[str, Any]]:
    """Run one benchmark, or all. A benchmark that cannot run here gives a row that says why.

    corpus  a folder of files for the benchmark that takes one
    Raises UsageError for an unknown name, for a corpus that the benchmark does not take, or when this is no
    checkout.
    """
    known = benchmark_names(folder)
    if not known:
        raise UsageError(f"{folder}: no benchmarks; they come with the source, not with the package")
    if name and name not in known:
        raise UsageError(f"unknown benchmark {name!r}; known: {', '.join(known)}")
    chosen = [name] if name else known
    watcher = progress or NoProgress()
    root = str(folder.parent)
    if root not in sys.path:
        sys.path.insert(0, root)
    rows: list[dict[str, Any]] = []
    for index, each in enumerate(chosen):
        watcher.report(index / len(chosen), each)
        try:
            module = importlib.import_module(f"{folder.name}.{each}")
            rows += [_row(each, measured) for measured in module.run(**_corpus_of(name, module, corpus))]
        except NpuvizError as error:
            rows.append(_unable(each, str(error)))
    return rows


def table_text(rows: Sequence[dict[str, Any]]) -> str:
    """Format the table as text."""
    lines = [("benchmark", "what", "measured", "figure")]
    for row in rows:
        measured = "-" if row["value"] is None else f"{_number(row['value'])} {row['unit']}"
        lines.append((row["benchmark"], row["name"], measured, row["figure"]))
    return "\n".join(table_lines(lines, right=(2,)))


def _has_run(path: Path) -> bool:
    """Return whether a file defines `run`, without importing it, since an import may compile kernels."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return False
    return any(isinstance(item, ast.FunctionDef) and item.name == "run" for item in tree.body)


def _corpus_of(name: str, module: Any, corpus: Path | None) -> dict[str, Path]:
    """Return the `corpus` argument for a benchmark that takes one, {} for others.

    Raises UsageError for no folder, and for a benchmark chosen by name that takes none.
    """
    if corpus is None:
        return {}
    if not corpus.is_dir():
        raise UsageError(f"--corpus {corpus}: not a folder")
    if "corpus" in inspect.signature(module.run).parameters:
        return {"corpus": corpus}
    if name:
        raise UsageError(f"the benchmark {name} takes no --corpus")
    return {}


def _row(benchmark: str, measured: Any) -> dict[str, Any]:
    value = float(measured.value)
    return {
        "benchmark": benchmark,
        "name": measured.name,
        "value": value if math.isfinite(value) else None,
        "unit": measured.unit,
        "figure": measured.figure,
        "is_wrong": bool(measured.is_wrong),
    }


def _unable(benchmark: str, why: str) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "name": f"cannot run: {why}",
        "value": None,
        "unit": "",
        "figure": "",
        "is_wrong": False,
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
