"""Ranks variants of one operator by simulated time, and compares with the ranks measured on hardware.

    python -m benchmarks.nki_variants VARIANTS BENCH [OPERATOR ...] [KEY=VALUE ...]

VARIANTS is a checkout of KDA (workspaces/OPERATOR/benchmark.csv and runs/*.py, measured on trn2), BENCH one
of AccelOpt, whose NKIBench has the original kernel and the inputs. KEY=VALUE are settings of the machine.

The published times are medians of samples of which about half are 0.01 ms and the others the real time
(published: min 0.01 ms, p90 twice the median, cv 0.99; the total time of the profile is 2.0 to 2.3 times the
median): most medians are half of the real time, some are all of it. A time is doubled if it is impossible,
because an engine or DMA needs longer for the documented work, or because published shares of engines or DMA
leave less time than that. A time that cannot be decided is doubled if most other times of the operator are.

The highest possible rank correlation is printed too: two rounds of measurements of the same kernels do not
agree in every rank, and times that are closer than repeated measurements of one kernel are ties.
"""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.nki_judge import MARK

ROOT = Path(__file__).resolve().parents[1]
OPERATORS = ("silu", "rope_single_freq_apply", "adamw", "rmsnorm_matmul", "mamba", "bmm", "matmul")
PRESET = "trn2"
SECONDS = 2400
"""Time limit of the simulation of a variant."""
DMA_PEAK = 27.2e9 * 16
"""Bytes a second. Ref: DMA-O: theoretical peak of an engine of NC-v3, 16 of them."""
TOLERANCE = 0.9
"""A published time below this share of the documented work of an engine is impossible."""
ROUNDS = 2000
"""Random rounds of measurements that are drawn to compute how well two of them agree."""
RATIO_LIMIT = 0.25
RANK_LIMIT = 0.8


@dataclass(frozen=True)
class Variant:
    """A variant with its times.

    published, here  milliseconds, published and simulated; `here` is NaN if the kernel did not run, `reason`
    says why
    base             factor from the published to the real time: 1 or 2; 0: not known
    """

    name: str
    published: float
    here: float
    reason: str = ""
    base: int = 1

    @property
    def measured(self) -> float:
        """Real milliseconds of the kernel on hardware."""
        return self.published * self.base


def ranks(values: Sequence[float]) -> np.ndarray:
    """Return the rank of each value, from 0; equal values get the mean of their ranks."""
    ordered = np.sort(np.asarray(values, np.float64))
    first = np.searchsorted(ordered, values, "left")
    return (first + np.searchsorted(ordered, values, "right") - 1) / 2


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Compute the rank correlation; NaN if all values of one side are equal."""
    first, second = ranks(a), ranks(b)
    if len(first) < 2 or not first.std() or not second.std():
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def measured(table: Path) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Read the published milliseconds (median) and shares of engines of variants whose values were right, by
    file name.

    Shares are those of the first row with any, as "Vec=64%" or "Scl 34->25%".
    """
    found: dict[str, list[float]] = {}
    shares: dict[str, dict[str, float]] = {}
    with table.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name = row["candidate"].split(" ")[0]
            if row["passed"] == "true" and name.startswith("runs/") and (table.parent / name).is_file():
                found.setdefault(name, []).append(float(row["latency_ms"]))
                said = re.findall(r"\b(PE|Vec|Scl|DMA)[ =]*(?:[\d.]+->)?(\d+(?:\.\d+)?)%", row["notes"])
                if said:
                    shares.setdefault(name, {unit: float(share) / 100 for unit, share in said})
    return {name: float(np.median(values)) for name, values in found.items()}, shares


