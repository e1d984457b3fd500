"""Work of a paused machine that its trace does not hold yet."""

from npuviz.sim.machine import Machine
from npuviz.trace.reader import TraceReader
from npuviz.trace.unit_times import UnderWay


def under_way(machine: Machine | None, reader: TraceReader | None) -> list[UnderWay]:
    """Return the work of a paused machine that is under way and not in the trace, cut off at the current
    cycle."""
    if machine is None or reader is None:
        return []
    found, now = machine.activities(), machine.cycle
    is_known = reader.has_starts([each.track for each in found], [each.start for each in found])
    return [
        UnderWay(track, start, now if planned < 0 else min(planned, now), kind, node, instruction)
        for (track, start, planned, kind, node, instruction), known in zip(found, is_known, strict=True)
        if not known
    ]
