"""`npuviz explain`: finds the costs of a run, remedies with predicted gains, and verifies them by more
runs."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuviz.base.errors import NpuvizError, TargetError, UsageError
from npuviz.base.progress import NoProgress, Progress
from npuviz.base.units import format_share
from npuviz.sim.remedy import Effect, HasKnobs, HasRemedies, Remedy
from npuviz.sim.settings import SettingNames
from npuviz.sim.stop import StopKind
from npuviz.sim.target import HasSettings
from npuviz.trace.causes.what_if import Change, Retimer
from npuviz.workbench.causes.bound import bound_lines, bound_of
from npuviz.workbench.causes.run import Cost, RunCauses, as_plain, run_causes
from npuviz.workbench.causes.what_if_text import parse_what_if, settings_of
from npuviz.workbench.opening import Opened, OpenOptions, open_file
from npuviz.workbench.processes import default_jobs, in_processes

if TYPE_CHECKING:
    from npuviz.debug.session import Session
    from npuviz.trace.reader import TraceReader

SHOWN_COSTS = 5
PREDICTED_WITHIN = 0.05
"""Share of a run within which predicted and real gains should agree."""
WORTH_A_PROCESS = 3.0
"""Seconds of the first run from which further runs get processes of their own: starting one takes about
two."""


def explain_run(
    path: Path,
    options: OpenOptions,
    wanted: tuple[bool, Sequence[str]],
    progress: Progress,
    on_session: Callable[["Session"], object] = lambda _: None,
) -> dict[str, Any]:
    """Run a model or open a bundle, and return all that `npuviz explain --json` prints.

    wanted      (whether to verify remedies and questions by runs, texts of what-if questions)
    on_session  called with every session before it runs, so that it can be interrupted
    Raises NpuvizError for what cannot be opened or asked.
    """
    begin = time.perf_counter()
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
    questions = [_question(text, opened, reader) for text in wanted[1]]
    chosen = _remedies(opened, found, retimer)
    again = _Again(opened, time.perf_counter() - begin, progress)
    if wanted[0]:
        tried = [remedy for remedies in chosen.values() for remedy in remedies]
        again.run([each.settings for each in (*tried, *questions) if each.settings])
    rows = {
        kind: max((_remedy_row(each, again, found, retimer) for each in remedies), key=_worth)
        for kind, remedies in chosen.items()
    }
    return {
        "file": str(path),
        "cycles": found.cycles,
        "bound": bound_of(session, reader),
        "critical_path": {name: cycles for name, cycles in found.by_cause.items() if cycles},
        "costs": [
            _cost_row(cost, found, retimer, rows.get(cost.kind_name)) for cost in found.costs[:SHOWN_COSTS]
        ],
        "units": {name: _kept(causes) for name, causes in found.units().items()},
        "operators": {name or "none": dict(causes) for name, causes in found.operators.items()},
        "lines": {name: dict(causes) for name, causes in found.lines.items() if name},
        "what_if": [_answer(each, again, retimer, found.cycles) for each in questions],
    }


def _kept(causes: Mapping[str, int]) -> dict[str, int]:
    return {name: cycles for name, cycles in causes.items() if cycles}


@dataclass(frozen=True, slots=True)
class _Question:
    """A what-if question.

    changes   to predict its effect from the trace, None if only a run can tell
    settings  to verify it by a run, {} if no setting expresses it
    """

    text: str
    changes: Sequence[Change] | None
    settings: Mapping[str, str]


def _question(text: str, opened: Opened, reader: "TraceReader") -> _Question:
    """Parse a what-if question. Raises UsageError for other texts, and for settings that the target lacks."""
    settings = settings_of(text)
    if not settings:
        return _Question(text, [parse_what_if(text, reader.schema)], {})
    target = opened.target
    if target is None or opened.session is None:
        raise UsageError(f"what-if {text[:60]!r}: a recorded run has no settings; give the model")
    request = opened.options.request(opened.path)
    if isinstance(target, HasSettings):
        names = [setting.name for setting in target.settings(request)]
        SettingNames(tuple(names)).refuse_others(settings)
    knobs = {knob.setting: knob for knob in target.knobs(request)} if isinstance(target, HasKnobs) else {}
    try:
        values = {name: float(value) for name, value in settings.items()}
        if not all(0 < value < math.inf for value in values.values()):
            return _Question(text, None, settings)
        effects = [each for name, value in values.items() for each in knobs[name].effects(value)]
    except (KeyError, ValueError, ZeroDivisionError):
        return _Question(text, None, settings)
    return _Question(text, changes_of(effects, reader), settings)


def _answer(question: _Question, again: "_Again", retimer: Retimer, cycles: int) -> dict[str, Any]:
    predicted = None if question.changes is None else cycles - retimer.cycles(question.changes)
    row: dict[str, Any]
    if question.settings:
        row = again.gain(question.settings, cycles, predicted)
        gained = row["verified_gain"]
        row["verified"] = None if gained is None else cycles - gained
    else:
        note = "not verified: no setting of the machine says this"
        row = {
            "predicted_gain": round(predicted or 0.0),
            "verified_gain": None,
            "verified": None,
            "note": note,
        }
    gain = row["predicted_gain"]
    return {"question": question.text, "predicted_cycles": None if gain is None else cycles - gain, **row}


def _remedies(opened: Opened, found: RunCauses, retimer: Retimer) -> dict[str, list[Remedy]]:
    """Choose, for each of the costliest kinds, the remedy with the best predicted gain and all unpredictable
    ones."""
    remedies = remedies_of(opened)
    chosen: dict[str, list[Remedy]] = {}
    for cost in found.costs[:SHOWN_COSTS]:
        fitting = [each for each in remedies if cost.kind_name in each.kinds]
        predicted = [each for each in fitting if each.effects]
        best = [max(predicted, key=lambda each: gain_of(each, found, retimer) or 0.0)] if predicted else []
        if fitting:
            chosen[cost.kind_name] = best + [each for each in fitting if not each.effects]
    return chosen


def _remedy_row(remedy: Remedy, again: "_Again", found: RunCauses, retimer: Retimer) -> dict[str, Any]:
    gains = again.gain(remedy.settings, found.cycles, gain_of(remedy, found, retimer))
    return {**gains, "text": remedy.text, "settings": dict(remedy.settings)}


def _worth(row: Mapping[str, Any]) -> tuple[bool, float]:
    """Return a sort key of a remedy: verified gains stand above predicted ones."""
    verified, predicted = row["verified_gain"], row["predicted_gain"]
    return verified is not None, float(predicted or 0 if verified is None else verified)


def _cost_row(
    cost: Cost, found: RunCauses, retimer: Retimer, remedy: dict[str, Any] | None
) -> dict[str, Any]:
    row = as_plain(cost, found.cycles)
    row["if_free"] = {"predicted_gain": found.cycles - round(retimer.cycles([_free(cost)]))}
    return row if remedy is None else {**row, "remedy": remedy}


def _free(cost: Cost) -> Change:
    """Return the change in which all work or waits of the cost's kind take no time, on every unit."""
    return Change(0.0, None, frozenset((cost.kind,)))


