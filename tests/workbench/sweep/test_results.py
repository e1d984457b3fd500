"""Columns of a sweep, its table on disk, the Pareto front, the effects of axes, and reports."""

import itertools
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from npuviz.base.errors import FormatError, UsageError
from npuviz.workbench.opening import is_sweep, open_file
from npuviz.workbench.sweep.analysis import comparable, effects, pareto_front
from npuviz.workbench.sweep.figures import effects_svg, number_text, scatter_svg, ticks
from npuviz.workbench.sweep.plan import SweepRun
from npuviz.workbench.sweep.report import write_report
from npuviz.workbench.sweep.results import (
    BROKEN,
    DONE,
    FAILED,
    RunResult,
    SweepResults,
    read_results,
    results_file,
    write_results,
)
from npuviz.workbench.sweep.run import RunStore
from npuviz.workbench.sweep.values import check_expression, evaluate, metric

SUMMARY = {
    "cycles": 100,
    "units": [
        {"name": "Core[0].EX", "busy_cycles": 40, "utilization": 0.4},
        {"name": "Core[1].EX", "busy_cycles": 20, "utilization": 0.2},
        {"name": "Core[1].LD", "busy_cycles": 5, "utilization": 0.05},
    ],
    "counters": {"reads": 7, "row hits": 3},
    "check": None,
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("cycles", 100.0),
        ("units.Core[0].EX.busy_cycles", 40.0),
        ("units.*.EX.utilization", pytest.approx(0.3)),
        ("sum units.Core[*].EX.busy_cycles", 60.0),
        ("max units.*.busy_cycles", 40.0),
        ("counters.row hits", 3.0),
        ("units.Core[9].EX.busy_cycles", None),
        ("check.failed", None),
        ("units." + "*" * 50 + ".EX.utilization", pytest.approx(0.3)),
        ("units." + "*o" * 400 + ".EX.utilization", None),
        ("units.Core[0*0].EX.busy_cycles", None),
    ],
)
def test_paths_into_a_summary(path: str, value: float | None) -> None:
    assert metric(SUMMARY, path) == value


def test_expressions() -> None:
    values = {"a": 3.0, "b": 4.0, "none": None}
    assert evaluate("sqrt(a**2 + b**2) / max(1, a - 2) - -1", values) == 6.0
    assert evaluate("a / (b - 4)", values) is None
    assert evaluate("none + 1", values) is None
    assert evaluate("9 ** 9 ** 9", values) is None
    assert evaluate("(-a) ** 0.5", values) is None
    for text in ("a.b", "a if b else 1", "[a]", "lambda: 1", "open('x')", "'a'", "a and b", "a" * 600):
        with pytest.raises(UsageError):
            check_expression(text, values)


def results(
    shape: tuple[int, ...] = (3, 4), function: object = None, models: tuple[str, ...] = ()
) -> SweepResults:
    """A grid of runs: cycles = 1000 * 2**-a * 3**b, cost = a + 1."""
    names = [chr(ord("a") + index) for index in range(len(shape))]
    points: list[tuple[str | int, ...]] = list(itertools.product(*(range(size) for size in shape)))
    if models:
        points = [(model, *point) for model in models for point in points]
        names = ["model", *names]
    offset = len(names) - len(shape)
    cycles = np.array([1000.0 * 2.0 ** -int(p[offset]) * 3.0 ** int(p[offset + 1]) for p in points])
    cost = np.array([float(p[offset]) + 1 for p in points])
    count = len(points)
    return SweepResults(
        "grid",
        tuple(names),
        tuple(points),
        {"cycles": cycles, "cost": cost},
        {"cycles": "min", "cost": "min"},
        (DONE,) * count,
        ("",) * count,
        tuple(f"k{index}" for index in range(count)),
        tuple(SweepRun(f"/m{index}.onnx", settings=(("a", "1"),)) for index in range(count)),
    )


def test_the_front_is_what_none_beats() -> None:
    random = np.random.default_rng(5)
    base = results((10, 10))
    for way in ("min", "max"):
        values = {"x": random.integers(0, 12, 100).astype(float), "y": random.random(100)}
        values["x"][3] = np.nan
        table = SweepResults(
            "", base.axes, base.points, values, {"x": "min", "y": way}, base.statuses, base.errors,
            base.keys, base.runs,
        )  # fmt: skip
        sign = np.array([1.0, 1.0 if way == "min" else -1.0])
        place = np.column_stack([values["x"], values["y"]]) * sign
        rows = list(range(100))
        expected = {
            row
            for row in rows
            if np.isfinite(place[row]).all()
            and not any((place[o] <= place[row]).all() and (place[o] < place[row]).any() for o in rows)
        }
        front = pareto_front(table, ("x", "y"), rows)
        assert set(front) == expected
        assert values["x"][front].tolist() == sorted(values["x"][front])


