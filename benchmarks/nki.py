"""NKI kernels: whose values are right, what is refused and why, and times beside those of hardware.

    npuviz bench nki                    the samples of this checkout
    npuviz bench nki --corpus DIR       and every file below DIR that imports NKI

Files of tests run under the stand-ins; kernels with a numpy reference of NKIBench are compared with it;
other files are imported. Each in a process of its own.
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

from benchmarks.nki_judge import MARK
from benchmarks.row import Row
from npuviz.targets.neuroncore.nki.sniffing import imports_nki

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 60
PUBLISHED_MS = {
    "silu_M4096_N7168_0": 1.333,
    "adamw_M10944_N2048_0": 2.000,
    "rope_single_freq_apply_B1_H64_N4096_D128_0": 4.333,
    "rmsnorm_matmul_M4096_N2048_K1024_0": 1.056,
    "matmul_M4096_N12288_K5120_0": 35.200,
    "bmm_B16_M4096_K64_N4096_0": 4.611,
    "mamba_M7168_C256_S16_0": 2.889,
}
"""Latency on trn1. Ref: BENCH, experiments/full_complete_local/profile_results.csv."""
_REFERENCE = re.compile(r"^(?P<op>[a-z_0-9]+?)_(?P<shape>[A-Z]+\d.*)_numpy_\d+$")
_PLACE = re.compile(r"^(?:\w+Error: )?(?:[\w./-]+\.py:\d+: )?")


def run(corpus: Path | None = None) -> list[Row]:
    """Judge the samples, and the corpus if there is one."""
    rows = _samples()
    if corpus is not None:
        rows += _corpus(Path(corpus))
    return rows


def _samples() -> list[Row]:
    found = _judged("tests", ROOT / "tests" / "targets" / "neuroncore" / "nki" / "test_kernels.py")
    results = found.get("results", [])
    right = sum(each["verdict"] == "right" for each in results)
    return [Row("samples and kernels of our tests: right", right, f"of {len(results)}", "all",
                right != len(results) or not results)]  # fmt: skip


def _judged(kind: str, path: Path, *more: str) -> dict[str, Any]:
    """What benchmarks.nki_judge says about a file."""
    environment = {**os.environ, "NPUVIZ_KERNELS": "wait", "PYTHONPATH": str(ROOT)}
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


def _corpus(folder: Path) -> list[Row]:
    files = sorted(path for path in folder.rglob("*.py") if imports_nki(path))
    references = _references(folder)
    tests, kernels, others = [], [], []
    for path in files:
        reference = _reference_of(path, references)
        if path.name.startswith("test_"):
            tests.append(path)
        elif reference is not None:
            kernels.append((path, *reference))
        else:
            others.append(path)
    reasons: Counter[str] = Counter()
    rows = [Row("corpus: files that import NKI", len(files), "files")]
    rows += _test_rows(tests, reasons)
    rows += _kernel_rows(kernels, reasons)
    rows += _other_rows(others, reasons)
    rows += [Row(f"reason: {text}", count, "times") for text, count in reasons.most_common()]
    return rows


def _references(folder: Path) -> dict[str, Path]:
    """numpy references by operator, as NKIBench names them."""
    found: dict[str, Path] = {}
    for path in sorted(folder.rglob("*_numpy_*.py")):
        match = _REFERENCE.match(path.stem)
        if match is not None:
            found[match["op"]] = path
    return found


def _reference_of(path: Path, references: dict[str, Path]) -> tuple[Path, str] | None:
    """(reference, machine) of a kernel file: its own in NKIBench, that of its operator for its variants."""
    if path.parent.name == "kernels":
        stem = path.stem.rpartition("_")[0]
        for reference in references.values():
            if reference.stem.startswith(f"{stem}_numpy"):
                return reference, "trn1"
    if path.parent.name == "runs" and path.parents[1].name in references:
        return references[path.parents[1].name], "trn2"
    return None


def _note(reasons: Counter[str], found: dict[str, Any]) -> None:
    if found["verdict"] not in ("right", "imported"):
        text = _PLACE.sub("", found["reason"]).strip()[:90]
        reasons[f"{found['verdict']}: {text}"] += 1


def _test_rows(files: Sequence[Path], reasons: Counter[str]) -> list[Row]:
    if not files:
        return []
    verdicts: Counter[str] = Counter()
    whole = 0
    for path in files:
        found = _judged("tests", path)
        results = found.get("results") or [found]
        for each in results:
            verdicts[each["verdict"]] += 1
            _note(reasons, each)
        whole += all(each["verdict"] == "right" for each in results)
    rows = [Row("tests: files that pass", whole, f"of {len(files)}", "all")]
    rows += [Row(f"tests: {name}", count, "tests") for name, count in verdicts.most_common()]
    return rows


def _kernel_rows(kernels: Sequence[tuple[Path, Path, str]], reasons: Counter[str]) -> list[Row]:
    if not kernels:
        return []
    rows: list[Row] = []
    verdicts: Counter[str] = Counter()
    distances: list[float] = []
    variants: dict[Path, list[tuple[float, float]]] = {}
    for path, reference, preset in kernels:
        found = _judged("kernel", path, str(reference), preset)
        verdicts[found["verdict"]] += 1
        _note(reasons, found)
        milliseconds = found.get("milliseconds", float("nan"))
        published = PUBLISHED_MS.get(path.stem) if preset == "trn1" else _variant_ms(path)
        figure = f"{found['verdict']}, {found['reason'][:60]}"
        if published and found["verdict"] == "right":
            figure += f"; {published:.3f} ms on {preset}: x {milliseconds / published:.2f}"
            if preset == "trn1":
                distances.append(abs(milliseconds / published - 1))
            else:
                variants.setdefault(path.parent, []).append((published, milliseconds))
        if "running" in found:
            figure += f"; {found['steps']} steps, {found['lowering']:.1f} + {found['running']:.1f} s here"
        rows.append(Row(path.stem, milliseconds, "ms", figure, found["verdict"] == "wrong"))
    rows += [Row(f"kernels: {name}", count, f"of {len(kernels)}") for name, count in verdicts.most_common()]
    if distances:
        rows.append(Row("trn1: mean distance of times", 100 * float(np.mean(distances)), "%", "15"))
        rows.append(Row("trn1: largest distance of times", 100 * max(distances), "%", "25"))
    rows += [_rank(folder.parent.name, pairs) for folder, pairs in variants.items() if len(pairs) > 2]
    return rows


def _variant_ms(path: Path) -> float | None:
    """The published time of a variant, from the table beside its folder."""
    table = path.parents[1] / "benchmark.csv"
    if not table.is_file():
        return None
    with table.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["candidate"].endswith(f"/{path.name}") and row["passed"] == "true":
                return float(row["latency_ms"])
    return None


def _rank(name: str, pairs: Sequence[tuple[float, float]]) -> Row:
    """Spearman's rank correlation of published and simulated times of one operator's variants."""
    ranks = [np.argsort(np.argsort(values)) for values in zip(*pairs, strict=True)]
    found = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    best = min(pairs)
    worst = max(pairs)
    figure = f"0.8; best to slowest x {worst[0] / best[0]:.2f}, here x {worst[1] / best[1]:.2f}"
    return Row(f"trn2 {name}: Spearman over {len(pairs)} variants", found, "", figure)


def _other_rows(files: Sequence[Path], reasons: Counter[str]) -> list[Row]:
    if not files:
        return []
    count = imported = 0
    for path in files:
        found = _judged("file", path)
        _note(reasons, found)
        imported += found["verdict"] == "imported"
        count += found.get("kernels", 0)
    return [
        Row("files without tests: imported", imported, f"of {len(files)}"),
        Row("files without tests: kernels in them (not judged)", count, "kernels"),
    ]
