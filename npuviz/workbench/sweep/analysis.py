"""Analyses a sweep: its Pareto front, and the effect of each axis."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.workbench.sweep.plan import Scalar
from npuviz.workbench.sweep.results import SweepResults


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one axis on one column.

    levels   values of the axis; factors  geometric mean of the column at each level, relative to its
    geometric
    mean over all levels with all other axes equal (1 = average); NaN if nothing can be compared
    spread   largest factor divided by the smallest, 1 if the axis has no effect
    """

    axis: str
    column: str
    levels: tuple[Scalar, ...]
    factors: tuple[float, ...]
    spread: float


def pareto_front(results: SweepResults, columns: Sequence[str], rows: Sequence[int]) -> list[int]:
    """Return the Pareto front of `rows`: no other row is at least as good in all `columns` and better in one.

    Directions are those of the objectives, "min" for other columns. Rows with a missing number are left
    out. Sorted by the first column.
    """
    signs = [-1.0 if results.objectives.get(name) == "max" else 1.0 for name in columns]
    values = np.column_stack(
        [results.columns[name] * sign for name, sign in zip(columns, signs, strict=True)]
    )
    known = [row for row in rows if np.isfinite(values[row]).all()]
    known.sort(key=lambda row: tuple(values[row]))
    front: list[int] = []
    for row in known:
        # Sorted: a later row never beats an earlier one.
        is_beaten = any(
            (values[other] <= values[row]).all() and (values[other] < values[row]).any() for other in front
        )
        if not is_beaten:
            front.append(row)
    return front


def comparable(results: SweepResults) -> list[tuple[str, list[int]]]:
    """Group runs that may be compared: one group per model, in the order of the plan, or [("", all)] if the
    model is no axis."""
    if "model" not in results.axes:
        return [("", list(range(len(results))))]
    index = results.axes.index("model")
    groups: dict[str, list[int]] = defaultdict(list)
    for row, point in enumerate(results.points):
        groups[str(point[index])].append(row)
    return list(groups.items())


def effects(results: SweepResults, column: str, rows: Sequence[int]) -> list[Effect]:
    """Compute the effect of every axis with several values on a column, the strongest first.

    Runs are compared only with those that differ from them in this one axis. Runs whose number is missing or
    not positive are left out.
    """
    found: list[Effect] = []
    values = results.columns[column]
    for index, name in enumerate(results.axes):
        levels = list(dict.fromkeys(results.points[row][index] for row in rows))
        if len(levels) < 2:
            continue
        factors = _factors(results, values, rows, index, levels)
        known = [factor for factor in factors if np.isfinite(factor)]
        spread = max(known) / min(known) if len(known) > 1 else 1.0
        found.append(Effect(name, column, tuple(levels), tuple(factors), spread))
    return sorted(found, key=lambda effect: -effect.spread)


def _factors(
    results: SweepResults, values: np.ndarray, rows: Sequence[int], index: int, levels: Sequence[Scalar]
) -> list[float]:
    groups: dict[tuple[Scalar, ...], list[int]] = defaultdict(list)
    for row in rows:
        if np.isfinite(values[row]) and values[row] > 0:
            point = results.points[row]
            groups[point[:index] + point[index + 1 :]].append(row)
    logs: Mapping[Scalar, list[float]] = {level: [] for level in levels}
    for members in groups.values():
        # Only groups with a run at every level: a level whose slow runs failed would look good otherwise.
        if len(members) != len(levels):
            continue
        mean = float(np.mean(np.log(values[members])))
        for row in members:
            logs[results.points[row][index]].append(float(np.log(values[row])) - mean)
    return [float(np.exp(np.mean(logs[level]))) if logs[level] else float("nan") for level in levels]
