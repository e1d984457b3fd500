"""Reports a sweep: Pareto front and effects of axes as HTML or Markdown, and the outcome as text and data."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from npuviz import __version__
from npuviz.base.errors import ExportError, UsageError
from npuviz.base.text_table import table_lines
from npuviz.workbench.sweep.analysis import Effect, comparable, effects, pareto_front
from npuviz.workbench.sweep.dispatch import SweepOutcome
from npuviz.workbench.sweep.figures import effects_svg, number_text, scatter_svg
from npuviz.workbench.sweep.results import DONE, SweepResults

FORMS = (".html", ".md")
MAX_ERRORS = 20

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid #8884; padding: .2rem .8rem .2rem 0; text-align: left }
td.number, th.number { text-align: right }
svg { max-width: 100%; height: auto }
"""


def check_report_name(path: Path) -> None:
    """Check, before anything runs, that a report can be written to the path. Raises UsageError."""
    if path.suffix not in FORMS:
        raise UsageError(f"--report {path}: expected a name that ends in {' or '.join(FORMS)}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--report {path}: the folder does not exist")


def write_report(results: SweepResults, path: Path) -> None:
    """Write a report; figures of a Markdown report lie beside it. Raises ExportError."""
    check_report_name(path)
    try:
        if path.suffix == ".html":
            path.write_text(_html(results), encoding="utf-8")
        else:
            _write_markdown(results, path)
    except OSError as error:
        raise ExportError(f"{path}: {error.strerror or error}") from error


def outcome_values(outcome: SweepOutcome, folder: Path) -> dict[str, Any]:
    """Return all that `npuviz sweep --json` prints."""
    results = outcome.results
    return {
        "npuviz": __version__,
        "sweep": results.name,
        "folder": str(folder),
        "runs": len(results),
        "executed": outcome.executed,
        "reused": outcome.reused,
        "failed": outcome.failed,
        "seconds": round(outcome.seconds, 3),
        "errors": list(outcome.errors[:MAX_ERRORS]),
        "pareto": [
            {
                "model": Path(model).name,
                "runs": [
                    {
                        "point": dict(zip(results.axes, results.points[row], strict=True)),
                        "values": {name: _plain(column[row]) for name, column in results.columns.items()},
                    }
                    for row in pareto_front(results, list(results.objectives), rows)
                ],
            }
            for model, rows in comparable(results)
        ],
    }


def outcome_text(outcome: SweepOutcome, folder: Path) -> str:
    """Write the text that `npuviz sweep` prints at the end."""
    results = outcome.results
    rate = f" in {outcome.seconds:.1f} s" if outcome.executed else ""
    lines = [
        f"{results.name}: {len(results)} runs, {outcome.executed} done now{rate}, {outcome.reused} reused, "
        f"{outcome.failed} failed"
    ]
    lines += [f"  failed: {error}" for error in outcome.errors[:MAX_ERRORS]]
    for model, rows in comparable(results):
        front = pareto_front(results, list(results.objectives), rows)
        if front:
            title = f" of {Path(model).name}" if model else ""
            lines.append(f"best runs{title} ({_aims(results)}):")
            table = _rows(results, front)
            lines += table_lines(table, right=range(len(table[0])), indent="  ")
    lines.append(f"results in {folder}; npuviz open {folder} shows them")
    return "\n".join(lines)


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _aims(results: SweepResults) -> str:
    return ", ".join(f"{way} {name}" for name, way in results.objectives.items())


