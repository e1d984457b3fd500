"""`npuviz compare`: cycles of two runs side by side, by cause, operator, source line and unit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import UsageError
from npuviz.base.names import echo
from npuviz.base.progress import Progress
from npuviz.base.text_table import table_lines
from npuviz.base.units import format_cycles_as_time
from npuviz.sim.stop import StopKind, StopReason
from npuviz.trace.comparison import compare
from npuviz.trace.unit_times import tracks_of_units, unit_label, unit_times
from npuviz.workbench.causes.run import run_causes
from npuviz.workbench.comparing.lines import paired_lines, renamed
from npuviz.workbench.costs import costs
from npuviz.workbench.opening import OpenOptions, open_file

if TYPE_CHECKING:
    from npuviz.debug.session import Session
    from npuviz.program.program import Program
    from npuviz.trace.reader import TraceReader

MOST_ROWS = 12
"""Rows of a table of the text; the JSON has all."""
NOTHING = "(nothing under way)"
UNNAMED = "(work of no operator)"


@dataclass(frozen=True, slots=True)
class Run:
    """A run to compare: its name, its trace, and its program if known.

    problem  why it stopped before the end of its program, "" if it reached it
    """

    name: str
    target: str
    reader: "TraceReader"
    program: "Program | None"
    problem: str = ""


def opened_run(
    path: Path,
    options: OpenOptions,
    progress: Progress,
    on_session: Callable[["Session"], object] = lambda _: None,
) -> Run:
    """Open a bundle, or run a model to its end.

    on_session  called with the session before it runs, so that it can be interrupted
    Raises NpuvizError for what cannot be opened.
    """
    opened = open_file(path, options, progress)
    session, reader, problem = opened.session, opened.reader, ""
    if session is not None:
        on_session(session)
        problem = problem_of(session.run(None, progress))
        reader = session.trace
    if reader is None:
        raise UsageError(f"{echo(str(path))}: there is no run in it; give a trace bundle or a model")
    target = session.description.target if session is not None else reader.schema.target
    return Run(opened.title, target, reader, session.program if session is not None else None, problem)


def problem_of(stop: StopReason) -> str:
    """Return why a run stopped before the end of its program, "" if it reached it."""
    if stop.kind is StopKind.FINISHED:
        return ""
    return f"{stop.kind.value}: {stop.detail}" if stop.detail else stop.kind.value


def compare_runs(a: Run, b: Run) -> dict[str, Any]:
    """Compare two runs, and return all that `npuviz compare --json` prints.

    The table by cause and the table by operator, with its row of idle cycles, each sum to the cycles of the
    run, so that the changes in either table sum to the change of the run.
    """
    found = compare(a.reader, b.reader)
    causes = [run_causes(each.reader, each.program) for each in (a, b)]
    operators = [_operators(each.reader) for each in (a, b)]
    lines = [_on_path(each.lines) for each in causes]
    pairs = _pairs(a, b, [{**one, **another} for one, another in zip(operators, lines, strict=True)])
    ends = [each.reader.end_cycle for each in (a, b)]
    return {
        "a": _head(a),
        "b": _head(b),
        "change": ends[1] - ends[0],
        "is_equal": found.is_equal,
        "first_difference": None
        if found.first_divergence is None
        else {"cycle": found.first_divergence, "track": found.track},
        "causes": _rows(*(dict(each.by_cause) for each in causes), name="cause"),
        "operators": _paired_rows(operators, pairs, name="operator"),
        "lines": _paired_rows(lines, pairs, name="line"),
        "units": _units(a.reader, b.reader),
        "only_a": list(found.only_a),
        "only_b": list(found.only_b),
        "not_known": [each.by_cause.get("not known", 0) for each in causes],
    }


def _pairs(a: Run, b: Run, names: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """Return name of a source line in B -> its name in A."""
    if a.program is None or b.program is None:
        return {}
    return paired_lines(a.program.listing, b.program.listing, (names[0], names[1]))


def _paired_rows(
    values: Sequence[Mapping[str, float]], pairs: Mapping[str, str], *, name: str
) -> list[dict[str, Any]]:
    """Return a row for each name; "there" is the name of a line in B where that is another one."""
    mine, other = values
    if not pairs:
        return _rows(mine, other, name=name)
    there = {one: another for another, one in pairs.items() if one != another}
    rows = _rows(mine, renamed(other, pairs, mine), name=name)
    return [{**row, "there": there[row[name]]} if row[name] in there else row for row in rows]


def _head(run: Run) -> dict[str, Any]:
    """Return the name, target and length of a run. frequency_hz is 0 where the clock is not known."""
    return {
        "name": run.name,
        "target": run.target,
        "cycles": run.reader.end_cycle,
        "frequency_hz": run.reader.schema.frequency_hz,
        "problem": run.problem,
    }


def times_differ(found: Mapping[str, Any]) -> bool:
    """Return whether the runs count cycles of different lengths, so that fewer cycles may take longer."""
    a, b = (found[key]["frequency_hz"] for key in ("a", "b"))
    return a > 0 and b > 0 and a != b


def in_nanoseconds(found: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the tables of a comparison from cycles to nanoseconds, for runs with different clocks.

    The changes of causes and operators still sum to that of the run. Both clocks must be known.
    """
    scales = {key: 1e9 / found[key]["frequency_hz"] for key in ("a", "b")}

    def timed(row: Mapping[str, Any]) -> dict[str, Any]:
        # The key of a value of one run ends in its letter: "a", "busy_b".
        cells: dict[str, Any] = {
            name: value * scales[name[-1]] if name[-1] in scales and not isinstance(value, str) else value
            for name, value in row.items()
        }
        a, b = ("busy_a", "busy_b") if "busy_a" in cells else ("a", "b")
        return {**cells, "change": cells[b] - cells[a]}

    tables = {
        key: sorted(map(timed, found[key]), key=lambda row: -abs(row["change"]))
        for key in ("causes", "operators", "lines", "units")
    }
    ends = [found[key]["cycles"] * scale for key, scale in scales.items()]
    return {**found, **tables, "change": ends[1] - ends[0]}


