"""Writes the summary of a run as text for a terminal."""

from typing import Any

from npuviz.base.text_table import table_lines
from npuviz.base.units import format_bytes, format_count, format_share
from npuviz.debug.hazard_groups import group_hazards
from npuviz.sim.machine import Hazard
from npuviz.workbench.headless.exit_codes import EXIT_MISBEHAVED
from npuviz.workbench.headless.host_operators import host_lines

MAX_ROWS = 12
SEVERITIES = ("error", "warning", "info")
_NAMED = 3


def summary_text(summary: dict[str, Any]) -> str:
    """Write several lines: program, time, busy units, peaks of queues and memories, check, hazards and
    notes."""
    seconds = summary["seconds"]
    simulate = seconds["simulate"]
    speed = f" ({format_count(round(summary['cycles'] / simulate))} cycles/s)" if simulate > 0 else ""
    uncompiled = seconds["uncompiled"]
    first = f", {uncompiled:.3f} s of it before the kernels were compiled" if uncompiled > 0 else ""
    hardware = summary["config"] or summary["preset"] or "default"
    lines = [
        f"{summary['title']}  on  {summary['target']} ({hardware})",
        "",
        f"  cycles    {format_count(summary['cycles'])}",
        f"  stopped   {summary['stop']['kind']}{_dash(summary['stop']['detail'])}",
        f"  simulate  {simulate:.3f} s{speed}{first}",
        f"  load      {seconds['load']:.3f} s, building {seconds['compile']:.3f} s, "
        f"kernels {seconds['warm_up']:.3f} s",
        f"  events    {format_count(summary['events'])}",
    ]
    cycles = max(summary["cycles"], 1)
    lines += _table(("unit", "busy cycles", "busy", "waiting", "idle"), [
        (
            u["name"], format_count(u["busy_cycles"]),
            *(format_share(u[part] / cycles) for part in ("busy_cycles", "waiting_cycles", "idle_cycles")),
        )
        for u in summary["units"]
    ])  # fmt: skip
    lines += _table(("queue", "peak", "capacity"), [
        (q["name"], format_count(q["peak"]), format_count(q["capacity"]) if q["capacity"] else "unlimited")
        for q in summary["queues"]
    ])  # fmt: skip
    lines += _table(("memory", "peak", "size"), [
        (m["name"], format_bytes(m["peak_bytes"]), format_bytes(m["bytes"])) for m in summary["memories"]
    ])  # fmt: skip
    lines += [*_report_lines(summary.get("reports", [])), ""]
    for output in summary["outputs"]:
        shape = "x".join(str(dim) for dim in output["shape"]) or "scalar"
        digest = output["sha256"]
        lines.append(
            f"  output    {output['name']}  {output['dtype']} {shape}  {digest[:16] if digest else '-'}"
        )
    lines += check_lines(summary["check"])
    lines += _assertion_lines(summary["assertions"])
    if "explain_error" in summary:
        from npuviz.workbench.headless.explaining import explanation_lines

        lines += explanation_lines(summary["explain_error"])
    lines += _hazard_lines(summary["hazards"])
    lines += [f"  not checked  {text}" for text in summary["not_checked"]]
    if summary["exit"]["code"] == EXIT_MISBEHAVED:
        lines.append(f"  failed    the simulated chip misbehaved: {summary['exit']['reason']} (exit code 3)")
    lines += host_lines(summary.get("on_host", []), summary["cycles"])
    notes = [note for note in summary["notes"] if note.get("reason") is None]
    notes.sort(key=lambda note: SEVERITIES.index(note["severity"]))
    lines += [f"  {note['severity']}: {note['text']}" for note in notes[:MAX_ROWS]]
    more = len(notes) - MAX_ROWS
    if more > 0:
        lines.append(f"  ... and {more} more notes (--json lists all)")
    return "\n".join(lines)


def _report_lines(reports: list[dict[str, Any]]) -> list[str]:
    """Write the first rows of each table that the machine itself reports."""
    lines: list[str] = []
    for report in reports:
        rows = report["rows"][:MAX_ROWS]
        lines += ["", f"  {_uncapitalised(report['title'])}"]
        lines += table_lines([report["columns"], *rows], indent="  ")
        more = len(report["rows"]) - MAX_ROWS
        if more > 0:
            lines.append(f"  ... and {more} more rows (--json lists all)")
    return lines