def _rows(results: SweepResults, rows: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the header and one row per run: axes, then columns."""
    shown = [index for index, name in enumerate(results.axes) if name != "model"]
    table = [(*(results.axes[index] for index in shown), *results.columns)]
    for row in rows:
        values = [_cell(results.axes[index], results.points[row][index]) for index in shown]
        table.append((*values, *(number_text(column[row]) for column in results.columns.values())))
    return table


def _cell(axis: str, value: object) -> str:
    return Path(str(value)).name if axis == "config" else str(value)


def _pair(results: SweepResults) -> tuple[str, str] | None:
    """Return the columns of the x and y axis of the figure: the second objective and the first one."""
    names = [*results.objectives, *(name for name in results.columns if name not in results.objectives)]
    return (names[1], names[0]) if len(names) > 1 else None


def _sections(
    results: SweepResults,
) -> list[tuple[str, list[int], list[int], list[tuple[str, list[Effect]]]]]:
    found: list[tuple[str, list[int], list[int], list[tuple[str, list[Effect]]]]] = []
    for model, rows in comparable(results):
        front = pareto_front(results, list(results.objectives), rows)
        each = [(name, effects(results, name, rows)) for name in results.objectives]
        found.append((Path(model).name if model else "All runs", rows, front, each))
    return found


def _html(results: SweepResults) -> str:
    done = sum(status == DONE for status in results.statuses)
    parts = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><title>{escape(results.name)}</title>',
        f"<style>{_STYLE}</style>",
        f"<h1>{escape(results.name)}</h1>",
        f"<p>{len(results)} runs, {len(results) - done} failed. Objectives: {escape(_aims(results))}. "
        f"npuviz {__version__}.</p>",
    ]
    pair = _pair(results)
    for title, rows, front, each in _sections(results):
        parts.append(f"<h2>{escape(title)}</h2><h3>Best runs</h3>")
        if pair:
            two = pareto_front(results, pair, rows)
            parts.append(scatter_svg(results, rows, *pair, two))
        parts.append(_html_table(_rows(results, front), len(results.axes) - ("model" in results.axes)))
        for name, found in each:
            figure = effects_svg(found)
            if figure:
                parts.append(f"<h3>What changes {escape(name)}</h3>{figure}")
    errors = list(dict.fromkeys(error for error in results.errors if error))
    if errors:
        items = "".join(f"<li>{escape(error)}</li>" for error in errors[:MAX_ERRORS])
        parts.append(f"<h2>Failed runs</h2><ul>{items}</ul>")
    return "\n".join(parts) + "\n"


def _html_table(table: Sequence[tuple[str, ...]], plain: int) -> str:
    lines: list[str] = []
    for index, row in enumerate(table):
        tag = "th" if index == 0 else "td"
        kinds = [""] * plain + [' class="number"'] * (len(row) - plain)
        cells = "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))
        lines.append(f"<tr>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"


def _write_markdown(results: SweepResults, path: Path) -> None:
    done = sum(status == DONE for status in results.statuses)
    lines = [
        f"# {_plain_markdown(results.name)}",
        "",
        f"{len(results)} runs, {len(results) - done} failed. Objectives: {_plain_markdown(_aims(results))}. "
        f"npuviz {__version__}.",
    ]
    pair = _pair(results)
    for number, (title, rows, front, each) in enumerate(_sections(results), 1):
        lines += ["", f"## {_plain_markdown(title)}", "", "### Best runs", ""]
        if pair:
            figure = scatter_svg(results, rows, *pair, pareto_front(results, pair, rows))
            lines += _figure(path, figure, f"runs-{number}", f"{pair[1]} over {pair[0]}")
        table = _rows(results, front)
        lines += [_markdown_row(table[0]), "|" + "---|" * len(table[0])]
        lines += [_markdown_row(row) for row in table[1:]]
        for place, (name, found) in enumerate(each, 1):
            figure = effects_svg(found)
            if figure:
                lines += ["", f"### What changes {_plain_markdown(name)}", ""]
                lines += _figure(path, figure, f"effects-{number}-{place}", f"Effect of every axis on {name}")
    errors = list(dict.fromkeys(error for error in results.errors if error))
    if errors:
        lines += ["", "## Failed runs", "", *(f"- {_plain_markdown(error)}" for error in errors[:MAX_ERRORS])]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _figure(path: Path, figure: str, name: str, title: str) -> list[str]:
    if not figure:
        return []
    file = path.with_name(f"{path.stem}-{name}.svg")
    file.write_text(figure.replace('fill="currentColor"', 'fill="#555"'), encoding="utf-8")
    return [f"![{_plain_markdown(title)}]({quote(file.name)})", ""]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain_markdown, cells)) + " |"


def _plain_markdown(text: str) -> str:
    """Escape untrusted text for Markdown: one line, without effective HTML or Markdown marks."""
    marked = re.sub(r"([\\`*\[\]|~!]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", " ".join(text.split()))
    return escape(marked, quote=False)
