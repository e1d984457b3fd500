"""`npuviz map`: searches for better tilings of a model."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.base.text_table import table_lines
from npuviz.base.units import format_count, format_share
from npuviz.sim.target import LoadRequest, MapResult, Maps
from npuviz.workbench.choosing import choose_target, targets
from npuviz.workbench.opening import OpenOptions


def map_file(
    path: Path,
    candidates: int,
    out: Path | None = None,
    options: OpenOptions | None = None,
    progress: Progress | None = None,
) -> MapResult:
    """Search for better tilings with the target of the model, and write them to `out`. Raises NpuvizError."""
    chosen = options or OpenOptions()
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise UsageError(f"-o {out}: {'a folder' if out.is_dir() else 'its folder does not exist'}")
    target = choose_target(path, chosen.target)
    if not isinstance(target, Maps):
        able = [each.id for each in targets().values() if isinstance(each, Maps)]
        raise UsageError(f"{path}: target {target.id} has no tilings to search; these do: {', '.join(able)}")
    request = LoadRequest(path, chosen.preset, chosen.config, chosen.settings)
    try:
        return target.map(request, candidates, out, progress or NoProgress())
    except OSError as error:
        raise UsageError(f"-o {out}: {error.strerror or error}") from None


def map_values(result: MapResult) -> dict[str, Any]:
    """Return the result as plain values for JSON."""
    return {
        "default_cycles": result.default_cycles,
        "found_cycles": result.found_cycles,
        "operators": [asdict(row) for row in result.rows],
    }


def map_text(result: MapResult) -> str:
    """Lay out the result as a table for a terminal."""
    columns = ("operator", "default", "cycles", "found", "cycles", "won", "tried")
    rows = [
        (
            row.operator,
            row.default,
            format_count(row.default_cycles),
            row.found,
            format_count(row.found_cycles),
            _won(row.default_cycles, row.found_cycles),
            str(row.tried),
        )
        for row in result.rows
    ]
    lines = table_lines([columns, *rows])
    total = (
        f"whole model: {format_count(result.default_cycles)} cycles by default, "
        f"{format_count(result.found_cycles)} as found ({_won(result.default_cycles, result.found_cycles)})"
    )
    return "\n".join([*lines, "", total])


def _won(before: int, after: int) -> str:
    return format_share((before - after) / before) if before else "-"
