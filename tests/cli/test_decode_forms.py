"""Language models in the forms of several exporters: what steps hand on, and what the user gives."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from npuviz.base.errors import UsageError
from npuviz.base.progress import NoProgress
from npuviz.workbench.language.report import decode, decode_text
from npuviz.workbench.opening import OpenOptions

pytestmark = pytest.mark.usefixtures("observed_here")

WIDTH, WORDS = 16, 24
PROMPT = np.array([5, 9, 2])

# What is known of the earlier tokens is their mean; logits are its product with the table.
GROWING = """
agraph (int64[batch,n] {ids}, int64[batch,total] attention_mask, float[2,batch,1,p,16] {past})
  => (float[batch,n,24] logits, float[2,batch,1,q,16] {present})
<int64[1] zero = {{0}}, int64[2] shape = {{1,-1}}, int64[1] front = {{1}}, int64[1] last = {{-1}}>
{{
  x = Gather(table, {ids})
  row = Unsqueeze(x, front)
  one = Unsqueeze(row, zero)
  two = Concat<axis=0>(one, one)
  {present} = Concat<axis=3>({past}, two)
  half, other = Split<axis=0, num_outputs=2>({present})
  keys = Squeeze(half, zero)
  values = Squeeze(other, zero)
  turned = Transpose<perm=[0,1,3,2]>(keys)
  scores = MatMul(row, turned)
  shares = Softmax<axis=-1>(scores)
  mixed = MatMul(shares, values)
  y = Squeeze(mixed, front)
  logits = MatMul(y, head)
}}
"""
RECURRENT = """
agraph (int64[batch,n] input_ids, float[batch,16] past_rnn_0)
  => (float[batch,n,24] logits, float[batch,16] present_rnn_0)
<int64[1] one = {1}>
{
  x = Gather(table, input_ids)
  step = ReduceSum<keepdims=0>(x, one)
  kept = MatMul(past_rnn_0, mixing)
  sum = Add(step, kept)
  present_rnn_0 = Tanh(sum)
  wide = Unsqueeze(present_rnn_0, one)
  y = Add(x, wide)
  logits = MatMul(y, head)
}
"""
WHOLE = """
agraph (int64[batch,n] input_ids, float[batch,3,16] encoder_hidden_states) => (float[batch,n,24] logits)
<int64[1] one = {1}>
{
  x = Gather(table, input_ids)
  text = ReduceMean<keepdims=1>(x, one)
  seen = ReduceMean<keepdims=1>(encoder_hidden_states, one)
  sum = Add(text, seen)
  y = Add(x, sum)
  logits = MatMul(y, head)
}
"""
BRANCHES = """
agraph (int64[batch,n] input_ids, bool[1] use_cache_branch, int64[n] cache_position,
        float[batch,1,p,16] past_key_values_0_key, float[batch,1,e,16] past_key_values_0_encoder_key,
        float[batch,e,16] encoder_hidden_states)
  => (float[batch,n,24] logits, float[batch,1,q,16] present_0_key, float[batch,1,f,16] present_0_encoder_key)
