"""Judges NKI kernels: right values, refusals with reasons, and simulated times against those of hardware.

    npuviz bench nki                    the samples of this checkout, and how long opening a kernel takes
    npuviz bench nki --corpus DIR       and every file below DIR that imports NKI, a table by repository

Repositories are the folders named owner+name in DIR, else DIR itself. Test files run with stand-ins for NKI,
those of nki-library in its simulation mode; kernels with a numpy reference of NKIBench are compared with it,
others with the calls of nki_cases.py; all other files are only imported. Each file runs in a separate
process, with PYTHONPATH (for torch, if tests need it).
"""

import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import nki_figures
from benchmarks.nki_cases import cases_of
from benchmarks.nki_judge import MARK
from benchmarks.row import Row
from npuviz.targets.neuroncore.nki.sniffing import imports_nki

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 600
"""Time limit of a file."""
VERDICTS = ("right", "wrong", "refused", "failed", "elsewhere")
PUBLISHED = {
    "silu_M4096_N7168_0": (1.333, 234.9),
    "adamw_M10944_N2048_0": (2.000, 448.3),
    "rope_single_freq_apply_B1_H64_N4096_D128_0": (4.333, 402.7),
    "rmsnorm_matmul_M4096_N2048_K1024_0": (1.056, 72.9),
    "matmul_M4096_N12288_K5120_0": (35.200, 9261.1),
    "bmm_B16_M4096_K64_N4096_0": (4.611, 1107.4),
    "mamba_M7168_C256_S16_0": (2.889, 134.0),
}
"""Kernel -> milliseconds on trn1, and megabytes of HBM read and written, without those of spilled tiles.

Ref: BENCH, experiments/full_complete_local/profile_results.csv."""
_REFERENCE = re.compile(r"^(?P<op>[a-z_0-9]+?)_(?P<shape>[A-Z]+\d.*)_numpy_\d+$")
_PLACE = re.compile(r"^(?:[\w.]+Error: )?(?:[\w./-]+\.py:\d+: )?")
_PLACE_NAME = re.compile(r"[\w./-]+\.py:\d+")


def run(corpus: Path | None = None) -> list[Row]:
    """Judge the samples, and the corpus if there is one."""
    rows = [*nki_figures.run(), *_samples()]
    for folder in _corpora(Path(corpus)) if corpus is not None else ():
        rows += _corpus(folder)
    return rows


def _samples() -> list[Row]:
    found = _judged("tests", ROOT / "tests" / "targets" / "neuroncore" / "nki" / "test_kernels.py")
    results = found.get("results", [])
    right = sum(each["verdict"] == "right" for each in results)
    return [Row("samples and kernels of our tests: right", right, f"of {len(results)}", "all",
                right != len(results) or not results)]  # fmt: skip


