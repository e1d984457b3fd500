import json
from pathlib import Path
from typing import Any

import pytest

from npuviz.base.errors import FormatError
from npuviz.formats.onnxim.home import OnnximHome
from npuviz.formats.onnxim.workloads import (
    TraceRow,
    is_model_list,
    read_language_model,
    read_model_list,
    read_trace,
)

DATA = Path(__file__).parents[2] / "data" / "onnxim"


def write(tmp_path: Path, data: Any) -> Path:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data))
    return path


def test_list_of_a_model() -> None:
    (entry,) = read_model_list(DATA / "model_lists" / "resnet18.json")
    assert (entry.name, entry.dimensions, entry.request_time_ps) == ("resnet18", {"batch_size": 1}, 0)


def test_list_of_a_language_model() -> None:
    (entry,) = read_model_list(DATA / "model_lists" / "lm_opt125m.json")
    assert (entry.name, entry.trace_file, entry.max_batch_size) == ("opt-125m", "input.csv", 8)
    assert entry.check_mem_size


def test_request_time_is_in_milliseconds(tmp_path: Path) -> None:
    (entry,) = read_model_list(
        write(tmp_path, {"models": [{"name": "a", "request_time": 0.5, "seq_len": 7}]})
    )
    assert entry.request_time_ps == 500_000_000
    assert entry.dimensions == {"seq_len": 7}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "key models: expected a list of models, found null"),
        ({"models": []}, "key models"),
        ({"models": [3]}, r"models\[0\]: expected an object, found 3"),
        ({"models": [{}]}, r"models\[0\].name"),
        ({"models": [{"name": "../../etc/passwd"}]}, r"models\[0\].name"),
        ({"models": [{"name": "a", "request_time": -1}]}, "request_time"),
        ({"models": [{"name": "a", "request_time": "now"}]}, "request_time"),
        ({"models": [{"name": "a", "batch_size": -4}]}, "batch_size"),
        ({"models": [{"name": "a", "scheduler_config": {"max_batch_size": 1.5}}]}, "max_batch_size"),
        ({"models": [{"name": "a", "trace_file": 3}]}, "trace_file"),
    ],
)
def test_wrong_lists(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_model_list(write(tmp_path, data))


def test_sniffing_of_lists() -> None:
    assert is_model_list(b'\n { "models": [')
    assert not is_model_list(b'{"num_cores": 4}')


def test_language_models() -> None:
    llama = read_language_model(DATA / "models" / "language_models" / "llama3-8b.json")
    assert (llama.head_size, llama.kv_width, llama.qkv_width) == (128, 1024, 6144)
    assert llama.ffn_width == 2 * 14336
    opt = read_language_model(DATA / "models" / "language_models" / "opt-125m.json")
    assert (opt.qkv_width, opt.ffn_width, opt.run_single_layer) == (2304, 3072, True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 770}, "a multiple of num_attention_heads"),
        ({"num_kv_heads": 5}, "a divisor of num_attention_heads"),
        ({"num_attention_heads": 0}, "an integer from 1"),
        ({"activation_function": "tanh"}, "one of relu, gelu, swish"),
        ({"ffn_type": 3}, "one of default, llama"),
        ({"run_single_layer": "yes"}, "true or false"),
        ({"max_seq_length": None}, "found null"),
    ],
)
def test_wrong_language_models(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    data = json.loads((DATA / "models" / "language_models" / "opt-125m.json").read_text())
    with pytest.raises(FormatError, match=message):
        read_language_model(write(tmp_path, data | change))


def test_trace_times_are_differences(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "time, prompt_length, target_length, cached_length\n0, 100, 16, 0\n100, 10, 15, 3\n50,1,1,1\n"
    )
    assert read_trace(path) == (TraceRow(0, 100, 16, 0), TraceRow(100, 10, 15, 3), TraceRow(150, 1, 1, 1))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "at least one request"),
        ("1,2,3\n", "line 2"),
        ("1,2,3,x\n", "cached_length"),
        ("1,0,3,4\n", "prompt_length: expected a positive"),
        ("-1,1,3,4\n", "line 2, time"),
        ("1,1,99999999999999,4\n", "target_length"),
        ('"' + "a" * 200_000 + ",\n", "comma-separated|line 2"),
    ],
)
def test_wrong_traces(tmp_path: Path, rows: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time, prompt_length, target_length, cached_length\n" + rows)
    with pytest.raises(FormatError, match=message):
        read_trace(path)


def test_home_is_found_above_the_list_or_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONNXIM_HOME", raising=False)
    assert OnnximHome.of_list(DATA / "model_lists" / "resnet18.json").root == DATA
    alone = write(tmp_path, {})
    with pytest.raises(FormatError, match="ONNXIM_HOME"):
        OnnximHome.of_list(alone)
    monkeypatch.setenv("ONNXIM_HOME", str(DATA))
    home = OnnximHome.of_list(alone)
    assert home.model("resnet18").is_file()
    assert home.is_language_model("opt-125m")
    assert not home.is_language_model("resnet18")
    with pytest.raises(FormatError, match="the name of a trace"):
        home.trace("../secret")