def _uncapitalised(title: str) -> str:
    """Begin a title with a small letter, as the other headings here do, unless it begins with an acronym."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title


def _hazard_lines(hazards: list[dict[str, Any]]) -> list[str]:
    each = [Hazard(**{"text" if name == "detail" else name: value for name, value in hazard.items()})
            for hazard in hazards]  # fmt: skip
    groups = sorted(group_hazards(each), key=lambda group: group.first.level != "error")
    lines: list[str] = []
    for group in groups[:MAX_ROWS]:
        first = group.first
        label = "hazard " if first.level == "error" else "warning"
        # A hazard that was found from values belongs to no unit.
        unit = f", {first.unit}" if first.unit else ""
        where = f"{first.kind} at cycle {format_count(first.cycle)}{unit}"
        lines.append(f"  {label}   {where}: {group.text}")
        lines += [f"            mend: {first.mend}"] if first.mend else []
    more = len(groups) - MAX_ROWS
    return [*lines, f"  ... and {more} more hazards (--json lists all)"] if more > 0 else lines


def _dash(detail: str) -> str:
    return f" - {detail}" if detail else ""


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    shown = rows[:MAX_ROWS]
    lines = ["", *table_lines([titles, *shown], right=range(1, len(titles)), indent="  ")]
    if len(rows) > MAX_ROWS:
        lines.append(f"  ... and {len(rows) - MAX_ROWS} more (--json lists all)")
    return lines


def _error(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3g}"


def _assertion_lines(assertions: dict[str, Any]) -> list[str]:
    if not assertions["asserted"]:
        return []
    wrong = assertions["violated"]
    kept = assertions["asserted"] - len(wrong)
    lines = [f"  asserted  {'FAILED' if wrong else 'held'}, {kept} of {assertions['asserted']} held"]
    return lines + [f"      cycle {w['cycle']}  {w['assertion']}  {w['reason']}" for w in wrong]


def check_lines(check: dict[str, Any] | None) -> list[str]:
    """Write the verdicts of a check as lines for a terminal."""
    if check is None:
        return []
    whole = check["end_to_end"]
    is_passed = not check["failed"] and not (whole and whole["failed"])
    left = len(whole.get("outputs_not_compared", ())) if whole else 0
    more = f", {left} output{'s' if left > 1 else ''} not compared" if left else ""
    word = "passed" if is_passed else "FAILED"
    if is_passed and whole and whole.get("outputs_right", True) is None:
        word = "not decided, since no output can be compared"
    lines = [f"  check     {word}, {check['tensors']} tensors compared{more}"]
    lines += _verdict_lines("end to end", "outputs", whole)
    if check["per_operator"] or not whole:
        lines += _verdict_lines("per operator", "tensors", check["per_operator"] or check)
    else:
        lines.append("  per operator  not measured: the reference knows whole results only")
    for each in check["findings"][:MAX_ROWS]:
        where = f"; the error first grew in {each['operator']}" if each["operator"] else ""
        cause = f": {each['cause']}" if each["cause"] else ""
        lines.append(f"  wrong     {each['tensor']} {each['text']}{where}{cause}")
    if len(check["findings"]) > MAX_ROWS:
        lines.append(f"  ... and {len(check['findings']) - MAX_ROWS} more (--json lists all)")
    if check["first_divergence"]:
        lines.append(f"  first     {check['first_divergence']}")
    reasons: dict[str, list[str]] = {}
    for each in check["not_compared"]:
        reasons.setdefault(each["reason"], []).append(each["tensor"])
    for reason, names in reasons.items():
        some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
        lines.append(f"  not compared  {len(names)} tensor{'s' if len(names) > 1 else ''}, {reason} ({some})")
    return lines


def _verdict_lines(name: str, what: str, verdict: dict[str, Any] | None) -> list[str]:
    """Write a verdict in two lines: the result with its largest error, and its classes and rule."""
    if verdict is None:
        return []
    failed = verdict["failed"]
    word = f"FAILED in {failed} {what}" if failed else "passed"
    if verdict.get("outputs_right", True) is None:
        word = "no output compared"
    worst = (
        f"largest error {_error(verdict['max_abs_err'])} absolute, {_error(verdict['max_rel_err'])} relative"
    )
    counts = ", ".join(f"{count} {kind}" for kind, count in verdict.get("classes", {}).items() if count)
    lines = [f"  {name}  {word}  ({worst})"]
    return [*lines, f"      {counts}; {verdict['rule']}"] if counts else lines
