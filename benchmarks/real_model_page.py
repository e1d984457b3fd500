"""Reads docs/real-models.md, to keep rows that are not measured again, and to compare cycles with earlier
ones."""

import subprocess
from pathlib import Path
from typing import Any

CLASS = 2
_CELLS, _HOST_CELLS = 14, 6
_OVER = 1e-6
_TARGET, _CYCLES, _HOST = CLASS + 4, CLASS + 7, CLASS + 8


def figures_of_page(text: str) -> dict[str, dict[str, Any]]:
    """Read the page. Returns "model, target" -> the cells of its row, its cycles (None without any), and the
    texts about its Host share and deviations."""
    found: dict[str, dict[str, Any]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) == _CELLS - 1 and cells[CLASS + 1].replace(",", "").isdigit():
            cells.insert(CLASS, "other")  # older pages have no column of classes
        if len(cells) == _CELLS and cells[CLASS + 2].replace(",", "").isdigit():
            target = cells[_TARGET].removesuffix(" *")
            number = cells[_CYCLES].replace(",", "")
            cycles = int(number) if number.isdigit() else None
            found[f"{cells[0]}, {target}"] = {
                "cells": cells, "cycles": cycles, "reasons": [], "is_earlier": True
            }  # fmt: skip
            if cells[_HOST].endswith("%"):
                found[f"{cells[0]}, {target}"]["host"] = _share(cells[_HOST])
        elif len(cells) == _HOST_CELLS and f"{cells[0]}, {cells[2]}" in found and cells[3].endswith("%"):
            # Every row of this table is over its goal, even if the rounded share equals the goal.
            host = _share(cells[3]) + _OVER
            found[f"{cells[0]}, {cells[2]}"] |= {
                "host": host, "exchanged": _share(cells[4]), "host_text": cells[5]
            }  # fmt: skip
        elif line.startswith("- **"):
            name, _, rest = line.removeprefix("- **").partition("** on ")
            target, _, reason = rest.partition(": ")
            if f"{name}, {target}" in found:
                found[f"{name}, {target}"]["reasons"].append(reason)
    return found


def _share(cell: str) -> float:
    """Parse a cell with a percentage to a share."""
    return int(cell.removesuffix("%")) / 100


def page_at(revision: str, document: Path) -> dict[str, dict[str, Any]]:
    """Read the figures of the page at a commit. Raises CalledProcessError if there is no such page."""
    place = f"{revision}:./{document.name}"
    command = ["git", "-C", str(document.parent), "show", place]
    return figures_of_page(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def comparison(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> list[str]:
    """Write a line for each run that was measured again: cycles before and now, and their ratio, the largest
    first."""
    both = [
        (now[key]["cycles"] / before[key]["cycles"], key)
        for key in before
        if before[key]["cycles"] and now.get(key, {}).get("cycles") and "cells" not in now[key]
    ]
    return [
        f"{key:44} {before[key]['cycles']:>12,} {now[key]['cycles']:>12,} {ratio:7.3f}"
        for ratio, key in sorted(both, reverse=True)
    ]
