"""The committed sample models are what their script writes."""

import runpy
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from npuviz.onnx.reader import read_model

SAMPLES = Path(__file__).parents[2] / "sample_models"
NAMES = ["tiny_cnn.onnx", "tiny_cnn_int8.onnx", "tiny_transformer.onnx"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    runpy.run_path(str(SAMPLES / "make_samples.py"))["main"](folder)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_the_script_writes_the_committed_model(made, name):
    fresh, committed = onnx.load(made / name), onnx.load(SAMPLES / name)
    for ours, theirs in zip(fresh.graph.initializer, committed.graph.initializer, strict=True):
        assert ours.name == theirs.name
        values, expected = numpy_helper.to_array(ours), numpy_helper.to_array(theirs)
        if values.dtype.kind == "f":
            # The last bit of a square root may differ between processors.
            np.testing.assert_allclose(values, expected, rtol=1e-6)
        else:
            # ... and with it what a number is rounded to.
            assert np.abs(values.astype(np.int64) - expected.astype(np.int64)).max(initial=0) <= 1
    assert list(fresh.graph.node) == list(committed.graph.node)


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_small_and_readable(name):
    assert (SAMPLES / name).stat().st_size < 300_000
    graph = read_model(SAMPLES / name, {"batch": 2})
    assert graph.tensors[graph.inputs[0]].shape[0] == 2
    assert graph.assumptions == ()


def test_every_file_is_named_in_the_readme():
    text = (SAMPLES / "README.md").read_text()
    files = [path.name for path in SAMPLES.iterdir() if path.is_file() and path.name != "README.md"]
    assert files
    assert [name for name in files if name not in text] == []
