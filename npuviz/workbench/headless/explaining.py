"""`npuviz run --explain-error`: which few operators need fp32, measured, and what that costs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from npuviz.base.errors import NpuvizError, TargetError
from npuviz.base.progress import Progress
from npuviz.onnx.check.injection import Explanation, explain
from npuviz.onnx.inputs import draw_inputs
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Graph
from npuviz.sim.target import CheckResult
from npuviz.workbench.headless.finite import finite
from npuviz.workbench.opening import Opened, OpenOptions, open_file

if TYPE_CHECKING:
    from npuviz.debug.session import Session

SHOWN = 12
SETTING = "keep_fp32"


def explain_error(
    opened: Opened, session: "Session", check: CheckResult, progress: Progress
) -> dict[str, Any]:
    """The operators whose own errors make most of the outputs' error, and a run with those in fp32.

    Raises TargetError for a program without a model behind it.
    """
    graph = session.program.graph
    if not graph.source:
        raise TargetError("--explain-error: there is no ONNX model to compare with")
    inputs = draw_inputs(graph, opened.options.inputs, opened.options.seed)

    def held(tensor: int) -> np.ndarray | None:
        found = session.machine.tensor(tensor)
        kind = numpy_dtype(graph.tensors[tensor].dtype)
        if found is None or kind.kind == "O":
            return None
        return np.asarray(found.astype(kind), order="C").reshape(graph.tensors[tensor].shape)

    found = explain(graph, inputs, held, lambda share: progress.report(share, "measuring errors"))
    share = check.end_to_end.share if check.end_to_end is not None else 0.0
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
        "remedy": _remedy(opened, session, _proposals(graph, found, share), progress),
    }


def _proposals(graph: Graph, found: Explanation, share: float) -> list[list[str]]:
    """Names of operators to keep in fp32, the smallest set first: those that are needed, then those too that
    read their results, for a result leaves fp32 where its reader does."""
    if not found.effects or not found.left or found.left[0] == 0:
        return []
    needed = max(1, found.needed(share))
    readers = graph.consumers()
    proposals: list[list[str]] = []
    for count in dict.fromkeys((needed, min(2 * needed, len(found.effects)))):
        effects = found.effects[:count]
        nodes = [node for each in effects for node in each.nodes]
        behind = [node for each in effects for node in readers[each.tensor]]
        proposals.append([graph.nodes[node].name for node in dict.fromkeys(nodes)])
        proposals.append([graph.nodes[node].name for node in dict.fromkeys((*nodes, *behind))])
    return proposals


def _remedy(
    opened: Opened, session: "Session", proposals: list[list[str]], progress: Progress
) -> dict[str, Any] | None:
    """The first proposal that makes the outputs right, else the best, as it ran; None if none can run."""
    best: dict[str, Any] | None = None
    for names in proposals:
        try:
            tried = _run_with(opened.path, opened.options, names, progress)
        except NpuvizError as error:
            return best or {SETTING: names, "refused": str(error)}
        tried["cycles_before"] = session.machine.cycle
        if best is None or _error(tried) < _error(best):
            best = tried
        if tried["outputs_right"]:
            return tried
    return best


def _error(tried: Mapping[str, Any]) -> float:
    return float("inf") if tried["outputs_error"] is None else tried["outputs_error"]


def _run_with(path: Path, options: OpenOptions, names: list[str], progress: Progress) -> dict[str, Any]:
    """A run with operators kept in fp32, and its check end to end."""
    settings = {**options.settings, SETTING: ",".join(names)}
    opened = open_file(path, replace(options, settings=settings, record=None, is_recording=False), progress)
    try:
        session, target = opened.session, opened.target
        if session is None or target is None:
            raise TargetError("nothing to run")
        session.run(None, progress)
        whole = target.check(session.machine, progress).end_to_end
        if whole is None:
            raise TargetError("the target compares nothing end to end")
        return {
            SETTING: names,
            "outputs_right": not whole.num_failed,
            "outputs_error": finite(whole.outputs_error),
            "cycles": session.machine.cycle,
        }
    finally:
        opened.close()


def explanation_lines(found: Mapping[str, Any]) -> list[str]:
    """The explanation as text for a terminal."""
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
    remedy = found["remedy"]
    if remedy is None:
        return lines
    setting = f"--set {SETTING}={','.join(remedy[SETTING])}"
    if "refused" in remedy:
        return [*lines, f"  remedy    {setting} was refused: {remedy['refused']}"]
    word = "right" if remedy["outputs_right"] else "still wrong"
    before, after = remedy["cycles_before"], remedy["cycles"]
    change = f"{after / before - 1:+.1%}" if before else "-"
    return [
        *lines,
        f"  remedy    {setting}: outputs {word}, off by {_text(remedy['outputs_error'])}; "
        f"{after} cycles instead of {before} ({change})",
    ]


def _text(value: float | None) -> str:
    return "infinitely" if value is None else f"{value:.2g}"
