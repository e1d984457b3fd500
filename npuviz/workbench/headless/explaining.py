"""`npuviz run --explain-error`: measures which operators need fp32, and what keeping them in fp32 costs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npuviz.base.errors import Cancelled, NpuvizError, TargetError
from npuviz.onnx.check.injection import Explanation, explain
from npuviz.onnx.check.references import References
from npuviz.onnx.check.steadiness import moves
from npuviz.onnx.inputs import draw_inputs
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult
from npuviz.workbench.headless.allowance import Allowance, OutOfTime, Steps
from npuviz.workbench.headless.finite import finite
from npuviz.workbench.opening import Opened, OpenOptions, open_file

if TYPE_CHECKING:
    from npuviz.debug.session import Session

SHOWN = 12
SETTING = "keep_fp32"
MAX_ROUNDS = 6
"""Largest number of runs in search of a remedy."""
TIME_FOR_MEASURING = 0.5
"""Share of the time that is left in which a run's errors are measured."""
OUT_OF_TIME = "the time was over"


def explain_error(
    opened: Opened, session: "Session", check: CheckResult, allowance: Allowance
) -> dict[str, Any]:
    """Find the operators whose own errors cause most of the outputs' error, and try a run with them in fp32.
    What takes longer than is allowed is left out and counted.

    Raises TargetError for a program without a model behind it.
    """
    graph = session.program.graph
    if not graph.source:
        raise TargetError("--explain-error: there is no ONNX model to compare with")
    found = _explanation(opened.options, session, allowance.part(TIME_FOR_MEASURING))
    whole = check.end_to_end
    share = whole.share if whole is not None else 0.0
    moved = _moved(graph, opened.options, check)
    search = Search()
    remedy = None
    if moved <= share:
        remedy = _remedy(opened, session, _Measured(graph, found, share), allowance, search)
    return {
        "outputs_error": finite(found.left[0]) if found.left else 0.0,
        "outputs_error_of_inputs_and_weights": None if found.given is None else finite(found.given),
        "outputs_error_measured": finite(whole.outputs_error) if whole is not None else None,
        "allowed": share,
        "operators": [
            {
                "operator": each.operator,
                "tensor": graph.tensors[each.tensor].name,
                "own_error": finite(each.own),
                "outputs_error": finite(each.on_outputs),
            }
            for each in found.effects[:SHOWN]
        ],
        "operators_tried": len(found.effects),
        "operators_untried": found.untried,
        "results_unread": found.unread,
        "left": [finite(error) for error in found.left[: SHOWN + 1]],
        "moved_by_a_millionth": finite(moved),
        "remedy": remedy,
        "runs": search.runs,
        "runs_end": search.end,
        "seconds": round(allowance.spent(), 1),
        "seconds_allowed": allowance.seconds,
    }


def _moved(graph: Graph, options: OpenOptions, check: CheckResult) -> float:
    """Return how far the reference's own outputs move, as a share of the largest magnitude, of those that are
    wrong, if the model's inputs change by a millionth. Where that is more than is allowed, no type helps."""
    wrong = {finding.tensor for finding in check.findings}
    outputs = [tensor for tensor in graph.outputs if graph.tensors[tensor].name in wrong]
    references = References(graph, draw_inputs(graph, options.inputs, options.seed), outputs)
    return max(moves(graph, references, outputs).values(), default=0.0)


def _explanation(options: OpenOptions, session: "Session", allowance: Allowance) -> Explanation:
    """Measure how much the error of each operator of a finished run adds to the error of the outputs, as far
    as time allows."""
    graph = session.program.graph
    inputs = draw_inputs(graph, options.inputs, options.seed)

    def held(tensor: int) -> np.ndarray | None:
        found = session.machine.tensor(tensor)
        kind = numpy_dtype(graph.tensors[tensor].dtype)
        if found is None or kind.kind == "O":
            return None
        return np.asarray(found.astype(kind), order="C").reshape(graph.tensors[tensor].shape)

    return explain(
        graph,
        inputs,
        held,
        lambda share: allowance.forward(share, "measuring errors"),
        Steps(allowance).goes_on,
    )


