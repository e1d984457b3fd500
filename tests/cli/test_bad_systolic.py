# What breaks ONNXim, or leaves it hanging: one clear line, exit code 2.
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.cli.refusals import MODEL, Captured, refused
from tests.onnx.cases import save, value

LANGUAGE = {
    "num_attention_heads": 4, "num_kv_heads": 4, "vocab_size": 100, "num_hidden_layers": 2,
    "hidden_size": 32, "intermediate_size": 64, "max_seq_length": 64,
}  # fmt: skip


def home(folder: Path, trace: str = "0, 8, 4, 0", **language: object) -> Path:
    (folder / "models" / "tiny_cnn").mkdir(parents=True)
    shutil.copy(MODEL, folder / "models" / "tiny_cnn" / "tiny_cnn.onnx")
    (folder / "models" / "language_models").mkdir()
    (folder / "models" / "language_models" / "tiny.json").write_text(json.dumps({**LANGUAGE, **language}))
    (folder / "traces").mkdir()
    (folder / "traces" / "input.csv").write_text(f"time, prompt, target, cached\n{trace}\n")
    return folder


def listed(folder: Path, *entries: dict[str, object]) -> str:
    path = folder / "list.json"
    path.write_text(json.dumps({"models": list(entries)}))
    return str(path)


@pytest.mark.parametrize("mode", ["true", "parity"])
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"name": "nosuch"}, "model 'nosuch': expected the file"),
        ({"name": "tiny_cnn", "request_time": -1}, "models[0].request_time: expected a time"),
        ({"name": "tiny_cnn", "request_time": "soon"}, "models[0].request_time: expected a time"),
        ({"name": "tiny", "trace_file": "no.csv"}, "no.csv: expected a readable file"),
        ({"name": "tiny", "trace_file": "../x.csv"}, "expected the name of a trace"),
        ({"name": "tiny", "scheduler": "orca"}, "request scheduler 'orca'; there are simple, iter"),
        ({"name": "tiny", "scheduler_config": {"max_batch_size": -2}}, "max_batch_size"),
    ],
)
def test_list_files(
    tmp_path: Path, mode: str, entry: dict[str, object], expected: str, capsys: Captured
) -> None:
    path = listed(home(tmp_path), entry)
    assert expected in refused(["run", path, "--preset", "edge-8x8-c4", "--set", f"mode={mode}"], capsys)


@pytest.mark.parametrize("mode", ["true", "parity"])
@pytest.mark.parametrize(
    ("trace", "language", "expected"),
    [
        ("0, 8, 4, 0\n-5, 8, 4, 0", {}, "line 3, time: expected a whole number, found '-5'"),
        ("0, 8, 4", {}, "line 2: expected time, prompt_length"),
        ("0, 0, 4, 0", {}, "line 2, prompt_length: expected a positive whole number"),
        ("0, 60, 9, 0", {}, "request 0 of 69 tokens"),
        ("0, 8, 4, 0", {"tensor_parallel_size": 3}, "tensor_parallel_size 3 does not divide"),
        ("0, 8, 4, 0", {"num_kv_heads": 3}, "num_kv_heads"),
    ],
)
def test_language_files(
    tmp_path: Path, mode: str, trace: str, language: dict[str, object], expected: str, capsys: Captured
) -> None:
    path = listed(home(tmp_path, trace, **language), {"name": "tiny"})
    assert expected in refused(["run", path, "--preset", "edge-8x8-c4", "--set", f"mode={mode}"], capsys)


def test_a_model_larger_than_the_dram(tmp_path: Path, capsys: Captured) -> None:
    path = listed(
        home(tmp_path, hidden_size=8192, intermediate_size=65536, num_hidden_layers=20), {"name": "tiny"}
    )
    for mode in ("true", "parity"):
        arguments = ["run", path, "--set", f"mode={mode}", "--set", "dram_size=1"]
        assert "tiny needs" in refused(arguments, capsys)


def test_models_that_no_core_or_scheduler_takes(tmp_path: Path, capsys: Captured) -> None:
    folder = home(tmp_path)
    path = listed(folder, {"name": "tiny_cnn", "partition_id": 7})
    line = refused(["run", path, "--set", "scheduler=partition_cpu"], capsys)
    assert "partition 7, which no core belongs to; partition_id may be 0" in line
    path = listed(folder, {"name": "tiny_cnn"}, {"name": "tiny"})
    assert "a language model runs alone" in refused(["run", path], capsys)
    path = listed(folder, {"name": "tiny_cnn", "target_core": 9})
    assert "target_core 9 does not exist" in refused(["run", path, "--set", "mode=parity"], capsys)
    path = listed(folder, {"name": "tiny"})
    line = refused(["run", path, "--set", "mode=parity", "--set", "scheduler=spatial_split"], capsys)
    assert "--set mode=true runs it" in line
    assert "no dimensions to set" in refused(["run", path, "--set", "sequence=3"], capsys)


def test_arrays_and_scratchpads_that_do_not_exist(tmp_path: Path, capsys: Captured) -> None:
    model = str(MODEL)
    line = refused(["run", model, "--set", "core_0.core_type=systolic_os"], capsys)
    assert "cores of types systolic_os and systolic_ws on one chip" in line
    line = refused(["run", model, "--set", "mode=parity", "--set", "core_type=systolic_is"], capsys)
    assert "ONNXim has no systolic_is cores" in line
    line = refused(["run", model, "--set", "mode=parity", "--set", "spad_banks=4"], capsys)
    assert "ONNXim's scratchpads have no banks" in line
    assert "from 0 to 62" in refused(["run", model, "--set", "spad_banks=63"], capsys)
    assert "expected a readable file" in refused(["run", model, "--set", "tilings=/nope.json"], capsys)
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"npuviz_tilings": [{"problem": ["matrix", 1], "sizes": [0, 1, 2]}]}')
    line = refused(["run", model, "--set", f"tilings={wrong}"], capsys)
    assert "npuviz_tilings[0].sizes: expected positive tile sizes" in line


def test_map(tmp_path: Path, capsys: Captured) -> None:
    assert "searched in true mode" in refused(["map", str(MODEL), "--set", "mode=parity"], capsys)
    path = listed(home(tmp_path), {"name": "tiny_cnn"})
    assert "one ONNX model, not for a list" in refused(["map", path], capsys)
    assert "its folder does not exist" in refused(["map", str(MODEL), "-o", "/no/such/x.json"], capsys)
    assert "no tilings to search" in refused(["map", str(MODEL), "--target", "neuroncore"], capsys)


def test_a_size_that_rounding_changes_is_told_as_such(tmp_path: Path, capsys: Captured) -> None:
    """0.999 is 1 in bfloat16, which is not less than 1."""
    nodes = [helper.make_node("Less", ["x", "one"], ["l"]), helper.make_node("NonZero", ["l"], ["y"])]
    ends = [value("x", [4]), value("y", [1, "n"], TensorProto.INT64)]
    model = save(tmp_path / "m.onnx", nodes, ends[:1], ends[1:], {"one": np.array(1, np.float32)})
    np.save(tmp_path / "x.npy", np.array([0.5, 0.999, 2, 0.25], np.float32))
    given = ["run", str(model), "--target", "systolic", "--check", "--input", f"x={tmp_path / 'x.npy'}"]
    assert "(1, 2), expected (1, 3): values decide about sizes here" in refused(given, capsys)