def remedies_of(opened: Opened) -> Sequence[Remedy]:
    """Return the remedies that the target of an opened file offers, () if it offers none."""
    target = opened.target
    if not isinstance(target, HasRemedies):
        return ()
    return target.remedies(opened.options.request(opened.path))


def changes_of(effects: Sequence[Effect], reader: "TraceReader") -> list[Change]:
    """Translate effects, which use names of kinds and units, to changes, which use the ids of a trace."""
    schema, found = reader.schema, []
    for effect in effects:
        kinds = frozenset(kind.id for kind in schema.kinds if kind.name in effect.kinds)
        tracks = [t for t in schema.tracks if t.name.endswith(effect.unit)] if effect.unit else []
        units = frozenset(track.unit for track in tracks) if effect.unit else None
        found.append(Change(effect.factor, units, kinds if effect.kinds else None))
    return found


def gain_of(remedy: Remedy, found: RunCauses, retimer: Retimer) -> float | None:
    """Predict how many cycles a remedy saves; None where only a run can tell."""
    if not remedy.effects:
        return None
    return found.cycles - retimer.cycles(changes_of(remedy.effects, found.reader))


class _Again:
    """Runs a model again with other settings: in at most one process per processor if the first run took
    long.

    seconds  duration of the first run
    """

    def __init__(self, opened: Opened, seconds: float, progress: Progress) -> None:
        self._opened, self._progress = opened, progress
        self._jobs = default_jobs() if seconds > WORTH_A_PROCESS else 1
        self._found: dict[frozenset[tuple[str, str]], int | str] = {}

    def run(self, wanted: Sequence[Mapping[str, str]]) -> None:
        """Run once with each of these settings, and keep the cycles or the error."""
        jobs = [*{frozenset(each.items()): None for each in wanted}]
        opened = self._opened
        count = min(self._jobs, len(jobs))
        if count > 1:
            tasks = [(opened.path, opened.options, each) for each in jobs]
            self._progress.report(-1.0, f"{len(jobs)} runs with other settings")
            self._found = dict(in_processes(_cycles_in_process, tasks, count))
            return
        for each in jobs:
            try:
                self._found[each] = cycles_with(opened, dict(each), self._progress)
            except NpuvizError as error:
                self._found[each] = str(error)

    def gain(self, settings: Mapping[str, str], cycles: int, predicted: float | None) -> dict[str, Any]:
        """Return the predicted and the measured saving of settings in cycles, with their relative distance
        or a note."""
        gain = None if predicted is None else round(predicted)
        after = self._found.get(frozenset(settings.items()))
        row: dict[str, Any] = {"predicted_gain": gain, "verified_gain": None}
        if after is None:
            return {**row, "note": "not verified: not asked for"}
        if isinstance(after, str):
            return {**row, "note": f"not verified: {after}"}
        row["verified_gain"] = cycles - after
        if gain is not None:
            row["error"] = abs(gain - row["verified_gain"]) / max(cycles, 1)
        return row