@dataclass(frozen=True, slots=True)
class _Measured:
    """Measured errors of a run. share  allowed error of the outputs, relative to their largest magnitude"""

    graph: Graph
    found: Explanation
    share: float


@dataclass(slots=True)
class Search:
    """How far the search for a remedy came. runs  that ended; end  why there were no more, as words"""

    runs: int = 0
    end: str = ""


def _remedy(
    opened: Opened, session: "Session", measured: _Measured, allowance: Allowance, search: Search
) -> dict[str, Any] | None:
    """Run with growing sets of operators in fp32, and return the first right or the best run; None if no
    operator causes an error, or no run ended in the time allowed.

    After each run the remaining error is measured and the operators that cause it are added: an operator
    whose operands are no longer rounded by their producer may round them itself.
    """
    names: dict[str, None] = {}
    best: dict[str, Any] | None = None
    while search.runs < MAX_ROUNDS:
        wanted = _wanted(measured, names)
        if not wanted:
            search.end = "no other operator makes the outputs wrong"
            return best
        names.update(dict.fromkeys(wanted))
        try:
            tried, measured = _run_with(opened, list(names), allowance)
        except OutOfTime:
            search.end = OUT_OF_TIME
            return best
        except NpuvizError as error:
            search.end = "a run was refused"
            return best or {SETTING: list(names), "refused": str(error)}
        search.runs += 1
        tried["cycles_before"] = session.machine.cycle
        if best is None or _error(tried) < _error(best):
            best = tried
        if tried["outputs_right"]:
            search.end = "the outputs are right"
            return tried
    search.end = f"{MAX_ROUNDS} runs are the most"
    return best


def _wanted(measured: _Measured, known: Collection[str]) -> list[str]:
    """Return the names of operators to add: those whose errors must go, and from the second round on also the
    readers of their results, since a result is rounded where a reader is not in fp32, and at least as many
    names as before: errors that operators amplify add up to more than was measured of each. Where rounded
    inputs and weights alone make the outputs wrong, these are the operators that read them."""
    graph, found = measured.graph, measured.found
    if not found.effects or found.left[0] == 0:
        read = [graph.nodes[node].name for node in found.readers] if found.given else []
        return [name for name in read if name not in known]
    readers = graph.consumers()
    least = max(1, found.needed(measured.share))
    wanted: dict[str, None] = {}
    for count, each in enumerate(found.effects):
        if count >= least and len(wanted) >= max(1, len(known)):
            break
        names = [graph.nodes[node].name for node in each.nodes]
        names += [graph.nodes[node].name for node in readers[each.tensor]] if known else []
        wanted.update(dict.fromkeys(name for name in names if name not in known))
    return list(wanted)


def _error(tried: Mapping[str, Any]) -> float:
    return float("inf") if tried["outputs_error"] is None else tried["outputs_error"]


def _run_with(opened: Opened, names: list[str], allowance: Allowance) -> tuple[dict[str, Any], _Measured]:
    """Run with operators kept in fp32, and check the outputs. Raises NpuvizError, OutOfTime if the run or its
    check did not end."""
    settings = {**opened.options.settings, SETTING: ",".join(names)}
    options = replace(opened.options, settings=settings, record=None, is_recording=False)
    allowance.report(-1.0, "opening")
    again = open_file(opened.path, options, allowance)
    try:
        session, target = again.session, again.target
        if session is None or target is None:
            raise TargetError("nothing to run")
        session.run(None, allowance)
        if not session.is_finished:
            allowance.report(-1.0, "running")
            raise Cancelled("interrupted")
        whole = target.check(session.machine, allowance).end_to_end
        if whole is None:
            raise TargetError("the target compares nothing end to end")
        tried = {
            SETTING: names,
            "outputs_right": not whole.num_failed,
            "outputs_error": finite(whole.outputs_error),
            "outputs_allowed": finite(whole.share),
            "cycles": session.machine.cycle,
        }
        found = Explanation((), ())
        if whole.num_failed and allowance.goes_on():
            found = _explanation(options, session, allowance.part(TIME_FOR_MEASURING))
        return tried, _Measured(session.program.graph, found, whole.share)
    finally:
        again.close()


