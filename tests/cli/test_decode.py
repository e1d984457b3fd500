"""Small language models token by token: the tokens of ONNX Runtime on every machine that compiles models."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks.small_language_model import Shape, write_model
from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress
from npuviz.cli.main import main
from npuviz.workbench.language.report import decode, decode_text
from npuviz.workbench.opening import OpenOptions
from tests.cli.refusals import MODEL, Captured, refused
from tests.sweeps import quick

pytestmark = pytest.mark.usefixtures("observed_here")

TINY = Shape(layers=1, hidden=64, heads=4, kv_heads=2, features=16, inner=64, vocabulary=96, context=32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tiny")
    write_model(made, TINY, prompt=10)
    return made


def run(path: Path, target: str, count: int) -> dict[str, Any]:
    prompt = np.load(path / "prompt.npy")
    model = path / "model.onnx"
    return decode(model, OpenOptions(target=target), prompt, count, NoProgress(), lambda _: None)


@quick("rk3588")
@pytest.mark.parametrize("target", ["neuroncore", "systolic", "rk3588"])
def test_tokens_are_those_of_onnx_runtime(folder: Path, target: str) -> None:
    summary = run(folder, target, 4)
    found = summary["language"]
    assert found["equal"]
    assert 0 < found["largest_error"] < 0.05
    assert summary["exit"]["code"] == 0
    assert len(found["tokens"]) == 4
    assert found["tokens"] == found["reference_tokens"]
    assert (found["cache"]["is_one_program"], found["cache"]["rows"]) == (True, 16)
    prefill, steps = found["phases"]
    assert (prefill["tokens"], prefill["steps"], steps["steps"]) == (10, 1, 3)
    assert found["time_to_first_token_seconds"] == prefill["seconds"] > 0
    assert found["tokens_per_second"] == pytest.approx(3 / steps["seconds"])
    assert found["bytes_per_token"] == steps["dram_bytes"] / 3 > 0
    assert "all 4 equal" in decode_text(summary)


@quick("Attention")
@pytest.mark.parametrize("attention", ["MultiHeadAttention", "Attention"])
def test_a_cache_that_grows(tmp_path: Path, attention: str) -> None:
    heads = 4 if attention == "MultiHeadAttention" else 2
    shape = Shape(1, 64, 4, heads, 16, 64, 96, 32, attention=attention)
    write_model(tmp_path, shape, prompt=10)
    found = run(tmp_path, "systolic", 2)["language"]
    assert found["equal"]
    assert (found["cache"]["is_one_program"], found["cache"]["rows"]) == (False, 11)


@pytest.mark.parametrize(("level", "expected"), [(0, 0), (4, 8)])
def test_products_that_onnx_runtime_rounds_are_counted(tmp_path: Path, level: int, expected: int) -> None:
    write_model(tmp_path, Shape(1, 64, 4, 2, 16, 64, 96, 32, bits=4), prompt=10)
    model = onnx.load(tmp_path / "model.onnx")
    products = [node for node in model.graph.node if node.op_type == "MatMulNBits"]
    for node in products:
        node.attribute.append(onnx.helper.make_attribute("accuracy_level", level))
    onnx.save(model, tmp_path / "model.onnx")
    assert len(products) == 8
    summary = run(tmp_path, "neuroncore", 2)
    assert summary["language"]["products_rounded_by_reference"] == expected
    assert ("coarser there" in decode_text(summary)) == bool(expected)
    assert (summary["language"]["largest_error"] > 1e-3) == bool(expected)


def test_another_token_than_onnx_runtimes_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from npuviz.workbench.language import decoding

    kept = decoding.Decoder._states_after

    def forgetful(self: Any, machine: Any, cache: Any, before: int, new: int) -> Any:
        return {name: 0 * rows for name, rows in kept(self, machine, cache, before, new).items()}

    monkeypatch.setattr(decoding.Decoder, "_states_after", forgetful)
    summary = run(folder, "systolic", 6)
    assert summary["exit"]["code"] == 1
    assert not summary["language"]["equal"]
    assert summary["language"]["largest_error"] > 0.1
    assert "ONNX Runtime's is" in decode_text(summary)


@pytest.mark.parametrize(
    ("prompt", "count", "expected"),
    [
        (np.arange(30), 8, "need a cache of 37 rows, the model has 32"),
        (np.array([3, 96]), 2, "token 96 is none of the model's 0 to 95"),
        (np.array([-1]), 2, "token -1"),
        (np.zeros(0, np.int64), 2, "numbers of tokens in one row"),
        (np.zeros((2, 3), np.int64), 2, "numbers of tokens in one row"),
        (np.array([1.5]), 2, "found float64"),
        (np.array([1]), 5000, "expected 1 to 4096 tokens"),
    ],
)
def test_prompts_that_cannot_be(folder: Path, prompt: np.ndarray, count: int, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        decode(
            folder / "model.onnx", OpenOptions(target="systolic"), prompt, count, NoProgress(), lambda _: None
        )


def test_the_command(folder: Path, capsys: Captured) -> None:
    model, prompt = str(folder / "model.onnx"), str(folder / "prompt.npy")
    assert "belong together" in refused(["run", model, "--decode", "3"], capsys)
    assert "belong together" in refused(["run", model, "--prompt", prompt], capsys)
    both = ["run", model, "--decode", "3", "--prompt", prompt]
    assert "goes without" in refused([*both, "--until", "5"], capsys)
    assert "language model with an input input_ids" in refused(["run", MODEL.as_posix(), *both[2:]], capsys)
    assert main([*both, "--target", "systolic"]) == 0
    assert "tokens/s" in capsys.readouterr().out
