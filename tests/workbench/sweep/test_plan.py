"""Plans of sweeps: combinations, what is refused, keys of results."""

from dataclasses import replace
from pathlib import Path

import pytest

from npuviz.base.errors import NpuvizError
from npuviz.workbench.sweep.plan import MAX_RUNS, read_plan, run_key

PLAN = """
name = "small"
[base]
model = "m.onnx"
preset = "edge-8x8"
seed = 3
[base.set]
host_cycles = 100
fast = true
[axes]
config = ["", "hw.json"]
[axes.set]
cores = [1, 2, 4]
"core_width,core_height" = [8, 16]
[metrics]
cycles = "cycles"
busy = "mean units.*.EX.utilization"
[derived]
size = "cores * core_width ** 2"
[objectives]
cycles = "min"
busy = "max"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("m.onnx", "hw.json", "other.onnx"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_combination_is_a_run(folder: Path) -> None:
    plan = read_plan(write(folder, PLAN))
    assert (plan.name, len(plan.runs)) == ("small", 2 * 3 * 2)
    assert [axis.name for axis in plan.axes] == ["config", "cores", "core_width, core_height"]
    assert plan.points[0] == ("", 1, 8)
    assert plan.points[-1] == ("hw.json", 4, 16)
    first, last = plan.runs[0], plan.runs[-1]
    assert (first.config, last.config) == ("", str(folder / "hw.json"))
    assert first.model == str(folder / "m.onnx")
    assert dict(last.settings) == {
        "host_cycles": "100",
        "fast": "true",
        "cores": "4",
        "core_width": "16",
        "core_height": "16",
    }
    assert (first.preset, first.seed, first.until) == ("edge-8x8", 3, None)
    assert plan.objectives == {"cycles": "min", "busy": "max"}


def test_a_plan_without_columns_measures_cycles(folder: Path) -> None:
    plan = read_plan(write(folder, '[base]\nmodel = "m.onnx"\n'))
    assert len(plan.runs) == 1
    assert (dict(plan.metrics), dict(plan.objectives)) == ({"cycles": "cycles"}, {"cycles": "min"})


def test_models_may_be_an_axis_or_samples(folder: Path) -> None:
    plan = read_plan(write(folder, '[axes]\nmodel = ["m.onnx", "tiny_cnn.onnx"]\n'))
    assert [Path(run.model).name for run in plan.runs] == ["m.onnx", "tiny_cnn.onnx"]
    assert Path(plan.runs[1].model).is_absolute()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[axes]", "[axis]"), "axis: expected one of name, base, axes"),
        (('preset = "edge-8x8"', "presett = 1"), "base.presett: expected one of model"),
        (("cores = [1, 2, 4]", "cores = 4"), "axes.cores: expected a list of values, found 4"),
        (("cores = [1, 2, 4]", "cores = []"), "axes.cores: expected a list"),
        (("cores = [1, 2, 4]", "cores = [1, 1]"), "axes.cores: expected values that differ"),
        (("cores = [1, 2, 4]", "cores = [[1]]"), "axes.cores: expected a number or text"),
        (("cores = [1, 2, 4]", "core_width = [1, 2]"), "expected every name once, found 'core_width'"),
        (('model = "m.onnx"', ""), "base.model: expected a model"),
        (('model = "m.onnx"', 'model = "absent.onnx"'), "absent.onnx: no such file"),
        (('model = "m.onnx"', "model = 4"), "base.model: expected text, found 4"),
        (("seed = 3", "seed = -1"), "base.seed: expected a whole number"),
        (('cycles = "cycles"', 'cycles = "cycels"'), "metrics.cycles: found no metric 'cycels'; there are"),
        (('busy = "mean', 'cores = "mean'), "metrics.cores: expected a name that no axis has"),
        (("cores * core", "coers * core"), "derived.size: found no column 'coers'; there are busy"),
        (('"cores * core_width ** 2"', '"__import__(1)"'), "neither a number, a name nor"),
        (('"cores * core_width ** 2"', '"cores *"'), "is no expression"),
        (('busy = "max"', 'busy = "best"'), "objectives.busy: expected min or max, found 'best'"),
        (('busy = "max"', 'noise = "max"'), "objectives.noise: expected a name of [metrics]"),
        (('name = "small"', "name = 3"), "name: expected text"),
        (("[base]", "[base"), "expected TOML"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in PLAN
    with pytest.raises(NpuvizError) as caught:
        read_plan(write(folder, PLAN.replace(change[0], change[1], 1)))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(folder / "plan.toml"))
    assert "\n" not in str(caught.value)


def test_too_many_runs_are_counted_not_made(folder: Path) -> None:
    values = ", ".join(str(index) for index in range(200))
    text = '[base]\nmodel = "m.onnx"\n[axes.set]\n' + "".join(f"a{i} = [{values}]\n" for i in range(20))
    with pytest.raises(NpuvizError, match=f"at most {MAX_RUNS} runs, found 1048576"):
        read_plan(write(folder, text))


def test_files_that_are_no_plan(folder: Path) -> None:
    with pytest.raises(NpuvizError, match="no readable file"):
        read_plan(folder / "absent.toml")
    (folder / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(NpuvizError, match="expected TOML"):
        read_plan(folder / "bytes.toml")
    (folder / "long.toml").write_bytes(b"#" * (1 << 21))
    with pytest.raises(NpuvizError, match="at most"):
        read_plan(folder / "long.toml")


def test_a_key_names_everything_a_run_depends_on(folder: Path) -> None:
    run = read_plan(write(folder, PLAN)).runs[-1]
    key = run_key(run, {})
    assert run_key(run, {}) == key
    others = [
        replace(run, settings=(("cores", "5"),)),
        replace(run, seed=4),
        replace(run, until=9),
        replace(run, preset="tpuv4"),
        replace(run, config=""),
        replace(run, model=str(folder / "other.onnx")),
    ]
    assert len({key, *(run_key(other, {}) for other in others)}) == 1 + len(others)
    (folder / "m.onnx").write_bytes(b"changed")
    assert run_key(run, {}) != key
    # Where a file lies is no part of it.
    (folder / "copy.onnx").write_bytes(b"changed")
    assert run_key(replace(run, model=str(folder / "copy.onnx")), {}) == run_key(run, {})
