"""Probes are declared with how they are read and set."""

import numpy as np
import pytest

from npuviz.sim.probe import Probe, ProbeTable, whole_number


def test_declared_once() -> None:
    state = {"a": 1, "b": 2}
    table = ProbeTable("b")
    table.add("Core[0].a", "first", lambda: state["a"], "bytes", "Core[0]", "what it is")
    table.add("b", "second", lambda: state["b"], write=lambda v: state.update(b=whole_number(v, 9)))
    assert table.probes == (
        Probe("Core[0].a", "first", (), "int64", "bytes", "Core[0]", "what it is"),
        Probe("b", "second", writable=True),
    )
    assert table.read("Core[0].a") == 1
    table.write("b", np.int64(7))
    assert table.read("b") == 7
    with pytest.raises(ValueError, match=r"probe Core\[0\].a cannot be written; b can"):
        table.write("Core[0].a", 1)
    for bad in (10, -1, 1.0, [1]):
        with pytest.raises(ValueError, match="probe b: expected a whole number from 0 to 9"):
            table.write("b", bad)
    with pytest.raises(KeyError):
        table.read("c")
    with pytest.raises(KeyError):
        table.write("c", 1)
    assert state == {"a": 1, "b": 7}
