"""`npuviz run --explain-error`: measures which operators need fp32, and what keeping them in fp32 costs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from npuviz.base.errors import NpuvizError, TargetError
from npuviz.base.progress import Progress
from npuviz.onnx.check.injection import Explanation, explain
from npuviz.onnx.check.references import References
from npuviz.onnx.check.steadiness import moves
from npuviz.onnx.inputs import draw_inputs
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.check_result import CheckResult
from npuviz.workbench.headless.finite import finite
from npuviz.workbench.opening import Opened, OpenOptions, open_file

if TYPE_CHECKING:
    from npuviz.debug.session import Session

SHOWN = 12
SETTING = "keep_fp32"
MAX_ROUNDS = 6
"""Largest number of runs in search of a remedy."""


def explain_error(
    opened: Opened, session: "Session", check: CheckResult, progress: Progress
) -> dict[str, Any]:
    """Find the operators whose own errors cause most of the outputs' error, and try a run with them in fp32.

    Raises TargetError for a program without a model behind it.
    """
    graph = session.program.graph
    if not graph.source:
        raise TargetError("--explain-error: there is no ONNX model to compare with")
    found = _explanation(opened.options, session, progress)
    share = check.end_to_end.share if check.end_to_end is not None else 0.0
    moved = _moved(graph, opened.options, check)
    return {
        "outputs_error": finite(found.left[0]) if found.left else 0.0,
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
        "left": [finite(error) for error in found.left[: SHOWN + 1]],
        "moved_by_a_millionth": finite(moved),
        "remedy": _remedy(opened, session, _Measured(graph, found, share), progress)
        if moved <= share
        else None,
    }


def _moved(graph: Graph, options: OpenOptions, check: CheckResult) -> float:
    """Return how far the reference's own outputs move, as a share of the largest magnitude, of those that are
    wrong, if the model's inputs change by a millionth. Where that is more than is allowed, no type helps."""
    wrong = {finding.tensor for finding in check.findings}
    outputs = [tensor for tensor in graph.outputs if graph.tensors[tensor].name in wrong]
    references = References(graph, draw_inputs(graph, options.inputs, options.seed), outputs)
    return max(moves(graph, references, outputs).values(), default=0.0)


def _explanation(options: OpenOptions, session: "Session", progress: Progress) -> Explanation:
    """Measure how much the error of each operator of a finished run adds to the error of the outputs."""
    graph = session.program.graph
    inputs = draw_inputs(graph, options.inputs, options.seed)

    def held(tensor: int) -> np.ndarray | None:
        found = session.machine.tensor(tensor)
        kind = numpy_dtype(graph.tensors[tensor].dtype)
        if found is None or kind.kind == "O":
            return None
        return np.asarray(found.astype(kind), order="C").reshape(graph.tensors[tensor].shape)

    return explain(graph, inputs, held, lambda share: progress.report(share, "measuring errors"))


@dataclass(frozen=True, slots=True)
class _Measured:
    """Measured errors of a run. share  allowed error of the outputs, relative to their largest magnitude"""

    graph: Graph
    found: Explanation
    share: float


def _remedy(
    opened: Opened, session: "Session", measured: _Measured, progress: Progress
) -> dict[str, Any] | None:
    """Run with growing sets of operators in fp32, and return the first right or the best run; None if no
    operator causes an error.

    After each run the remaining error is measured and the operators that cause it are added: an operator
    whose operands are no longer rounded by their producer may round them itself.
    """
    names: dict[str, None] = {}
    best: dict[str, Any] | None = None
    for _ in range(MAX_ROUNDS):
        wanted = _wanted(measured, names)
        if not wanted:
            break
        names.update(dict.fromkeys(wanted))
        try:
            tried, measured = _run_with(opened, list(names), progress)
        except NpuvizError as error:
            return best or {SETTING: list(names), "refused": str(error)}
        tried["cycles_before"] = session.machine.cycle
        if best is None or _error(tried) < _error(best):
            best = tried
        if tried["outputs_right"]:
            return tried
    return best


def _wanted(measured: _Measured, known: Collection[str]) -> list[str]:
    """Return the names of operators to add: those whose errors must go, and from the second round on also the
    readers of their results, since a result is rounded where a reader is not in fp32, and at least as many
    names as before: errors that operators amplify add up to more than was measured of each."""
    graph, found = measured.graph, measured.found
    if not found.effects or found.left[0] == 0:
        return []
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


def _run_with(opened: Opened, names: list[str], progress: Progress) -> tuple[dict[str, Any], _Measured]:
    """Run with operators kept in fp32, and check the outputs. Raises NpuvizError."""
    settings = {**opened.options.settings, SETTING: ",".join(names)}
    options = replace(opened.options, settings=settings, record=None, is_recording=False)
    again = open_file(opened.path, options, progress)
    try:
        session, target = again.session, again.target
        if session is None or target is None:
            raise TargetError("nothing to run")
        session.run(None, progress)
        whole = target.check(session.machine, progress).end_to_end
        if whole is None:
            raise TargetError("the target compares nothing end to end")
        measured = _Measured(session.program.graph, _explanation(options, session, progress), whole.share)
        tried = {
            SETTING: names,
            "outputs_right": not whole.num_failed,
            "outputs_error": finite(whole.outputs_error),
            "outputs_allowed": finite(whole.share),
            "cycles": session.machine.cycle,
        }
        return tried, measured
    finally:
        again.close()


def explanation_lines(found: Mapping[str, Any]) -> list[str]:
    """Write the result of `explain_error` as lines for a terminal."""
    lines = [
        "",
        f"  explained  the operators' own errors make the outputs {_text(found['outputs_error'])} of their "
        f"largest magnitude wrong (allowed {_text(found['allowed'])})",
    ]
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
    if remedy is None:
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
            f"  no remedy  with the {len(remedy[SETTING])} operators in fp32 that lessen it most "
            f"(--json lists them) the outputs are still wrong, off by {_text(error)}; "
            f"{after} cycles instead of {before} ({change})",
        ]
    return [
        *lines,
        f"  remedy    {setting}: outputs right, off by {_text(error)}{why}; "
        f"{after} cycles instead of {before} ({change})",
    ]


def _text(value: float | None) -> str:
    return "infinitely" if value is None else f"{value:.2g}"
