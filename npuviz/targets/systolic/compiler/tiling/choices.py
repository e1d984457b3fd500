"""Tilings and core assignments chosen by a search or a file, instead of the estimate's best.

A problem is identified by its sizes, not by its name: equal layers share a choice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from npuviz.formats.json_text import read_json_object, wrong_json

ProblemKey = tuple[str | int, ...]
"""Kind of problem ("matrix", "window") and its sizes."""

INTERLEAVED, BLOCKED = "interleaved", "blocked"
ASSIGNMENTS = (INTERLEAVED, BLOCKED)
MAX_CHOICES = 100_000


@dataclass(frozen=True, slots=True)
class Choice:
    """Tile sizes of a problem, and the assignment of its tiles to cores.

    sizes       fields of MatrixTiling or WindowTiling, in their order
    assignment  "interleaved": tile groups go round the cores; "blocked": neighbours stay on one core
    """

    sizes: tuple[int, ...]
    assignment: str = INTERLEAVED


@dataclass
class Asked:
    """A problem met while compiling: its first node, its choices, best first, and its number of nodes."""

    node: int
    candidates: tuple[Choice, ...]
    times: int = 1


@dataclass
class Choices:
    """Choices by problem (`made`), and the problems met while compiling (`asked`)."""

    made: Mapping[ProblemKey, Choice] = field(default_factory=dict[ProblemKey, Choice])
    asked: dict[ProblemKey, Asked] = field(default_factory=dict[ProblemKey, Asked])


def assign(groups: np.ndarray, num_groups: int, num_cores: int, assignment: str) -> np.ndarray:
    """Return the core of each tile from the number of its group (tiles of one accumulation)."""
    if assignment == BLOCKED:
        return groups * num_cores // max(1, num_groups)
    return groups % num_cores


def write_choices(path: Path, made: Mapping[ProblemKey, Choice]) -> None:
    """Write choices for `--set tilings=FILE`. May raise OSError."""
    rows = [
        {"problem": list(key), "sizes": list(choice.sizes), "assignment": choice.assignment}
        for key, choice in made.items()
    ]
    path.write_text(json.dumps({"npuviz_tilings": rows}, indent=1) + "\n")


def read_choices(path: Path) -> dict[ProblemKey, Choice]:
    """Read what `write_choices` wrote. Raises FormatError."""
    rows = read_json_object(path).get("npuviz_tilings")
    if not isinstance(rows, list) or len(rows) > MAX_CHOICES:
        raise wrong_json(path, "key npuviz_tilings", "a list, as `npuviz map` writes it", rows)
    return dict(_row(path, index, row) for index, row in enumerate(rows))


def _row(path: Path, index: int, row: Any) -> tuple[ProblemKey, Choice]:
    where = f"npuviz_tilings[{index}]"
    if not isinstance(row, dict):
        raise wrong_json(path, where, "an object", row)
    problem: Any = row.get("problem")
    sizes: Any = row.get("sizes")
    assignment: Any = row.get("assignment", INTERLEAVED)
    if not isinstance(problem, list) or not problem or not all(isinstance(i, str | int) for i in problem):
        raise wrong_json(path, f"{where}.problem", "a kind and sizes", problem)
    if not isinstance(sizes, list) or not _are_sizes(sizes, 3 if problem[0] == "matrix" else 4):
        raise wrong_json(path, f"{where}.sizes", "positive tile sizes", sizes)
    if assignment not in ASSIGNMENTS:
        raise wrong_json(path, f"{where}.assignment", "one of " + ", ".join(ASSIGNMENTS), assignment)
    return tuple(problem), Choice(tuple(sizes), assignment)


def _are_sizes(sizes: list[Any], count: int) -> bool:
    return len(sizes) == count and all(type(size) is int and 0 < size < 1 << 40 for size in sizes)