<int64[1] one = {1}>
{
  x = Gather(table, input_ids)
  place = Gather(positions, cache_position)
  placed = Add(x, place)
  row = Unsqueeze(placed, one)
  present_0_key = If(use_cache_branch) <
    then_branch = more () => (float[batch,1,q,16] both) { both = Concat<axis=2>(past_key_values_0_key, row) },
    else_branch = none () => (float[batch,1,q,16] alone) { alone = Identity(row) }
  >
  present_0_encoder_key = If(use_cache_branch) <
    then_branch = later () => (float[batch,1,f,16] kept) { kept = Identity(past_key_values_0_encoder_key) },
    else_branch = first () => (float[batch,1,f,16] made) { made = Unsqueeze(encoder_hidden_states, one) }
  >
  all = Concat<axis=2>(present_0_key, present_0_encoder_key)
  turned = Transpose<perm=[0,1,3,2]>(all)
  scores = MatMul(row, turned)
  shares = Softmax<axis=-1>(scores)
  mixed = MatMul(shares, all)
  y = Squeeze(mixed, one)
  logits = MatMul(y, head)
}
"""


def written(folder: Path, text: str, config: dict[str, Any] | None = None) -> Path:
    header = '<ir_version: 8, opset_import: ["" : 18]>'
    model = onnx.parser.parse_model(header + text)
    random = np.random.default_rng(3)
    weights = {
        "table": (WORDS, WIDTH), "head": (WIDTH, WORDS), "mixing": (WIDTH, WIDTH), "positions": (12, WIDTH),
    }  # fmt: skip
    for name, shape in weights.items():
        values = random.standard_normal(shape).astype(np.float32)
        if any(name in node.input for node in model.graph.node):
            model.graph.initializer.append(numpy_helper.from_array(values, name))
    path = folder / "model.onnx"
    onnx.save(model, path)
    if config is not None:
        (folder / "genai_config.json").write_text(json.dumps(config))
    return path


def run(path: Path, count: int = 4, inputs: dict[str, np.ndarray] | None = None) -> dict[str, Any]:
    options = OpenOptions(target="systolic", inputs=inputs or {})
    return decode(path, options, PROMPT, count, NoProgress(), lambda _: None)


def seen() -> dict[str, np.ndarray]:
    return {"encoder_hidden_states": np.random.default_rng(5).standard_normal((1, 3, WIDTH), np.float32)}


def test_keys_and_values_in_one_tensor(tmp_path: Path) -> None:
    text = GROWING.format(ids="input_ids", past="past_0", present="present_0")
    found = run(written(tmp_path, text))
    assert found["language"]["equal"]
    cache = found["language"]["cache"]
    assert (cache["rows"], cache["bytes_per_row"]) == (6, 2 * WIDTH * 4)
    assert cache["bytes"] == 6 * 2 * WIDTH * 4


def test_names_of_genai_config(tmp_path: Path) -> None:
    decoder = {
        "inputs": {"input_ids": "words", "past_names": "earlier_%d"},
        "outputs": {"present_names": "now_%d", "logits": "logits"},
    }
    text = GROWING.format(ids="words", past="earlier_0", present="now_0")
    path = written(tmp_path, text, {"model": {"context_length": 5, "decoder": decoder}})
    assert run(path, 3)["language"]["equal"]
    with pytest.raises(UsageError, match="need a cache of 6 rows, the model has 5"):
        run(path)


@pytest.mark.parametrize("config", [{}, {"model": []}, {"model": {"decoder": {"inputs": ["x"]}}}])
def test_a_config_that_says_nothing(tmp_path: Path, config: dict[str, Any]) -> None:
    text = GROWING.format(ids="input_ids", past="past_0", present="present_0")
    assert run(written(tmp_path, text, config), 2)["language"]["equal"]


def test_states_of_a_fixed_size(tmp_path: Path) -> None:
    found = run(written(tmp_path, RECURRENT), 6)
    assert found["language"]["equal"]
    assert len(set(found["language"]["tokens"])) > 1
    assert found["language"]["cache"]["bytes_of_fixed_size"] == WIDTH * 4
    assert "64 B of states in DRAM" in decode_text(found)


def test_a_model_that_keeps_nothing_runs_the_whole_text(tmp_path: Path) -> None:
    found = run(written(tmp_path, WHOLE), inputs=seen())
    assert found["language"]["equal"]
    assert found["language"]["cache"]["bytes"] == 0
    assert "nothing is kept" in decode_text(found)


def test_keys_of_an_encoder_are_those_of_the_first_step(tmp_path: Path) -> None:
    path = written(tmp_path, BRANCHES)
    found = run(path, inputs=seen())
    assert found["language"]["equal"]
    assert found["language"]["cache"]["bytes_of_fixed_size"] == 3 * WIDTH * 4
    with pytest.raises(UsageError, match="need a cache of 13 rows, the model has 12"):
        run(path, 11, seen())


def test_inputs_that_the_user_has_to_give(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    with pytest.raises(UsageError, match=r"--input encoder_hidden_states=FILE\.npy"):
        run(path)
    with pytest.raises(UsageError, match="makes tokens, masks, positions and caches itself"):
        run(path, inputs={**seen(), "input_ids": PROMPT})
    with pytest.raises(UsageError, match="can be given: encoder_hidden_states"):
        run(path, inputs={**seen(), "other": PROMPT})


def test_forms_that_are_not_one_sequence(tmp_path: Path) -> None:
    text = WHOLE.replace("int64[batch,n] input_ids", "int64[4,n] input_ids")
    with pytest.raises(UsageError, match=r"one sequence of any length, \[batch, tokens\], found \[4, n\]"):
        run(written(tmp_path, text), inputs=seen())
