from pathlib import Path

from npuviz.trace.comparison import compare
from npuviz.trace.reader import TraceReader
from npuviz.workbench.opening import open_file
from tests.workbench.toy_registry import toy_file


def trace(folder: Path, text: str, until: int | None = None) -> TraceReader:
    opened = open_file(toy_file(folder, text))
    assert opened.session is not None
    opened.session.run(until)
    assert opened.reader is not None
    return opened.reader


def test_equal_runs_are_equal(tmp_path: Path) -> None:
    found = compare(trace(tmp_path, "{}"), trace(tmp_path, "{}"))
    assert found.is_equal


def test_a_shorter_run_differs_where_it_ends(tmp_path: Path) -> None:
    whole, part = trace(tmp_path, "{}"), trace(tmp_path, "{}", 300)
    found = compare(whole, part)
    assert found.first_divergence is not None
    assert 200 < found.first_divergence <= 300
    assert found.units[0].busy_a > found.units[0].busy_b
    assert compare(part, whole).first_divergence == found.first_divergence


def test_the_first_divergence_is_the_earliest_over_all_tracks(tmp_path: Path) -> None:
    a, b = trace(tmp_path, "{}"), trace(tmp_path, '{"blocks": 9}')
    found = compare(a, b)
    assert not found.is_equal
    assert found.first_divergence is not None
    for track in a.schema.tracks:
        if track.kind != "interval":
            continue
        window = (0, found.first_divergence)
        for x, y in zip(a.intervals(track.id, window, 0), b.intervals(track.id, window, 0), strict=True):
            assert (x["start"], x["kind"]) == (y["start"], y["kind"])
