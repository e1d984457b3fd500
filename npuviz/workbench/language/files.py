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
from npuviz.onnx.language.model import LanguageModel, State
from npuviz.onnx.language.names import Role
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
            source, target = (model.path.parent / place).resolve(), Path(folder) / place
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, target)
            except OSError:
                shutil.copyfile(source, target)
        path = Path(folder) / model.path.name
        path.write_bytes(proto.SerializeToString())
        yield path


def step_inputs(model: LanguageModel, tokens: np.ndarray, before: int, length: int) -> Arrays:
    """Return the input arrays of one step beside its states: tokens and what tells of them, as far as the
    model has such inputs.

    tokens  (1, new);  before  number of tokens in the cache;  length  of the mask: rows of the cache and the
    step
    """
    new = tokens.shape[1]
    mask = np.zeros((1, length), np.int64)
    mask[:, : before + new] = 1
    values = {
        Role.TOKENS: tokens,
        Role.MASK: mask,
        Role.POSITIONS: np.arange(before, before + new)[None],
        Role.BEFORE: np.array([before]),
        Role.NEW: np.array([new]),
        Role.TOTAL: np.array([before + new]),
        Role.BRANCH: np.array([before > 0]),
        Role.LOGITS: np.array([1]),
    }
    return {
        name: _shaped(values[role], len(model.dims[name]), role).astype(model.types[name])
        for name, role in model.roles.items()
    }


def _shaped(values: np.ndarray, rank: int, role: Role) -> np.ndarray:
    """Return values with the rank of an input: sizes of 1 come and go in front. Positions of three axes of an
    image are the same for text: (3, 1, new)."""
    if role == Role.POSITIONS and rank == 3:
        return np.repeat(values[None], 3, axis=0)
    while values.ndim > rank and values.shape[0] == 1:
        values = values[0]
    return values.reshape((1,) * (rank - values.ndim) + values.shape)


def first_states(model: LanguageModel, rows: int, given: Arrays) -> Arrays:
    """Return the states before the first step: zeros, with `rows` rows where the cache grows, or what the
    user gave."""
    return {each.past: given.get(each.past, _zeros(model, each, rows, given)) for each in model.states}


def _zeros(model: LanguageModel, state: State, rows: int, given: Arrays) -> np.ndarray:
    """Return zeros for a state. Rows of an encoder's result are as many as those of a given input whose size
    has the same name."""
    shape = list(state.shape)
    if state.is_kept and state.axis >= 0:
        size = model.dims[state.past][state.axis]
        rows = next((sizes[size] for sizes in _given_sizes(model, given) if size in sizes), 0)
    if state.axis >= 0:
        shape[state.axis] = rows
    return np.zeros(shape, state.dtype)


def _given_sizes(model: LanguageModel, given: Arrays) -> Iterator[dict[int | str, int]]:
    for name in model.given:
        if name in given and given[name].ndim == len(model.dims[name]):
            yield dict(zip(model.dims[name], given[name].shape, strict=True))


def next_states(model: LanguageModel, states: Arrays, results: Arrays, is_first: bool) -> Arrays:
    """Return the states after a step. results  values of the outputs by the name of their input"""
    return {
        each.past: states[each.past]
        if each.is_kept and not is_first
        else np.asarray(results[each.past]).astype(each.dtype)
        for each in model.states
    }


def reference_logits(
    model: LanguageModel, prompt: np.ndarray, count: int, given: Arrays
) -> Iterator[np.ndarray]:
    """Yield the logits of the last row of each step in ONNX Runtime, (vocabulary,), with its own tokens fed
    back.

    Runs the file as it is, with a cache that grows. given  the inputs that the user gave
    Raises FormatError when the runtime refuses it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
        tokens, before, states = prompt, 0, first_states(model, 0, given)
        names = [model.logits, *(each.present for each in model.states)]
        for number in range(count):
            total = before + tokens.shape[1]
            results = session.run(names, {**given, **step_inputs(model, tokens, before, total), **states})
            logits = last_row(np.asarray(results[0]))
            yield logits
            after = zip(model.states, map(np.asarray, results[1:]), strict=True)
            states = next_states(model, states, {each.past: found for each, found in after}, number == 0)
            tokens, before = next_tokens(model, tokens, int(logits.argmax()), total)
    except FormatError:
        raise
    except Exception as error:
        raise FormatError(model.path, field="reference run", found=first_line(error)) from error


def last_row(logits: np.ndarray) -> np.ndarray:
    """Return the logits of the last token, (vocabulary,) float64."""
    return logits.reshape(-1, logits.shape[-1])[-1].astype(np.float64)


def next_tokens(model: LanguageModel, tokens: np.ndarray, token: int, total: int) -> tuple[np.ndarray, int]:
    """Return the tokens of the next step, (1, new), and how many there are before them: all tokens again
    where the model keeps nothing between steps."""
    new = np.array([[token]])
    return (
        (new, total)
        if any(not each.is_kept for each in model.states)
        else (np.concatenate([tokens, new], axis=1), 0)
    )