def repeats(folder: Path) -> list[list[float]]:
    """Read groups of repeated times of one kernel: rows with one file name in `benchmark.csv`, and lists of
    fractions in `candidates.jsonl` (lists of whole numbers are seeds).
    """
    rows: dict[str, list[float]] = {}
    with (folder / "benchmark.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["passed"] == "true" and re.fullmatch(r"[\d.]+", row["latency_ms"] or ""):
                rows.setdefault(row["candidate"].split(" ")[0], []).append(float(row["latency_ms"]))
    lines = (folder / "candidates.jsonl").read_text(encoding="utf-8").splitlines()
    found = [list(each) for line in lines if line.strip() for each in _fractions(json.loads(line))]
    unique = {tuple(each) for each in [*rows.values(), *found] if len(each) > 1 and min(each) > 0}
    return [list(each) for each in sorted(unique)]


def _fractions(value: Any) -> Iterator[list[float]]:
    """Yield the lists within a record whose members are all fractions."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _fractions(each)
    elif isinstance(value, list):
        if value and all(isinstance(each, float) for each in value):
            yield value
        for each in value:
            yield from _fractions(each)


def noise_of(groups: Sequence[Sequence[float]]) -> float:
    """Compute the relative standard deviation of a measurement, pooled over the repeats of each kernel."""
    logs = [np.log(each) for each in groups]
    freedom = sum(len(each) - 1 for each in logs)
    return float(np.sqrt(sum(((each - each.mean()) ** 2).sum() for each in logs) / freedom)) if freedom else 0


def tied(times: Sequence[float], limit: float) -> list[float]:
    """Group times within `limit` (a share) of the shortest one of a group, and replace each by that one."""
    found, first = dict[float, float](), 0.0
    for each in sorted(times):
        if not first or each > first * (1 + limit):
            first = each
        found[each] = first
    return [found[each] for each in times]


def bounds_of(times: Sequence[float], noise: float) -> tuple[float, float]:
    """Return (mean rank correlation of two rounds of measurements of these times, limit below which two are
    ties).

    The limit is twice the standard deviation of the difference of two measurements.
    """
    generator = np.random.default_rng(0)
    logs = np.log(times) + noise * generator.standard_normal((ROUNDS, 2, len(times)))
    return float(np.mean([spearman(first, second) for first, second in logs])), 2 * 2**0.5 * noise


def bound_text(ran: Sequence[Variant], groups: Sequence[Sequence[float]]) -> str:
    """Describe the highest rank correlation that the noise of measurements allows, and the correlation with
    ties."""
    times, here = [each.measured for each in ran], [each.here for each in ran]
    noise = noise_of(groups)
    between, limit = bounds_of(times, noise)
    ties = tied(times, limit)
    most = spearman(ties, _in_order(ties))
    return (
        f"{sum(len(each) for each in groups)} repeats of {len(groups)} kernels: noise {noise:.2%}; "
        f"two rounds of measuring agree to {between:.2f}; with ties below {limit:.2%}, "
        f"{len(set(ties))} ranks, Spearman {spearman(ties, here):.2f}, at most {most:.2f}"
    )


def _in_order(times: Sequence[float]) -> list[float]:
    """Return ranks without ties in the order of the times."""
    return [float(each) for each in np.argsort(np.argsort(times, kind="stable"), kind="stable")]


def base_of(published: float, result: Mapping[str, Any], shares: Mapping[str, float]) -> int:
    """Return the factor from a published to the real time: 2 if it is too short for the documented work of an
    engine or of DMA, 1 if it is not and there are shares of Vector, Scalar or DMA, else 0: not known.

    PE may be busy for longer than its work, at half its rate, but not for less.
    """
    work: Mapping[str, float] = result.get("work", {})
    moved = (result.get("read", 0) + result.get("written", 0)) / DMA_PEAK * 1e3
    if published < TOLERANCE * max([moved, *work.values()]):
        return 2
    units = [unit for unit in ("Vec", "Scl") if unit in shares and unit in work]
    said = [(sum(shares[unit] for unit in units), sum(work[unit] for unit in units))]
    said += [
        (shares[unit], time) for unit, time in (("PE", work.get("PE", 0)), ("DMA", moved)) if unit in shares
    ]
    if any(share * published < TOLERANCE * needed for share, needed in said):
        return 2
    return 1 if units or "DMA" in shares else 0


def with_bases(found: Sequence[Variant]) -> list[Variant]:
    """Set the unknown bases of variants to that of most others."""
    known = [each.base for each in found if each.base]
    usual = 2 if 2 * known.count(2) >= len(known) else 1
    return [each if each.base else replace(each, base=usual) for each in found]


def simulated(kernel: Path, reference: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Simulate a kernel by the judge. Returns its result with "milliseconds", or "reason" if it failed."""
    command = [sys.executable, "-m", "benchmarks.nki_judge", "time", str(kernel), str(reference), PRESET]
    environment = {**os.environ, "NPUVIZ_KERNELS": "wait", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [*command, *settings], capture_output=True, text=True, timeout=SECONDS, env=environment,
            check=False, cwd=ROOT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"reason": f"no end within {SECONDS} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    return json.loads(lines[-1][len(MARK) :]) if lines else {"reason": done.stderr.strip()[-200:]}


def variants_of(operator: str, variants: Path, bench: Path, settings: Sequence[str]) -> list[Variant]:
    """Simulate the original kernel, then its variants in the order of their published times."""
    baselines = json.loads((variants / "baselines.json").read_text(encoding="utf-8"))
    first = next(each for each in baselines.values() if each["op"] == operator)
    kernels = bench / "NKIBench" / "kernels"
    stem = first["kernel"].rpartition("_")[0]
    reference = next(iter(sorted((bench / "NKIBench" / "reference").glob(f"{stem}_numpy_*.py"))))
    folder = variants / "workspaces" / operator
    times, shares = measured(folder / "benchmark.csv")
    files = [(kernels / first["kernel"], first["baseline_latency_ms"], {})]
    files += [
        (folder / name, times[name], shares.get(name, {})) for name in sorted(times, key=times.__getitem__)
    ]
    found: list[Variant] = []
    for path, published, said in files:
        result = simulated(path, reference, settings)
        here = result.get("milliseconds", float("nan"))
        reason = "" if "milliseconds" in result else result["reason"]
        each = Variant(path.stem, published, here, reason, base_of(published, result, said))
        found.append(each)
        print(
            f"  {each.name:48} {published:9.4f} x{each.base or '?'} {here:9.4f} "
            f"{here / published / max(1, each.base):6.2f}  {reason}",
            flush=True,
        )
    for each, known in zip(with_bases(found), found, strict=True):
        if not known.base:
            print(f"  {each.name:48} x{each.base}, as most of them")
    return with_bases(found)


def ran_of(found: Sequence[Variant]) -> list[Variant]:
    """Return the variants with a simulated time, without the original kernel."""
    return [each for each in found[1:] if np.isfinite(each.here)]


def clear_pairs(found: Sequence[Variant]) -> tuple[int, int, int, int]:
    """Count (all pairs, pairs measured within 5 %, pairs more than 10 % apart, and those of these in the
    right order)."""
    pairs = [sorted(each, key=lambda v: v.measured) for each in combinations(found, 2)]
    apart = [each for each in pairs if each[1].measured > 1.1 * each[0].measured]
    near = sum(each[1].measured < 1.05 * each[0].measured for each in pairs)
    return len(pairs), near, len(apart), sum(each[0].here < each[1].here for each in apart)


def summary(found: Sequence[Variant]) -> str:
    """Describe the rank correlation of variants that ran, and the ratio of the best one to the original
    kernel, measured and simulated."""
    ran = ran_of(found)
    rank = spearman([each.measured for each in ran], [each.here for each in ran])
    raw = spearman([each.published for each in ran], [each.here for each in ran])
    best = min((each.measured for each in ran), default=float("nan")) / found[0].measured
    here = min((each.here for each in ran), default=float("nan")) / found[0].here
    distance = here / best - 1
    return (
        f"Spearman {rank:.2f} ({raw:.2f} with the times as published) over {len(ran)} of {len(found) - 1} "
        f"(goal {RANK_LIMIT}); best to first "
        f"{best:.3f} measured, {here:.3f} here: {distance:+.0%} (goal {RATIO_LIMIT:.0%})\n  "
        "{} pairs, {} within 5 %; {} more than 10 % apart, {} of them in order here".format(*clear_pairs(ran))
    )


def main() -> None:
    """Print a table for each operator."""
    variants, bench = Path(sys.argv[1]), Path(sys.argv[2])
    settings = [each for each in sys.argv[3:] if "=" in each]
    chosen = [each for each in sys.argv[3:] if "=" not in each] or list(OPERATORS)
    for operator in chosen:
        print(f"{operator}: published ms, times which, here, ratio")
        found = variants_of(operator, variants, bench, settings)
        print(f"  {summary(found)}")
        print(f"  {bound_text(ran_of(found), repeats(variants / 'workspaces' / operator))}")


if __name__ == "__main__":
    main()
