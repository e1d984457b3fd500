"""Variants of one operator: in which order the machine puts them, beside what was measured on hardware.

    python -m benchmarks.nki_variants VARIANTS BENCH [OPERATOR ...] [KEY=VALUE ...]

VARIANTS is a checkout of KDA (workspaces/OPERATOR/benchmark.csv and runs/*.py, measured on trn2), BENCH that
of AccelOpt, whose NKIBench has the kernel that they begin with and the inputs. KEY=VALUE are settings of the
machine. Absolute times are no figure: the published ones contradict the documented rates of one core.
"""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.nki_judge import MARK

ROOT = Path(__file__).resolve().parents[1]
OPERATORS = ("silu", "rope_single_freq_apply", "adamw", "rmsnorm_matmul", "mamba", "bmm", "matmul")
PRESET = "trn2"
SECONDS = 900
"""For which a variant may be simulated."""
RATIO_LIMIT = 0.25
RANK_LIMIT = 0.8


@dataclass(frozen=True)
class Variant:
    """measured, here  milliseconds; `here` is NaN where the kernel did not run, `reason` says why"""

    name: str
    measured: float
    here: float
    reason: str = ""


def ranks(values: Sequence[float]) -> np.ndarray:
    """The rank of each value, from 0; equal ones share the mean of theirs."""
    ordered = np.sort(np.asarray(values, np.float64))
    first = np.searchsorted(ordered, values, "left")
    return (first + np.searchsorted(ordered, values, "right") - 1) / 2


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Rank correlation; NaN where one side is all equal."""
    first, second = ranks(a), ranks(b)
    if len(first) < 2 or not first.std() or not second.std():
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def measured(table: Path) -> dict[str, float]:
    """File name of a variant -> median of its published milliseconds, of those whose values were right."""
    found: dict[str, list[float]] = {}
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["candidate"].split(" ")[0]
            if row["passed"] == "true" and name.startswith("runs/") and (table.parent / name).is_file():
                found.setdefault(name, []).append(float(row["latency_ms"]))
    return {name: float(np.median(values)) for name, values in found.items()}


def simulated(kernel: Path, reference: Path, settings: Sequence[str]) -> tuple[float, str]:
    """(milliseconds, "") of a kernel here, or (NaN, why not)."""
    command = [sys.executable, "-m", "benchmarks.nki_judge", "time", str(kernel), str(reference), PRESET]
    environment = {**os.environ, "NPUVIZ_KERNELS": "wait", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, *settings], capture_output=True, text=True, timeout=SECONDS, env=environment,
            check=False, cwd=ROOT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return float("nan"), f"no end within {SECONDS} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    found: dict[str, Any] = (
        json.loads(lines[-1][len(MARK) :]) if lines else {"reason": done.stderr.strip()[-200:]}
    )
    return found.get("milliseconds", float("nan")), "" if "milliseconds" in found else found["reason"]


def variants_of(operator: str, variants: Path, bench: Path, settings: Sequence[str]) -> list[Variant]:
    """The kernel that the variants begin with, then those, in the order of their measured times."""
    baselines = json.loads((variants / "baselines.json").read_text(encoding="utf-8"))
    first = next(each for each in baselines.values() if each["op"] == operator)
    kernels = bench / "NKIBench" / "kernels"
    stem = first["kernel"].rpartition("_")[0]
    reference = next(iter(sorted((bench / "NKIBench" / "reference").glob(f"{stem}_numpy_*.py"))))
    folder = variants / "workspaces" / operator
    times: Mapping[str, float] = measured(folder / "benchmark.csv")
    files = [(kernels / first["kernel"], first["baseline_latency_ms"])]
    files += [(folder / name, times[name]) for name in sorted(times, key=lambda name: times[name])]
    found: list[Variant] = []
    for path, milliseconds in files:
        here, reason = simulated(path, reference, settings)
        found.append(Variant(path.stem, milliseconds, here, reason))
        print(
            f"  {path.stem:48} {milliseconds:9.4f} {here:9.4f} {here / milliseconds:6.2f}  {reason}",
            flush=True,
        )
    return found


def clear_pairs(found: Sequence[Variant]) -> tuple[int, int, int, int]:
    """(pairs, those measured within 5 %, those more than 10 % apart, of which are in order here)."""
    pairs = [sorted(each, key=lambda v: v.measured) for each in combinations(found, 2)]
    apart = [each for each in pairs if each[1].measured > 1.1 * each[0].measured]
    near = sum(each[1].measured < 1.05 * each[0].measured for each in pairs)
    return len(pairs), near, len(apart), sum(each[0].here < each[1].here for each in apart)


def summary(found: Sequence[Variant]) -> str:
    """Rank correlation of those that ran, and the best one's ratio to the first on both sides."""
    ran = [each for each in found[1:] if np.isfinite(each.here)]
    rank = spearman([each.measured for each in ran], [each.here for each in ran])
    best = min((each.measured for each in ran), default=float("nan")) / found[0].measured
    here = min((each.here for each in ran), default=float("nan")) / found[0].here
    distance = here / best - 1
    return (
        f"Spearman {rank:.2f} over {len(ran)} of {len(found) - 1} (goal {RANK_LIMIT}); best to first "
        f"{best:.3f} measured, {here:.3f} here: {distance:+.0%} (goal {RATIO_LIMIT:.0%})\n  "
        "{} pairs, {} within 5 %; {} more than 10 % apart, {} of them in order here".format(*clear_pairs(ran))
    )


def main() -> None:
    """Print a table for each operator."""
    variants, bench = Path(sys.argv[1]), Path(sys.argv[2])
    settings = [each for each in sys.argv[3:] if "=" in each]
    chosen = [each for each in sys.argv[3:] if "=" not in each] or list(OPERATORS)
    for operator in chosen:
        print(f"{operator}: measured ms, here, ratio")
        print(f"  {summary(variants_of(operator, variants, bench, settings))}")


if __name__ == "__main__":
    main()
