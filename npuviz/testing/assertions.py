"""Assert properties of a session; each message tells what was found."""

from collections.abc import Mapping

import numpy as np

from npuviz.api import DebugSession
from npuviz.base.errors import UsageError
from npuviz.sim.stop import StopKind


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
    session: DebugSession, expected: np.ndarray, tensor: str = "", rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Assert that a tensor ("": the only output) has these values, within the tolerances of numpy.isclose."""
    if not tensor:
        found = outputs(session)
        if len(found) != 1:
            raise UsageError(f"name one of the outputs: {', '.join(found) or 'there are none'}")
        tensor = next(iter(found))
    values = session.tensor(tensor)
    assert values.shape == np.shape(expected), (
        f"{tensor}: shape {values.shape}, expected {np.shape(expected)}"
    )
    np.testing.assert_allclose(
        values.astype(np.float64), np.asarray(expected, np.float64), rtol, atol, err_msg=tensor
    )


def assert_cycles(session: DebugSession, at_most: int) -> None:
    """Assert that the program has ended after at most `at_most` cycles."""
    assert session.is_finished, f"the program has not ended at cycle {session.cycle}"
    assert session.cycle <= at_most, f"{session.cycle} cycles, expected at most {at_most}"


def assert_counter(session: DebugSession, name: str, at_most: int) -> None:
    """Assert that a counter of the run (bytes moved, transfers, ...;
    see `npuviz run --json`) is at most `at_most`."""
    counters = session.session.machine.summary().counters
    if name not in counters:
        raise UsageError(f"no counter {name!r}; there are {', '.join(sorted(counters)) or 'none'}")
    assert counters[name] <= at_most, f"{name}: {counters[name]}, expected at most {at_most}"


def assert_no_hazards(session: DebugSession, level: str = "warning") -> None:
    """Assert that the machine found no hazard up to now; with level="error", none of that level."""
    found = session.hazards()
    if not len(found) and "does not look" in found.note:
        raise UsageError(f"hazards: {found.note}")
    wrong = [row for row in found if level == "warning" or row["level"] == "error"]
    lines = [f"cycle {row['cycle']}, {row['unit']}: {row['hazard']}: {row['detail']}" for row in wrong]
    assert not wrong, "\n".join(["hazards:", *lines])
