"""Runs a model without a window: open, run, check, export, and a summary in a stable format for scripts."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz import __version__
from npuviz.base.errors import ExportError, TargetError, UsageError
from npuviz.base.kernels.seldom import seldom_collected
from npuviz.base.kernels.uncompiled import uncompiled_seconds
from npuviz.base.names import printable
from npuviz.base.progress import NoProgress, Progress
from npuviz.base.registry import EXPORTERS, load_plugins
from npuviz.debug.assertion import Assertions, Violation
from npuviz.export.exporter import DrawsTracks
from npuviz.program.dtypes import dtype_name
from npuviz.sim.check_result import CheckResult, Verdict
from npuviz.sim.checks.findings import findings_of, looks
from npuviz.sim.machine import HOST_OPERATOR, Findings, HasHazards, HasReports, Hazard, LogsHazards, Machine
from npuviz.sim.stop import BROKEN, StopKind, StopReason
from npuviz.workbench.headless.exit_codes import EXIT_FAILED, exit_of
from npuviz.workbench.headless.finite import finite
from npuviz.workbench.headless.host_operators import host_operators
from npuviz.workbench.opening import Opened, OpenOptions, open_file
from npuviz.workbench.tracks.by_loop import with_loops

if TYPE_CHECKING:
    from npuviz.debug.session import Session
    from npuviz.trace.reader import TraceReader

UNCHECKED = BROKEN | {StopKind.INTERRUPTED}
"""Stops after which there is nothing to check."""


@dataclass(frozen=True)
class RunOptions:
    """How to run.

    until       stop at this cycle, None for the end
    conditions  breakpoint texts
    assertions  what must hold, as `npuviz.debug.assertion` reads it
    exports     (exporter name, file) written when the run stopped
    is_checked  compare all computed tensors with the reference execution
    is_explained  check, and measure which operators make the error of the outputs
    looks       look for hazards at the end
    explain_seconds  of the processor that measuring and the search for a remedy may take
    """

    open: OpenOptions = field(default_factory=OpenOptions)
    until: int | None = None
    conditions: tuple[str, ...] = ()
    exports: tuple[tuple[str, Path], ...] = ()
    is_checked: bool = False
    is_explained: bool = False
    assertions: tuple[str, ...] = ()
    looks: bool = True
    explain_seconds: float = 60.0


@dataclass(frozen=True)
class RunResult:
    """The summary that `run --json` prints, and the exit code of the command line."""

    summary: dict[str, Any]
    exit_code: int


def run_model(
    path: Path,
    options: RunOptions,
    progress: Progress | None = None,
    on_session: "Callable[[Session], None] | None" = None,
) -> RunResult:
    """Run a model without a window.

    on_session  is given the session before it runs, for example to interrupt it from a signal.
    Raises NpuvizError; a bundle under construction is then left as far as it was sealed.
    """
    with seldom_collected():
        return _run_model(path, options, progress or NoProgress(), on_session)


def _run_model(
    path: Path,
    options: RunOptions,
    watcher: Progress,
    on_session: "Callable[[Session], None] | None",
) -> RunResult:
    chosen = [_exporter(name) for name, _ in options.exports]
    # A headless run never reads back what it recorded into a bundle, so memory need not hold it.
    opened = open_file(path, replace(options.open, keeps_trace=options.open.record is None), watcher)
    try:
        session = opened.session
        if session is None:
            raise UsageError(f"{path}: a trace bundle has nothing to run; `npuviz open` or `info` show it")
        for text in options.conditions:
            session.breakpoints.add(text)
        assertions = Assertions(session, options.assertions)
        if on_session is not None:
            on_session(session)
        begin, uncompiled = time.perf_counter(), uncompiled_seconds()
        stop = assertions.run(options.until, watcher)
        seconds = time.perf_counter() - begin
        uncompiled = uncompiled_seconds() - uncompiled
        # A run that broke or was interrupted is reported as such, not as a failed check.
        is_checked = (options.is_checked or options.is_explained) and stop.kind not in UNCHECKED
        check = _check(opened, session, watcher) if is_checked else None
        violations = () if stop.kind is StopKind.INTERRUPTED else assertions.finish()
        findings = findings_at(session, stop, check) if options.looks else UNASKED
        summary = summarize(opened, session, Outcome(stop, (seconds, uncompiled), check, findings))
        _add_assertions(summary, options.assertions, violations)
        _refuse_failed_hosts(session)
        if options.is_explained and check is not None:
            from npuviz.workbench.headless.allowance import Allowance
            from npuviz.workbench.headless.explaining import explain_error

            allowance = Allowance(options.explain_seconds, watcher)
            summary["explain_error"] = explain_error(opened, session, check, allowance)
        reader = _publish(opened, session, summary)
        for (name, out), exporter in zip(options.exports, chosen, strict=True):
            export_trace(reader, exporter, name, out, watcher, session.program.listing)
    finally:
        opened.close()
    return RunResult(summary, summary["exit"]["code"])


def _add_assertions(summary: dict[str, Any], texts: tuple[str, ...], violations: Iterable[Violation]) -> None:
    """Add the assertions and their violations to a summary and its exit code."""
    wrong = [asdict(violation) for violation in violations]
    summary["assertions"] = {"asserted": len(texts), "violated": wrong}
    if wrong and not summary["exit"]["code"]:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        first = wrong[0]
        reason = f"assertion {first['assertion']!r} at cycle {first['cycle']}: {first['reason']}{more}"
        summary["exit"] = {"code": EXIT_FAILED, "reason": reason}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went.

    seconds   (seconds of the simulation, seconds of these before the kernels were compiled)
    findings  hazards that the machine found, and what it did not check
    """

    stop: StopReason
    seconds: tuple[float, float]
    check: CheckResult | None
    findings: Findings