def _operators(reader: "TraceReader") -> dict[str, float]:
    """Return operator -> cycles of the run: each cycle is shared among the operators under way in it."""
    found = costs(reader, "operator", puts_functions_together=True)
    names = reader.schema.node_names
    cycles: dict[str, float] = {}
    for key, share in zip(found.key.tolist(), found.share.tolist(), strict=True):
        name = names[key] if 0 <= key < len(names) else UNNAMED
        cycles[name] = cycles.get(name, 0.0) + share
    rest = found.end - found.idle - sum(cycles.values())
    return {**cycles, UNNAMED: cycles.get(UNNAMED, 0.0) + rest, NOTHING: found.idle}


def _on_path(lines: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Return the cycles of the critical path, by source line."""
    return {name: sum(cycles.values()) for name, cycles in lines.items() if name}


def _rows(a: Mapping[str, float], b: Mapping[str, float], *, name: str) -> list[dict[str, Any]]:
    """Return a row for each name of either run with its cycles in both, the largest change first."""
    rows = [
        {name: each, "a": round(a.get(each, 0), 1), "b": round(b.get(each, 0), 1),
         "change": round(b.get(each, 0) - a.get(each, 0), 1)}
        for each in dict.fromkeys((*a, *b))
        if a.get(each, 0) or b.get(each, 0)
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -abs(row["change"]))


def _units(a: "TraceReader", b: "TraceReader") -> list[dict[str, Any]]:
    """Return the units that both runs have, with cycles busy and waiting."""
    times = [{unit_label(each.schema, unit): time for unit, time in _times(each).items()} for each in (a, b)]
    rows = [
        {"unit": name, "busy_a": mine.busy, "busy_b": other.busy, "change": other.busy - mine.busy,
         "waiting_a": mine.waiting, "waiting_b": other.waiting}
        for name, mine in times[0].items()
        if (other := times[1].get(name)) is not None
    ]  # fmt: skip
    return sorted(rows, key=lambda row: -abs(row["change"]))


def _times(reader: "TraceReader") -> Mapping[int, Any]:
    return unit_times(reader, (0, reader.end_cycle), list(tracks_of_units(reader.schema)), ())


def comparison_lines(found: Mapping[str, Any]) -> list[str]:
    """Write the comparison as lines for a terminal."""
    a, b = found["a"], found["b"]
    share = f", {b['cycles'] / a['cycles']:.3f} times" if a["cycles"] else ""
    lines = [
        f"A  {a['name']} ({a['target']})  {_length(a)}",
        f"B  {b['name']} ({b['target']})  {_length(b)}  ({found['change']:+d}{share})",
        *(f"{key.upper()} did not end: {found[key]['problem']}" for key in "ab" if found[key]["problem"]),
    ]
    if times_differ(found):
        lines.append("Their clocks differ: the tables have nanoseconds.")
        found = in_nanoseconds(found)
    if found["is_equal"]:
        return [*lines, "The traces are equal."]
    if (first := found["first_difference"]) is not None:
        lines.append(f"First difference at cycle {first['cycle']} in {first['track']}.")
    for title, key, columns in (
        ("Critical path by cause", "causes", ("cause", "a", "b", "change")),
        ("Operators", "operators", ("operator", "a", "b", "change")),
        ("Source lines on the critical path", "lines", ("line", "a", "b", "change")),
        ("Units", "units", ("unit", "busy_a", "busy_b", "change", "waiting_a", "waiting_b")),
    ):
        lines += _table(title, found[key], columns)
    for names, which in ((found["only_a"], "A"), (found["only_b"], "B")):
        if names:
            more = f" and {len(names) - MOST_ROWS} more" if len(names) > MOST_ROWS else ""
            lines.append(f"Only in {which}: {', '.join(names[:MOST_ROWS])}{more}")
    if any(found["not_known"]):
        lost = " and ".join(str(cycles) for cycles in found["not_known"])
        lines.append(f"Of the critical paths {lost} cycles have no cause that a machine recorded.")
    return lines


def _length(run: Mapping[str, Any]) -> str:
    """Describe the cycles of a run, and the time that they take."""
    time = format_cycles_as_time(run["cycles"], run["frequency_hz"])
    return f"{run['cycles']} cycles" + (f", {time}" if time else "")


def _table(title: str, rows: Sequence[Mapping[str, Any]], columns: tuple[str, ...]) -> list[str]:
    changed = [row for row in rows if row["change"]]
    if not changed:
        return []
    cells = [columns, *(tuple(_cell(row, name) for name in columns) for row in changed[:MOST_ROWS])]
    more = [f"and {len(changed) - MOST_ROWS} more that changed"] if len(changed) > MOST_ROWS else []
    same = len(rows) - len(changed)
    head = f"{title} ({same} unchanged):" if same else f"{title}:"
    return ["", head, *table_lines(cells), *more]


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    if isinstance(value, str):
        return echo(f"{value} -> {row['there']}" if row.get("there") else value)
    return f"{value:+.0f}" if name == "change" else f"{value:.0f}"
