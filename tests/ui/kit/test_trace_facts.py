"""Facts read off a trace agree with a plain recount, cycle by cycle."""

import numpy as np
import pytest

from npuviz.trace.unit_times import tracks_of_units
from npuviz.ui.kit import trace_facts
from npuviz.workbench.costs import costs
from npuviz.workbench.opening import OpenOptions, open_file
from npuviz.workbench.resources import sample_models_path


def test_a_unit_with_several_tracks_works_once_in_a_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_file(sample_models_path() / "tiny_cnn_int8.onnx", OpenOptions("rk3588"))
    session, reader = opened.session, opened.reader
    assert session is not None
    assert reader is not None
    session.run()
    end = reader.end_cycle
    stalls = {kind.id for kind in reader.schema.kinds if kind.role.startswith("wait-")}
    found = costs(reader, "operator")
    work = dict(zip(found.key.tolist(), found.work.tolist(), strict=True))
    more = 0
    for node in range(len(session.program.graph.nodes)):
        busy = waiting = on_tracks = 0
        for tracks in tracks_of_units(reader.schema).values():
            works, waits = np.zeros(end, bool), np.zeros(end, bool)
            for track in tracks:
                rows = reader.interval_columns(track)
                for start, stop, kind, owner in zip(rows.start, rows.end, rows.kind, rows.node, strict=True):
                    if owner == node:
                        (waits if kind in stalls else works)[start:stop] = True
                        on_tracks += int(stop - start)
            busy += int(works.sum())
            waiting += int((waits & ~works).sum())
        assert trace_facts.node_cycles(reader, node, (0, end)) == (busy, waiting)
        assert busy == work.get(node, 0)
        more += on_tracks > busy + waiting
    assert more > 0
    monkeypatch.setattr(trace_facts, "MAX_NODE_ROWS", 3)
    assert trace_facts.node_cycles(reader, 0, (0, end)) is None
