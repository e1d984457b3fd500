"""Keep budgets of runs in a file beside the tests:
cycles, and the units and operators that worked in them."""

import json
import os
from pathlib import Path
from typing import Any

from npuviz.api import DebugSession
from npuviz.base.errors import FormatError, UsageError

SHOWN = 5
WORK = """select node, sum(cycles) from slices
where node is not null and role not like 'wait-%' group by 1 order by 1"""


class Budgets:
    """Budgets of runs by name. Raises FormatError for a file that is no file of budgets.

    is_updating  write the measured cycles instead of comparing
    """

    def __init__(self, path: Path, is_updating: bool = False) -> None:
        self._path, self._is_updating = path, is_updating

    def check(self, session: DebugSession, name: str, slower: float = 0.02) -> None:
        """Assert that a finished run takes at most its budget and the share `slower` more; if not, name the
        units and operators that work longer.

        Raises UsageError for a run that has not ended, or has no budget.
        """
        if not session.is_finished:
            raise UsageError(f"budget {name!r}: the program has not ended at cycle {session.cycle}")
        measured = measure(session)
        kept = self._read()
        if self._is_updating:
            self._write({**kept, name: measured})
            return
        if name not in kept:
            raise UsageError(f"{self._path}: no budget {name!r}; pytest --npuviz-update writes it")
        allowed = int(kept[name]["cycles"] * (1 + slower))
        assert measured["cycles"] <= allowed, excess(name, kept[name], measured, slower)

    def _read(self) -> dict[str, Any]:
        if not self._path.exists():
            return {}
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise FormatError(self._path, expected="JSON", found=str(error)) from None
        if not isinstance(found, dict) or not all(_is_budget(each) for each in found.values()):
            raise FormatError(self._path, expected='{"NAME": {"cycles": N, "units": {}, "operators": {}}}')
        return found

    def _write(self, budgets: dict[str, Any]) -> None:
        partial = self._path.with_name(f".{self._path.name}.partial")
        partial.write_text(json.dumps(budgets, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(partial, self._path)


def measure(session: DebugSession) -> dict[str, Any]:
    """Return the cycles of a run, and those in which each unit and each operator worked."""
    units = session.session.machine.summary().units
    operators = session.query(WORK).rows
    return {
        "cycles": session.cycle,
        "units": {name: int(busy) for name, busy, _waiting in units},
        "operators": {str(name): int(cycles) for name, cycles in operators},
    }


def excess(name: str, kept: dict[str, Any], measured: dict[str, Any], slower: float) -> str:
    """Describe by how much a run exceeds its budget, and what works longer than in the run of the budget."""
    ratio = measured["cycles"] / max(kept["cycles"], 1) - 1
    lines = [
        f"{name}: {measured['cycles']} cycles, budget {kept['cycles']} ({ratio:+.1%}, allowed {slower:+.1%})"
    ]
    for kind in ("units", "operators"):
        old, new = kept[kind], measured[kind]
        changes = {each: new.get(each, 0) - old.get(each, 0) for each in {*old, *new}}
        longest = sorted((each for each in changes if changes[each]), key=lambda each: -abs(changes[each]))
        lines += [f"  {kind}: {each}: {changes[each]:+d} cycles of work" for each in longest[:SHOWN]]
    return "\n".join(lines)


def _is_budget(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("cycles"), int)
        and all(isinstance(value.get(kind), dict) for kind in ("units", "operators"))
    )