def _search_path() -> str:
    """Return PYTHONPATH with this checkout in front."""
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def _judged(kind: str, path: Path, *more: str) -> dict[str, Any]:
    """Run benchmarks.nki_judge on a file, and return its result."""
    environment = {**os.environ, "NPUVIZ_KERNELS": "wait", "PYTHONPATH": _search_path()}
    environment |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.nki_judge", kind, str(path), *more]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return {"verdict": "failed", "reason": f"no end within {SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        return {"verdict": "failed", "reason": f"exit {done.returncode}: {said[-1] if said else ''}"}
    return json.loads(lines[-1][len(MARK) :])


def _corpora(folder: Path) -> list[Path]:
    """Return the folders named owner+name in a folder, else the folder itself."""
    found = sorted(path for path in folder.iterdir() if path.is_dir() and "+" in path.name)
    return found or [folder]


def _corpus(folder: Path) -> list[Row]:
    """Judge each kernel of a repository: counts by generation, and the reasons why kernels are not right."""
    references = _references(folder)
    found: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    times: list[tuple[Path, str, dict[str, Any]]] = []
    for path in sorted(folder.rglob("*.py")):
        is_library_test = "nkilib" in path.parts and path.name.startswith("test_")
        if not is_library_test and not imports_nki(path):
            continue
        generation = 1 if b"neuronxcc" in path.read_bytes() else 2
        reference = _reference_of(path, references)
        if is_library_test:
            judged = _judged("library", path)
        elif path.name.startswith("test_"):
            judged = _judged("tests", path)
        elif cases_of(path):
            judged = _judged("cases", path)
        elif reference is not None:
            judged = _judged("kernel", path, str(reference[0]), reference[1])
            times.append((path, reference[1], judged))
        else:
            judged = _judged("file", path)
        nothing = [{"verdict": "elsewhere", "reason": "none of its tests ran: they skip themselves"}]
        results = judged["results"] or nothing if "results" in judged else [judged]
        said = ", ".join(f"{count} {name}" for name, count in Counter(r["verdict"] for r in results).items())
        sys.stderr.write(f"{folder.name}/{path.relative_to(folder)}: {said}\n")  # the table may take hours
        for each in results:
            found[generation].append({"file": path.name, **each})
    rows = [
        row for generation, results in found.items() if results
        for row in _generation_rows(folder.name, generation, results)
    ]  # fmt: skip
    return rows + _time_rows(times)


def _generation_rows(corpus: str, generation: int, results: Sequence[dict[str, Any]]) -> list[Row]:
    """Make the rows of one corpus and generation, with each reason and the first place where it occurs."""
    counts = Counter(each["verdict"] for each in results)
    only_read = counts.pop("imported", 0)
    total = sum(counts.values())
    others = ", ".join(f"{counts[name]} {name}" for name in VERDICTS[1:] if counts[name])
    figure = f"of {total}" + (f": {others}" if others else "")
    figure += f"; {only_read} files only imported" if only_read else ""
    rows = [
        Row(
            f"{corpus}, generation {generation}: right",
            counts["right"],
            "calls",
            figure,
            bool(counts["wrong"]),
        )
    ]
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in results:
        if each["verdict"] in VERDICTS[1:]:
            text = _PLACE.sub("", each["reason"]).strip()
            place = _PLACE_NAME.search(each["reason"])
            where = place[0] if place else f"{each['file']} {each.get('name', '')}".strip()
            reasons.setdefault((each["verdict"], text[:110]), []).append(where)
    for (verdict, text), places in sorted(reasons.items(), key=lambda item: -len(item[1])):
        rows.append(Row(f"  {verdict}: {text}", len(places), "times", f"first {places[0]}"))
    return rows


def _references(folder: Path) -> dict[str, Path]:
    """Find the numpy references of NKIBench, by operator."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*_numpy_*.py")):
        match = _REFERENCE.match(path.stem)
        if match is not None:
            found[match["op"]] = path
    return found


def _reference_of(path: Path, references: dict[str, Path]) -> tuple[Path, str] | None:
    """Return (reference, preset) of a kernel file: the kernel's own in NKIBench, that of the operator for a
    variant."""
    if path.parent.name == "kernels":
        stem = path.stem.rpartition("_")[0]
        for reference in references.values():
            if reference.stem.startswith(f"{stem}_numpy"):
                return reference, "trn1"
    if path.parent.name == "runs" and path.parents[1].name in references:
        return references[path.parents[1].name], "trn2"
    return None


def _time_rows(judged: Sequence[tuple[Path, str, dict[str, Any]]]) -> list[Row]:
    """Make rows of simulated times with published ones."""
    rows: list[Row] = []
    distances: list[float] = []
    variants: dict[Path, list[tuple[float, float]]] = {}
    for path, preset, found in judged:
        milliseconds = found.get("milliseconds", float("nan"))
        published, megabytes = PUBLISHED.get(path.stem, (None, 0.0))
        published = published if preset == "trn1" else _variant_ms(path)
        figure = f"{found['verdict']}, {found['reason'][:60]}"
        if published and "milliseconds" in found:
            figure += f"; {published:.3f} ms on {preset}: x {milliseconds / published:.2f}"
            if preset == "trn1":
                distances.append(abs(milliseconds / published - 1))
            else:
                variants.setdefault(path.parent, []).append((published, milliseconds))
        if "read" in found:
            moved = found["read"] + found["written"] - found["reloaded"] - found["saved"]
            figure += f"; HBM {moved / 1e6:.0f} MB" + (f" of {megabytes:.0f}" if megabytes else "")
        if "running" in found:
            figure += f"; {found['steps']} steps, {found['lowering']:.1f} + {found['running']:.1f} s here"
        rows.append(Row(path.stem, milliseconds, "ms", figure, found["verdict"] == "wrong"))
    if distances:
        rows.append(Row("trn1: mean distance of times", 100 * float(np.mean(distances)), "%", "15"))
        rows.append(Row("trn1: largest distance of times", 100 * max(distances), "%", "25"))
    return rows + [_rank(folder.parent.name, pairs) for folder, pairs in variants.items() if len(pairs) > 2]


def _variant_ms(path: Path) -> float | None:
    """Return the published time of a variant in milliseconds, from the table next to its folder; None if
    absent."""
    table = path.parents[1] / "benchmark.csv"
    if not table.is_file():
        return None
    with table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["candidate"].endswith(f"/{path.name}") and row["passed"] == "true":
                return float(row["latency_ms"])
    return None


def _rank(name: str, pairs: Sequence[tuple[float, float]]) -> Row:
    """Compute Spearman's rank correlation of published and simulated times of an operator's variants."""
    ranks = [np.argsort(np.argsort(values)) for values in zip(*pairs, strict=True)]
    found = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    best = min(pairs)
    worst = max(pairs)
    figure = f"0.8; best to slowest x {worst[0] / best[0]:.2f}, here x {worst[1] / best[1]:.2f}"
    return Row(f"trn2 {name}: Spearman over {len(pairs)} variants", found, "", figure)
