"""Assert properties of a session; each message tells what was found."""

from collections.abc import Mapping
from difflib import get_close_matches

import numpy as np

from npuviz.api import DebugSession
from npuviz.base.errors import UsageError
from npuviz.onnx.check.errors import FLOAT_LIMITS, Tolerance, float_errors
from npuviz.sim.stop import StopKind

MAX_WRONG = 5
"""Wrong elements that a failure lists."""


def ran(session: DebugSession) -> DebugSession:
    """Run to the end of the program and return the session.
    Fails if the simulated chip does not get there."""
    stop = session.run()
    while stop.kind is StopKind.BREAKPOINT:
        stop = session.run()
    assert session.is_finished, f"the program did not end: {stop.kind} at cycle {stop.cycle}: {stop.detail}"
    return session


def outputs(session: DebugSession) -> Mapping[str, np.ndarray]:
    """Return the output tensors by name, as the machine holds them now."""
    graph = session.program.graph
    names = [graph.tensors[number].name for number in graph.outputs]
    return {name: session.tensor(name) for name in names}


def assert_close(
    session: DebugSession,
    expected: np.ndarray,
    tensor: str = "",
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Assert that a tensor ("": the only output) has these values.

    Without tolerances an element may be off by what `--check` allows of a kernel of the tensor's type,
    integers by nothing; with one of them, by those of numpy.isclose (the other one is then 1e-5, 1e-6).
    """
    if not tensor:
        there = outputs(session)
        if len(there) != 1:
            raise UsageError(f"name one of the outputs: {', '.join(there) or 'there are none'}")
        tensor = next(iter(there))
    values, wanted = session.tensor(tensor), np.asarray(expected)
    assert values.shape == wanted.shape, f"{tensor}: shape {values.shape}, expected {wanted.shape}"
    if rtol is None and atol is None:
        limit = next(
            (FLOAT_LIMITS[name] for name in FLOAT_LIMITS if values.dtype.name.startswith(name)), None
        )
        tolerance = limit[0] if limit else Tolerance(0.0, 0.0)
        rule = tolerance.text(values.dtype.name)
        bad = float_errors(values.reshape(-1), wanted.reshape(-1), tolerance, "").bad
    else:
        share, least = 1e-5 if rtol is None else rtol, 1e-6 if atol is None else atol
        rule = f"rtol {share:g}, atol {least:g}"
        found, right = _floats(values, wanted)
        bad = ~np.isclose(found, right, share, least, equal_nan=True).reshape(-1)
    assert not bad.any(), _what_differs(tensor, values, wanted, bad, rule)


def _floats(values: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values.astype(np.float64), wanted.astype(np.float64)


def _what_differs(name: str, values: np.ndarray, wanted: np.ndarray, bad: np.ndarray, rule: str) -> str:
    """How many elements are wrong, the first ones and the worst one."""
    found, right = _floats(values, wanted)
    with np.errstate(all="ignore"):
        distance = np.nan_to_num(np.abs(found - right), nan=np.inf)
    wrong = np.flatnonzero(bad)
    worst = wrong[np.argmax(distance.reshape(-1)[wrong])]
    lines = [
        f"{name} {values.dtype.name}{list(values.shape)}: {wrong.size} of {values.size} elements are wrong "
        f"({rule})",
        *(
            f"  {list(map(int, np.unravel_index(at, values.shape)))}: found {found.reshape(-1)[at]:.8g}, "
            f"expected {right.reshape(-1)[at]:.8g}{why}"
            for at, why in (*((at, "") for at in wrong[:MAX_WRONG]), (worst, " (the worst)"))
        ),
    ]
    if np.isnan(found.reshape(-1)[wrong]).all():
        lines.append("  all of them are NaN: perhaps nobody wrote them; assert_no_hazards tells")
    return "\n".join(lines)


def assert_cycles(session: DebugSession, at_most: int) -> None:
    """Assert that the program has ended after at most `at_most` cycles."""
    assert session.is_finished, f"the program has not ended at cycle {session.cycle}"
    assert session.cycle <= at_most, f"{session.cycle} cycles, expected at most {at_most}"


def assert_counter(session: DebugSession, name: str, at_most: int) -> None:
    """Assert that a counter of the run (bytes moved, transfers, ...;
    see `npuviz run --json`) is at most `at_most`."""
    counters = session.session.machine.summary().counters
    if name not in counters:
        close = get_close_matches(name.lower(), counters, n=2, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UsageError(f"no counter {name!r}; {hint}there are {', '.join(sorted(counters)) or 'none'}")
    assert counters[name] <= at_most, f"{name}: {counters[name]}, expected at most {at_most}"


def assert_no_hazards(session: DebugSession, level: str = "warning") -> None:
    """Assert that the machine found no hazard up to now; with level="error", none of that level."""
    found = session.hazards()
    if not len(found) and "does not look" in found.note:
        raise UsageError(f"hazards: {found.note}")
    wrong = [row for row in found if level == "warning" or row["level"] == "error"]
    lines = [f"cycle {row['cycle']}, {row['unit']}: {row['hazard']}: {row['detail']}" for row in wrong]
    assert not wrong, "\n".join(["hazards:", *lines])
