"""Reads which inputs and outputs of a language model hold tokens, masks, logits and the KV cache.

Names are those of onnxruntime-genai and of the exporters of transformers; a genai_config.json beside the
model limits its length. Earlier keys and values are inputs (`past...`), the new ones results (`present...`).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from npuviz.base.errors import UsageError
from npuviz.onnx.draft import read_draft

_GROUPED = "GroupQueryAttention"
_IDS, _MASK, _POSITIONS, _LOGITS = "input_ids", "attention_mask", "position_ids", "logits"


@dataclass(frozen=True)
class Cache:
    """One tensor of the KV cache: the input with earlier rows, the output with the new ones, and its sizes.

    shape  (batch, heads, rows, features); rows is 0, since its size is open
    """

    past: str
    present: str
    shape: tuple[int, int, int, int]
    dtype: np.dtype


@dataclass(frozen=True)
class LanguageModel:
    """Inputs, outputs and limits of a language model.

    mask, positions  names of inputs, "" if absent
    caches    in the order of the inputs
    is_fixed  whether the cache may be longer than the rows in use (all its readers are GroupQueryAttention)
    limit     most rows of the cache, 0 if unknown; limited_by  source of the limit, in words
    vocabulary  rows of the token table, 0 if unknown
    """

    path: Path
    ids: str
    mask: str
    positions: str
    logits: str
    caches: tuple[Cache, ...]
    is_fixed: bool
    limit: int
    limited_by: str
    vocabulary: int
    types: Mapping[str, np.dtype]


def read_language_model(path: Path) -> LanguageModel:
    """Read the inputs and outputs of a model file. Raises UsageError for one that is no language model."""
    draft = read_draft(path)
    graph = draft.proto.graph
    inputs = {value.name: value for value in graph.input if value.name not in draft.weights}
    outputs = [value.name for value in graph.output]
    if _IDS not in inputs or _LOGITS not in outputs:
        missing = f"an input {_IDS}" if _IDS not in inputs else f"an output {_LOGITS}"
        raise UsageError(f"--decode {path}: expected a language model with {missing}, found none")
    past = [name for name in inputs if name.startswith("past") and len(_dims(inputs[name])) == 4]
    present = [name for name in outputs if name.startswith("present")]
    if not past or len(past) != len(present):
        raise UsageError(
            f"--decode {path}: expected as many inputs past... as outputs present..., "
            f"found {len(past)} and {len(present)}"
        )
    unknown = sorted(set(inputs) - {_IDS, _MASK, _POSITIONS, *past})
    if unknown:
        raise UsageError(f"--decode {path}: input {unknown[0]} is none that a language model has")
    caches = tuple(_cache(path, inputs[name], result) for name, result in zip(past, present, strict=True))
    limit, limited_by = _limit(path, graph, draft.weights)
    return LanguageModel(
        path,
        _IDS,
        _MASK if _MASK in inputs else "",
        _POSITIONS if _POSITIONS in inputs else "",
        _LOGITS,
        caches,
        _is_fixed(graph, past),
        limit,
        limited_by,
        _vocabulary(graph, draft.weights),
        {name: _dtype(value) for name, value in inputs.items()},
    )


def _dims(value: onnx.ValueInfoProto) -> list[int]:
    """Return the sizes of an input, 0 for open ones."""
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def _dtype(value: onnx.ValueInfoProto) -> np.dtype:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _cache(path: Path, value: onnx.ValueInfoProto, present: str) -> Cache:
    _, heads, _, features = _dims(value)
    if not heads or not features:
        raise UsageError(f"--decode {path}: input {value.name} leaves its heads or features open")
    return Cache(value.name, present, (1, heads, 0, features), _dtype(value))


def _is_fixed(graph: onnx.GraphProto, past: list[str]) -> bool:
    wanted = set(past)
    readers = [node for node in graph.node if wanted & set(node.input)]
    return all(node.op_type == _GROUPED and wanted & set(node.input[3:5]) for node in readers)


def _vocabulary(graph: onnx.GraphProto, weights: Mapping[str, np.ndarray]) -> int:
    tables = [
        weights[node.input[0]]
        for node in graph.node
        if node.op_type == "Gather" and node.input[1] == _IDS and node.input[0] in weights
    ]
    return min((len(table) for table in tables), default=0)


def _limit(path: Path, graph: onnx.GraphProto, weights: Mapping[str, np.ndarray]) -> tuple[int, str]:
    """Return the most rows of the cache, the least of rotary tables and genai_config.json, and the source of
    it; (0, "") if unknown."""
    found = list(_described(path))
    for node in graph.node:
        if node.op_type == _GROUPED and len(node.input) > 7 and node.input[7] in weights:
            found.append((len(weights[node.input[7]]), f"rows of {node.input[7]} in {node.name}"))
    return min(found, default=(0, ""))


def _described(path: Path) -> Iterator[tuple[int, str]]:
    config = path.parent / "genai_config.json"
    try:
        length = json.loads(config.read_text())["model"]["context_length"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if isinstance(length, int) and length > 0:
        yield length, "context_length in genai_config.json"