def summarize(opened: Opened, session: "Session", outcome: Outcome) -> dict[str, Any]:
    """Return the summary of a run as plain values for JSON."""
    machine = session.machine
    stop, seconds, check = outcome.stop, outcome.seconds, outcome.check
    totals = machine.summary()
    cycles = machine.cycle
    hazards = run_hazards(stop, outcome.findings)
    code, reason = exit_of(stop, check, hazards, session.program.notes)
    return {
        "npuviz": __version__,
        "model": printable(opened.path),
        "title": session.program.title,
        "target": session.description.target,
        "preset": opened.preset or None,
        "config": printable(opened.options.config) if opened.options.config else None,
        "cycles": cycles,
        "stop": {"kind": str(stop.kind), "cycle": stop.cycle, "detail": _detail(session, stop)},
        "seconds": {
            "load": round(opened.seconds.get("load", 0.0), 6),
            "compile": round(opened.seconds.get("compile", 0.0), 6),
            "simulate": round(seconds[0], 6),
            "uncompiled": round(seconds[1], 6),
            "warm_up": round(opened.seconds.get("warm_up", 0.0), 6),
        },
        "events": _num_events(session),
        "units": [
            {
                "name": name,
                "busy_cycles": int(busy),
                "waiting_cycles": int(waiting),
                "idle_cycles": cycles - int(busy) - int(waiting),
                "utilization": busy / cycles if cycles else 0.0,
            }
            for name, busy, waiting in totals.units
        ],
        "queues": [
            {"name": name, "peak": int(peak), "capacity": int(capacity)}
            for name, peak, capacity in totals.queues
        ],
        "memories": [
            {"name": name, "peak_bytes": int(peak), "bytes": int(size)}
            for name, peak, size in totals.memories
        ],
        "counters": {name: int(value) for name, value in totals.counters.items()},
        "outputs": _outputs(session),
        "check": check_values(check),
        "hazards": hazards,
        "not_checked": list(outcome.findings.not_checked),
        "exit": {"code": code, "reason": reason},
        "reports": _reports(machine),
        "on_host": host_operators(session.program, machine),
        "notes": [asdict(note) for note in session.program.notes],
    }


def _reports(machine: Machine) -> list[dict[str, Any]]:
    """Return the tables that the machine itself reports about the run."""
    tables = machine.reports() if isinstance(machine, HasReports) else ()
    return [
        {"title": t.title, "columns": list(t.columns), "rows": [list(row) for row in t.rows]} for t in tables
    ]


def _detail(session: "Session", stop: StopReason) -> str:
    """Return why the run stopped; for a breakpoint, its text."""
    hit = [each.text for each in session.breakpoints.all if each.id in stop.breakpoints]
    return stop.detail or "; ".join(hit)


def export_trace(
    reader: "TraceReader | None",
    exporter: Any,
    name: str,
    out: Path,
    progress: Progress,
    listing: object = None,
) -> None:
    """Write the whole trace with an exporter, with the loops of a listing where that draws tracks.

    Raises ExportError, also for a file that cannot be written.
    """
    if reader is None:
        raise ExportError(f"{name}: nothing was recorded; leave out `--record none` to export")
    shown = with_loops(reader, listing) if isinstance(exporter, DrawsTracks) else reader
    try:
        exporter.export(shown, None, out, progress)
    except OSError as error:
        raise ExportError(f"{out}: {error.strerror or error}") from error


def _publish(opened: Opened, session: "Session", summary: dict[str, Any]) -> "TraceReader | None":
    """Finish the bundle, if one is recorded. Returns the trace that exporters read."""
    recorder = session.recorder
    if recorder is None or recorder.bundle is None:
        return opened.reader
    from npuviz.trace.bundle.bundle import open_bundle

    recorder.bundle.set_model({"summary": summary, "notes": summary["notes"]})
    published = opened.publish()
    return open_bundle(published) if published is not None else None


