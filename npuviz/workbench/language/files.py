"""Prepares the file and inputs of a step of a language model, and runs the original in ONNX Runtime."""

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx

from npuviz.base.errors import FormatError
from npuviz.onnx.draft import first_line
from npuviz.onnx.language_model import LanguageModel
from npuviz.onnx.passes.contrib.expand import CACHE_ROWS
from npuviz.onnx.runtime import onnxruntime

Arrays = dict[str, np.ndarray]


@contextmanager
def cache_file(model: LanguageModel) -> Generator[Path]:
    """Write a temporary copy of the model that is marked to return only the new rows of its cache; deleted
    at exit."""
    with tempfile.TemporaryDirectory(prefix="npuviz-") as folder:
        proto = onnx.load(model.path, load_external_data=False)
        item = proto.metadata_props.add()
        item.key, item.value = CACHE_ROWS
        places = {
            entry.value
            for tensor in proto.graph.initializer
            for entry in tensor.external_data
            if entry.key == "location"
        }
        for place in places:
            target = Path(folder) / place
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(model.path.parent / place, target)
            except OSError:
                shutil.copyfile(model.path.parent / place, target)
        path = Path(folder) / model.path.name
        path.write_bytes(proto.SerializeToString())
        yield path


def step_inputs(model: LanguageModel, tokens: np.ndarray, before: int, length: int) -> Arrays:
    """Return the input arrays of one step: tokens, mask and positions, the latter two if the model has them.

    tokens  (1, new);  before  number of tokens in the cache;  length  of the mask: rows of the cache and the
    step
    """
    new = tokens.shape[1]
    found = {model.ids: tokens.astype(model.types[model.ids])}
    if model.mask:
        mask = np.zeros((1, length), model.types[model.mask])
        mask[:, : before + new] = 1
        found[model.mask] = mask
    if model.positions:
        found[model.positions] = np.arange(before, before + new, dtype=model.types[model.positions])[None]
    return found


def empty_cache(model: LanguageModel, rows: int) -> Arrays:
    """Return zeros of shape (1, heads, rows, size) for every tensor of the cache."""
    return {each.past: np.zeros((1, each.shape[1], rows, each.shape[3]), each.dtype) for each in model.caches}


def reference_logits(model: LanguageModel, prompt: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """Yield the logits of the last row of each step in ONNX Runtime, (vocabulary,), with its own tokens fed
    back.

    Runs the file as it is, with a cache that grows. Raises FormatError when the runtime refuses it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
        tokens, before, cache = prompt, 0, empty_cache(model, 0)
        names = [model.logits, *(each.present for each in model.caches)]
        for _ in range(count):
            total = before + tokens.shape[1]
            results = session.run(names, {**step_inputs(model, tokens, before, total), **cache})
            logits = np.asarray(results[0])[0, -1].astype(np.float64)
            yield logits
            cache = {each.past: rows for each, rows in zip(model.caches, results[1:], strict=True)}
            tokens, before = np.array([[int(logits.argmax())]]), total
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(model.path, field="reference run", found=first_line(error)) from error