def explanation_lines(found: Mapping[str, Any]) -> list[str]:
    """Write the result of `explain_error` as lines for a terminal."""
    lines = [
        "",
        f"  explained  {_operators(found['operators_tried'])}' own errors make the outputs "
        f"{_text(found['outputs_error'])} of their largest magnitude wrong; they are "
        f"{_text(found['outputs_error_measured'])} wrong (allowed {_text(found['allowed'])})",
    ]
    given = found["outputs_error_of_inputs_and_weights"]
    if given:
        lines.append(
            f"    inputs and weights as the machine holds them alone make the outputs {_text(given)} wrong"
        )
    for each in found["operators"]:
        own, out = _text(each["own_error"]), _text(each["outputs_error"])
        lines.append(
            f"    {each['operator']}: off by {own} itself, which alone makes the outputs {out} wrong"
        )
    remedy, moved = found["remedy"], found["moved_by_a_millionth"]
    if moved is None or moved > found["allowed"]:
        return [
            *lines,
            f"  no remedy  the model's inputs, changed by a millionth, move the reference's own outputs by "
            f"{_text(moved)}, and any machine rounds more than that",
            "            mend: give inputs that the model is meant for, --input NAME=FILE.npy; operators are "
            "judged one by one above",
        ]
    lines += _tried_lines(found)
    if remedy is None:
        if found["runs_end"] == OUT_OF_TIME:
            lines.append("  no remedy found  no run with operators in fp32 ended in that time")
        return lines
    setting = f"--set {SETTING}={','.join(remedy[SETTING])}"
    if "refused" in remedy:
        return [*lines, f"  remedy    {setting} was refused: {remedy['refused']}"]
    before, after = remedy["cycles_before"], remedy["cycles"]
    change = f"{after / before - 1:+.1%}" if before else "-"
    error, allowed = remedy["outputs_error"], remedy["outputs_allowed"]
    is_amplified = remedy["outputs_right"] and error is not None and allowed is not None and error > allowed
    why = f" (allowed {_text(allowed)}, or what an output makes of its input's error)" if is_amplified else ""
    if not remedy["outputs_right"]:
        return [
            *lines,
            f"  no remedy found  with the {len(remedy[SETTING])} operators in fp32 that lessen it most "
            f"(--json lists them) the outputs are still wrong, off by {_text(error)}; "
            f"{after} cycles instead of {before} ({change})",
        ]
    return [
        *lines,
        f"  remedy    {setting}: outputs right, off by {_text(error)}{why}; "
        f"{after} cycles instead of {before} ({change})",
    ]


def _tried_lines(found: Mapping[str, Any]) -> list[str]:
    """Say what was tried, what was not, and what would try more."""
    untried, unread = found["operators_untried"], found["results_unread"]
    left = f"; not tried: {_operators(untried)} with smaller errors of their own" if untried else ""
    left += f"; not looked at: {unread} results of operators" if unread else ""
    is_short = unread or found["runs_end"] == OUT_OF_TIME
    more = f"; --explain-seconds {4 * found['seconds_allowed']:.0f} tries more" if is_short else ""
    return [
        f"  tried     {_operators(found['operators_tried'])} one by one, and {found['runs']} runs with some "
        f"in fp32 ({found['runs_end']}){left}; {found['seconds']:.0f} s of the processor of "
        f"{found['seconds_allowed']:.0f} allowed{more}"
    ]


def _operators(count: int) -> str:
    return f"{count} operator{'' if count == 1 else 's'}"


def _text(value: float | None) -> str:
    return "infinitely" if value is None else f"{value:.2g}"