def exporters() -> dict[str, Any]:
    """Return all installed exporters by name."""
    return load_plugins(EXPORTERS)


def _exporter(name: str) -> Any:
    known = exporters()
    if name not in known:
        raise UsageError(f"unknown export format {name!r}; known: {', '.join(known) or 'none'}")
    return known[name]


def _check(opened: Opened, session: "Session", progress: Progress) -> CheckResult:
    if opened.target is None or not session.is_finished:
        raise TargetError(
            f"--check needs the whole run: it stopped at cycle {session.cycle}; leave out --until and --break"
        )
    return opened.target.check(session.machine, progress)


def check_values(check: CheckResult | None) -> dict[str, Any] | None:
    """Return the verdicts of a check as plain values for `run --json`."""
    if check is None:
        return None
    outputs = check.end_to_end
    return {
        "tensors": check.num_tensors,
        "failed": check.num_failed,
        "max_abs_err": finite(check.max_abs_err),
        "max_rel_err": finite(check.max_rel_err),
        "first_divergence": check.first_divergence or None,
        "tolerance": check.tolerance,
        "per_operator": _verdict_values(check.per_operator) if check.per_operator else None,
        "end_to_end": _verdict_values(outputs) | _outputs_values(outputs) if outputs else None,
        "findings": [
            {
                "tensor": each.tensor,
                "text": each.text,
                "operator": each.operator or None,
                "cause": each.cause or None,
            }
            for each in check.findings
        ],
        "not_compared": [
            {"tensor": name, "reason": reason}
            for reason, names in check.not_compared.items()
            for name in names
        ],
    }


def _outputs_values(verdict: Verdict) -> dict[str, Any]:
    """Return what became of the outputs; "outputs_right" is None if there are some and none was compared."""
    is_right = None if verdict.says_nothing and not verdict.num_failed else not verdict.num_failed
    return {"outputs_right": is_right, "outputs_not_compared": list(verdict.outputs_left)}


def _verdict_values(verdict: Verdict) -> dict[str, Any]:
    return {
        "tensors": verdict.num_tensors,
        "failed": verdict.num_failed,
        "classes": dict(verdict.classes),
        "max_abs_err": finite(verdict.max_abs_err),
        "max_rel_err": finite(verdict.max_rel_err),
        "first_divergence": verdict.first_divergence or None,
        "rule": verdict.rule,
    }


def _refuse_failed_hosts(session: "Session") -> None:
    """Raise TargetError if the Host could not compute an operator: all later values are meaningless."""
    machine = session.machine
    if session.is_finished and isinstance(machine, HasHazards):
        for hazard in machine.hazards():
            if hazard.kind == HOST_OPERATOR:
                raise TargetError(hazard.text)


def _num_events(session: "Session") -> int:
    recorder = session.recorder
    return int(recorder.num_events) if recorder is not None else 0


def _outputs(session: "Session") -> list[dict[str, Any]]:
    graph = session.program.graph
    found: list[dict[str, Any]] = []
    for tensor_id in graph.outputs:
        tensor = graph.tensors[tensor_id]
        values = session.machine.tensor(tensor_id) if session.is_finished else None
        found.append(
            {
                "name": tensor.name,
                "shape": list(tensor.shape),
                "dtype": tensor.dtype if values is None else dtype_name(values.dtype),
                "sha256": None if values is None else sha256(values.tobytes()).hexdigest(),
            }
        )
    return found


UNASKED = Findings((), ("anything: nobody asked for it",))


def findings_at(session: "Session", stop: StopReason, check: CheckResult | None = None) -> Findings:
    """Ask the machine for hazards if the run ended or broke, a check computed the values, or asking costs
    nothing.

    Otherwise the result says why nothing was looked for.
    """
    machine = session.machine
    is_free = isinstance(machine, LogsHazards) and machine.logs_hazards
    if not looks(machine):
        return Findings((), ("anything: this machine does not look for hazards",))
    if check is None and not session.is_finished and not is_free and stop.kind not in BROKEN:
        return Findings((), ("anything: the program has not ended",))
    return findings_of(machine)


def run_hazards(stop: StopReason, findings: Findings) -> list[dict[str, Any]]:
    """Return the fault that broke the run, if any, and the hazards of the machine as `run --json` prints
    them."""
    broken = [Hazard(stop.cycle, stop.unit, stop.instruction, stop.kind.value, stop.detail)]
    return [hazard_values(each) for each in (*(broken if stop.kind in BROKEN else ()), *findings.hazards)]


def hazard_values(hazard: Hazard) -> dict[str, Any]:
    """Return a hazard as plain values with the names of JSON and SQL (`detail` for its text)."""
    return {"detail" if name == "text" else name: value for name, value in asdict(hazard).items()}
