"""Text commands for the futures that writes replaced: list them, go to one, compare one with the present."""

from typing import Any

import numpy as np

from npuviz.debug.branches import Branch
from npuviz.debug.console.answer import Answer
from npuviz.debug.console.arguments import number_of, words_of
from npuviz.debug.console.motion import stop_answer
from npuviz.debug.edits import EditList
from npuviz.debug.session import Session
from npuviz.sim.machine import Machine
from npuviz.trace.comparison import compare

MOST_NAMED = 3
MOST_UNITS = 20
COLUMNS = ("branch", "parts_at", "writes", "left_at", "known_to")


def branches(session: Session, rest: str) -> Answer:
    """Answer `branches`: list the branches."""
    words_of(rest, 0, 0)
    rows = tuple(branch_row(session, branch) for branch in session.branches)
    pairs = {"present": edits_text(session.edits, session.machine)}
    return Answer(pairs, COLUMNS, rows, "branches")


def branch_row(session: Session, branch: Branch) -> tuple[Any, ...]:
    """Return the COLUMNS of a branch."""
    text = edits_text(branch.edits, session.machine)
    return branch.id, branch.parts_at(session.edits), text, branch.cycle, branch.known_to


def edits_text(edits: EditList, machine: Machine) -> str:
    """Describe the writes on the way to a future, the last ones in words."""
    found = [f"{edit.text(machine)} at {cycle}" for cycle, edit in edits.all]
    if not found:
        return "nothing written"
    more = f"{len(found) - MOST_NAMED} more, " if len(found) > MOST_NAMED else ""
    return more + ", ".join(found[-MOST_NAMED:])


def switch(session: Session, rest: str) -> Answer:
    """Answer `branch N`: go to where a branch was left."""
    return stop_answer(session, session.switch(number_of(words_of(rest, 1, 1)[0], "a branch", 1)))


def compare_branch(session: Session, rest: str) -> Answer:
    """Answer `compare N`: compare a branch with the present future."""
    return comparison(session, number_of(words_of(rest, 1, 1)[0], "a branch", 1))


def comparison(session: Session, branch_id: int) -> Answer:
    """Compare a branch (A) with the present future (B), each as far as it was simulated."""
    apart = session.run_apart(branch_id, lambda: _outputs(session.machine))
    assert session.trace is not None
    here = session.at_cycle(session.known_to, lambda: _outputs(session.machine))
    found = compare(apart.trace, session.trace)
    pairs: dict[str, Any] = {
        "branch": branch_id,
        "cycles_branch": found.end_a,
        "cycles_present": found.end_b,
        "first_difference": found.first_divergence,
        "track": found.track or None,
    }
    units = [(each.name, each.busy_a, each.busy_b, each.busy_b - each.busy_a) for each in found.units]
    pairs["outputs"] = [_difference(name, value, here.get(name)) for name, value in apart.seen.items()]
    note = "units work the same" if not units else ""
    if len(units) > MOST_UNITS:
        note = f"{len(units) - MOST_UNITS} more units"
    columns = ("unit", "busy_branch", "busy_present", "change")
    return Answer(pairs, columns, tuple(units[:MOST_UNITS]), "units", note)


def _outputs(machine: Machine) -> dict[str, np.ndarray | None]:
    """Return copies of the model's outputs now; None for one that has no values now."""
    graph = machine.program.graph
    values = {graph.tensors[tensor].name: machine.tensor(tensor) for tensor in graph.outputs}
    return {name: None if value is None else np.array(value) for name, value in values.items()}


def _difference(name: str, old: np.ndarray | None, new: np.ndarray | None) -> str:
    """Describe how an output of the present differs from that of a branch."""
    if old is None or new is None:
        return f"{name} not compared: it holds no values"
    if old.shape == new.shape and old.tobytes() == new.tobytes():
        return f"{name} equal"
    if old.shape != new.shape or old.dtype.kind not in "biuf":
        return f"{name} differs"
    is_other = old != new
    gap = np.abs(old.astype(np.float64) - new.astype(np.float64))
    count = int(is_other.sum())
    return f"{name} differs in {count} of {old.size}, by up to {np.nanmax(gap, initial=0.0):.6g}"
