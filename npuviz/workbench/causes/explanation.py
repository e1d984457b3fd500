"""`npuviz explain`: what a run's time went to, what would help, and what a run with that change takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import NpuvizError
from npuviz.base.progress import Progress
from npuviz.sim.remedy import Effect, HasRemedies, Remedy
from npuviz.trace.causes.what_if import Change, Retimer
from npuviz.workbench.causes.run import Cost, RunCauses, as_plain, run_causes
from npuviz.workbench.causes.what_if_text import parse_what_if
from npuviz.workbench.opening import Opened, OpenOptions, open_file

if TYPE_CHECKING:
    from npuviz.debug.session import Session
    from npuviz.trace.reader import TraceReader

SHOWN_COSTS = 5


def explain_run(
    path: Path,
    options: OpenOptions,
    wanted: tuple[bool, Sequence[str]],
    progress: Progress,
    on_session: Callable[["Session"], object] = lambda _: None,
) -> dict[str, Any]:
    """Everything `npuviz explain --json` prints.

    wanted      whether remedies are verified by runs, and what-if questions
    on_session  called with every session before it runs, so that it can be interrupted
    Raises NpuvizError for what cannot be opened or asked.
    """
    opened = open_file(path, options, progress)
    session, reader = opened.session, opened.reader
    if session is not None:
        on_session(session)
        session.run(None, progress)
        reader = session.trace
    if reader is None:
        return {"file": str(path), "note": "there is no run in it"}
    found = run_causes(reader, session.program if session is not None else None)
    retimer = Retimer(reader, found.graph)
    questions = [(text, parse_what_if(text, reader.schema)) for text in wanted[1]]
    return {
        "file": str(path),
        "cycles": found.cycles,
        "critical_path": {name: cycles for name, cycles in found.by_cause.items() if cycles},
        "costs": _costs(opened, found, retimer, wanted[0], progress),
        "units": {name: _kept(causes) for name, causes in found.units().items()},
        "operators": {name or "none": dict(causes) for name, causes in found.operators.items()},
        "lines": {name: dict(causes) for name, causes in found.lines.items() if name},
        "what_if": [_answer(text, change, retimer, found.cycles) for text, change in questions],
    }


def _kept(causes: Mapping[str, int]) -> dict[str, int]:
    return {name: cycles for name, cycles in causes.items() if cycles}


def _answer(text: str, change: Change, retimer: Retimer, cycles: int) -> dict[str, Any]:
    predicted = retimer.cycles([change])
    return {
        "question": text,
        "predicted_cycles": round(predicted),
        "predicted_gain": cycles - round(predicted),
        "verified": None,
        "note": "not verified: no setting of the machine says this",
    }


def _costs(
    opened: Opened, found: RunCauses, retimer: Retimer, verifies: bool, progress: Progress
) -> list[dict[str, Any]]:
    remedies = remedies_of(opened)
    rows: list[dict[str, Any]] = []
    tried: dict[str, dict[str, Any]] = {}
    for cost in found.costs[:SHOWN_COSTS]:
        row = as_plain(cost, found.cycles)
        row["if_free"] = {"predicted_gain": found.cycles - round(retimer.cycles([_free(cost)]))}
        fitting = [each for each in remedies if cost.kind_name in each.kinds]
        best = max(fitting, key=lambda each: _gain(each, found, retimer), default=None)
        if best is not None:
            if best.text not in tried:
                tried[best.text] = _tried(opened, best, found, retimer, verifies, progress)
            row["remedy"] = tried[best.text]
        rows.append(row)
    return rows


def _free(cost: Cost) -> Change:
    """Nothing of the kind takes any time, on whatever unit."""
    return Change(0.0, None, frozenset((cost.kind,)))


def remedies_of(opened: Opened) -> Sequence[Remedy]:
    """Remedies that the target of what was opened knows."""
    target = opened.target
    if not isinstance(target, HasRemedies):
        return ()
    return target.remedies(opened.options.request(opened.path))


def changes_of(effects: Sequence[Effect], reader: "TraceReader") -> list[Change]:
    """Effects of a remedy on the numbers of a trace."""
    schema, found = reader.schema, []
    for effect in effects:
        kinds = frozenset(kind.id for kind in schema.kinds if kind.name in effect.kinds)
        tracks = [t for t in schema.tracks if t.name.endswith(effect.unit)] if effect.unit else []
        units = frozenset(track.unit for track in tracks) if effect.unit else None
        found.append(Change(effect.factor, units, kinds if effect.kinds else None))
    return found


def _gain(remedy: Remedy, found: RunCauses, retimer: Retimer) -> float:
    return found.cycles - retimer.cycles(changes_of(remedy.effects, found.reader))


def _tried(
    opened: Opened, remedy: Remedy, found: RunCauses, retimer: Retimer, verifies: bool, progress: Progress
) -> dict[str, Any]:
    """A remedy with its predicted gain and, where it was run, the real one."""
    gain = round(_gain(remedy, found, retimer)) if remedy.effects else None
    row: dict[str, Any] = {"text": remedy.text, "settings": dict(remedy.settings), "predicted_gain": gain}
    if not verifies:
        return {**row, "verified_gain": None, "note": "not verified: not asked for"}
    try:
        cycles = cycles_with(opened, remedy.settings, progress)
    except NpuvizError as error:
        return {**row, "verified_gain": None, "note": f"not verified: {error}"}
    row["verified_gain"] = found.cycles - cycles
    if gain is not None:
        row["error"] = abs(gain - row["verified_gain"]) / max(found.cycles, 1)
    return row


def cycles_with(opened: Opened, settings: Mapping[str, str], progress: Progress) -> int:
    """Cycles of a run with other settings, not recorded."""
    merged = {**opened.options.settings, **settings}
    options = replace(opened.options, settings=merged, record=None, is_recording=False)
    again = open_file(opened.path, options, progress)
    try:
        assert again.session is not None
        again.session.run(None, progress)
        return again.session.machine.cycle
    finally:
        again.close()


def explanation_text(found: Mapping[str, Any]) -> str:
    """The explanation as text for a terminal."""
    if "note" in found:
        return f"{found['file']}: {found['note']}"
    total = max(found["cycles"], 1)
    parts = [f"{name} {cycles / total:.1%}" for name, cycles in found["critical_path"].items()]
    lines = [f"{found['file']}: {found['cycles']} cycles", f"critical path: {', '.join(parts)}", ""]
    for number, cost in enumerate(found["costs"], 1):
        lines.append(f"{number}. {cost['text']}")
        lines.append(
            f"   if it took no time: {_gain_text(cost['if_free']['predicted_gain'], total)}, predicted"
        )
        if remedy := cost.get("remedy"):
            lines += _remedy_lines(remedy, total)
    for answer in found["what_if"]:
        gain = _gain_text(answer["predicted_gain"], total)
        lines.append(f"what if {answer['question']}: {gain}, predicted; {answer['note']}")
    return "\n".join(lines)


def _remedy_lines(remedy: Mapping[str, Any], total: int) -> list[str]:
    settings = " ".join(f"--set {name}={value}" for name, value in remedy["settings"].items())
    predicted = remedy["predicted_gain"]
    what = f"predicted {_gain_text(predicted, total)}" if predicted is not None else "not predictable"
    if remedy["verified_gain"] is None:
        what += f"; {remedy['note']}"
    else:
        what += f"; run again: {_gain_text(remedy['verified_gain'], total)}"
        what += f", {remedy['error']:.1%} of the run apart" if "error" in remedy else ""
    return [f"   remedy: {remedy['text']} ({settings})", f"      {what}"]


def _gain_text(gain: int, total: int) -> str:
    return f"{gain} cycles ({gain / total:.1%}) less" if gain >= 0 else f"{-gain} cycles more"