def _cycles_in_process(
    task: tuple[Path, OpenOptions, frozenset[tuple[str, str]]],
) -> tuple[frozenset[tuple[str, str]], int | str]:
    """Run with other settings. Returns them with the cycles, or with the error message."""
    path, options, settings = task
    try:
        return settings, _cycles(path, options, dict(settings), NoProgress())
    except NpuvizError as error:
        return settings, str(error)


def cycles_with(opened: Opened, settings: Mapping[str, str], progress: Progress) -> int:
    """Run an opened model once more with other settings, without recording, and return its cycles."""
    return _cycles(opened.path, opened.options, settings, progress)


def _cycles(path: Path, options: OpenOptions, settings: Mapping[str, str], progress: Progress) -> int:
    merged = {**options.settings, **settings}
    again = open_file(path, replace(options, settings=merged, record=None, is_recording=False), progress)
    try:
        assert again.session is not None
        stop = again.session.run(None, progress)
        if stop.kind is not StopKind.FINISHED:
            raise TargetError(f"{stop.kind} at cycle {stop.cycle}: {stop.detail}")
        return again.session.machine.cycle
    finally:
        again.close()


def explanation_text(found: Mapping[str, Any]) -> str:
    """Format the explanation as text for a terminal."""
    if "note" in found:
        return f"{found['file']}: {found['note']}"
    total = max(found["cycles"], 1)
    parts = [f"{name} {format_share(cycles / total)}" for name, cycles in found["critical_path"].items()]
    lines = [f"{found['file']}: {found['cycles']} cycles", *bound_lines(found["bound"], total)]
    lines += [f"critical path: {', '.join(parts)}", ""]
    for number, cost in enumerate(found["costs"], 1):
        lines.append(f"{number}. {cost['text']}")
        lines.append(
            f"   if it took no time: {_gain_text(cost['if_free']['predicted_gain'], total)}, predicted"
        )
        if remedy := cost.get("remedy"):
            lines += _remedy_lines(remedy, total)
    for answer in found["what_if"]:
        lines += [f"what if {answer['question']}:", f"   {_gains(answer, total)}"]
    return "\n".join(lines)


def _remedy_lines(remedy: Mapping[str, Any], total: int) -> list[str]:
    settings = " ".join(f"--set {name}={value}" for name, value in remedy["settings"].items())
    return [f"   remedy: {remedy['text']} ({settings})", f"      {_gains(remedy, total)}"]


def _gains(row: Mapping[str, Any], total: int) -> str:
    """Write a predicted gain, and the gain that a second run measured."""
    predicted = row["predicted_gain"]
    what = f"predicted {_gain_text(predicted, total)}" if predicted is not None else "not predictable"
    if row["verified_gain"] is None:
        return f"{what}; {row['note']}"
    what += f"; run again: {_gain_text(row['verified_gain'], total)}"
    if "error" not in row:
        return what
    what += f", {format_share(row['error'])} of the run apart"
    return what + (", so that the prediction does not hold" if row["error"] > PREDICTED_WITHIN else "")


def _gain_text(gain: int, total: int) -> str:
    return f"{gain} cycles ({format_share(gain / total)}) less" if gain >= 0 else f"{-gain} cycles more"