def test_effects_are_factors_at_equal_other_axes() -> None:
    found = effects(results(), "cycles", range(12))
    assert [effect.axis for effect in found] == ["b", "a"]
    assert found[0].spread == pytest.approx(27)
    assert found[1].factors == pytest.approx([2.0, 1.0, 0.5])


def test_incomplete_comparisons_do_not_count() -> None:
    table = results()
    # The slowest level of b failed where a = 0: without its group b has the same effect as before.
    table.columns["cycles"][3] = np.nan
    by_axis = {effect.axis: effect for effect in effects(table, "cycles", range(12))}
    assert by_axis["b"].spread == pytest.approx(27)
    assert effects(results((1, 1)), "cycles", [0]) == []


def test_models_are_not_compared_with_each_other() -> None:
    table = results((2, 2), models=("/x/a.onnx", "/x/b.onnx"))
    assert [(name, rows) for name, rows in comparable(table)] == [
        ("/x/a.onnx", [0, 1, 2, 3]),
        ("/x/b.onnx", [4, 5, 6, 7]),
    ]
    assert comparable(results((2, 2))) == [("", [0, 1, 2, 3])]
    assert table.label(4) == "model b.onnx, a 0, b 0"


def test_the_table_survives_a_file(tmp_path: Path) -> None:
    table = results(models=("a", "b"))
    table.columns["cost"][5] = np.nan
    write_results(table, tmp_path / "results.parquet")
    for path in (tmp_path, tmp_path / "results.parquet"):
        assert is_sweep(path)
        back = read_results(path)
        assert (back.name, back.axes, back.points, back.runs) == (
            table.name,
            table.axes,
            table.points,
            table.runs,
        )
        assert (back.statuses, back.keys, back.objectives) == (table.statuses, table.keys, table.objectives)
        for name, column in table.columns.items():
            assert np.array_equal(back.columns[name], column, equal_nan=True)
    opened = open_file(tmp_path)
    assert (opened.title, opened.session, opened.reader) == ("grid", None, None)
    assert opened.sweep is not None


def test_files_that_are_no_results(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert results_file(tmp_path) is None
    (tmp_path / "text.parquet").write_text("no")
    assert not is_sweep(tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(FormatError, match="expected the results of a sweep"):
        read_results(tmp_path / "other.parquet")
    write_results(results(), tmp_path / "good.parquet")
    data = (tmp_path / "good.parquet").read_bytes()
    for end in range(0, len(data), 97):
        (tmp_path / "cut.parquet").write_bytes(data[:end])
        with pytest.raises(FormatError):
            read_results(tmp_path / "cut.parquet")


def test_a_result_is_whole_or_absent(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assert store.find("k") is None
    for result in (
        RunResult(DONE, {"cycles": 3}),
        RunResult(FAILED, {}, "no", True),
        RunResult(BROKEN, {}, "x"),
    ):
        store.keep("k", SweepRun("m"), result)
        assert store.find("k") == result
    assert [path.name for path in store.folder.iterdir()] == ["k.json"]
    for damage in ("", "{", "[]", '{"summary": 3}', '{"summary": {}, "status": "odd"}'):
        (store.folder / "k.json").write_text(damage)
        assert store.find("k") is None


def test_figures_are_drawings(tmp_path: Path) -> None:
    table = results()
    rows = list(range(12))
    front = pareto_front(table, ("cost", "cycles"), rows)
    figure = scatter_svg(table, rows, "cost", "cycles", front)
    tree = ElementTree.fromstring(figure)
    assert len(tree.findall(".//{*}circle")) == 12
    points = tree.findall(".//{*}polyline")[0].attrib["points"].split()
    assert len(points) == len(front) == 3
    assert len(ElementTree.fromstring(effects_svg(effects(table, "cycles", rows))).findall(".//{*}rect")) == 2
    assert effects_svg([]) == ""
    assert ticks(0.9, 11, True) == [1.0, 2.0, 5.0, 10.0]
    assert ticks(0, 10, False) == [0, 2, 4, 6, 8, 10]
    assert (number_text(float("nan")), number_text(0.12345)) == ("\u2013", "0.1235")
    write_report(table, tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text()
    assert html.count("<svg") == 3
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    write_report(table, tmp_path / "r.md")
    text = (tmp_path / "r.md").read_text()
    for name in ("r-runs-1.svg", "r-effects-1-1.svg"):
        assert f"({name})" in text
        ElementTree.parse(tmp_path / name)
    with pytest.raises(UsageError, match=r"ends in \.html or \.md"):
        write_report(table, tmp_path / "r.pdf")
