"""Exit codes of the command line, and how one is chosen for a run."""

from collections.abc import Iterable
from typing import Any

from npuviz.program.program import Note
from npuviz.sim.check_result import CheckResult
from npuviz.sim.stop import BROKEN, StopKind, StopReason

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_MISBEHAVED = 3
EXIT_INTERRUPTED = 130


def exit_of(
    stop: StopReason,
    check: CheckResult | None,
    hazards: Iterable[dict[str, Any]],
    notes: Iterable[Note] = (),
) -> tuple[int, str]:
    """Return the exit code of a run, and the reason if it is no success, else "".

    hazards  as in `run --json`; notes  of the program: one with severity `error` makes the run fail
    """
    if stop.kind == StopKind.INTERRUPTED:
        return EXIT_INTERRUPTED, "interrupted"
    if stop.kind in BROKEN:
        return EXIT_MISBEHAVED, f"{stop.kind} at cycle {stop.cycle}"
    if check is not None and not check.is_passed:
        return EXIT_FAILED, "the check failed"
    failed = [note.text for note in notes if note.severity == "error"]
    if failed:
        return EXIT_FAILED, failed[0]
    wrong = [hazard for hazard in hazards if hazard["level"] == "error"]
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return EXIT_MISBEHAVED, f"hazard {wrong[0]['kind']} at cycle {wrong[0]['cycle']}{more}"
    return EXIT_DONE, ""
