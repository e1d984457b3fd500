"""Reads which inputs and outputs of a language model hold tokens, masks, logits and what steps hand on.

Names are those of onnxruntime-genai and of the exporters of transformers; a genai_config.json beside the
model may give others, and limits its length. What a step hands to the next, the KV cache and the states of
convolutions and recurrences, are inputs (`past...`), whose new values are outputs (`present...`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from npuviz.base.errors import UsageError
from npuviz.onnx.draft import Draft, read_draft
from npuviz.onnx.language.names import GenaiConfig, Role, paired_states, read_genai_config, role_of
from npuviz.onnx.parameters import all_nodes
from npuviz.onnx.semantics.accuracy_levels import count_rounded

_GROUPED = "GroupQueryAttention"
_CROSS = ("encoder", "cross")


@dataclass(frozen=True)
class State:
    """A tensor that a step hands to the next one: the input `past`, the output `present` with its new values.

    shape  of `past` before the first step: 1 for the batch, 0 for rows
    axis   of the rows, one for each token (KV cache); -1 if the size stays as it is
    is_kept  whether the first step's value serves all others (keys and values of an encoder's result)
    """

    past: str
    present: str
    shape: tuple[int, ...]
    axis: int
    dtype: np.dtype
    is_kept: bool = False

    @property
    def grows(self) -> bool:
        """Whether each token adds a row."""
        return self.axis >= 0 and not self.is_kept

    @property
    def row_bytes(self) -> int:
        """Bytes that a token adds; 0 if none."""
        if not self.grows:
            return 0
        sizes = (size for axis, size in enumerate(self.shape) if axis != self.axis)
        return int(np.prod(list(sizes), dtype=np.int64)) * self.dtype.itemsize


@dataclass(frozen=True)
class LanguageModel:
    """Inputs, outputs and limits of a language model.

    roles     name of an input -> what it tells a step; the others are in `states` or `given`
    dims, types  name of an input -> its sizes, or the names of those that are open; its dtype
    states    in the order of the inputs
    given     inputs that the user has to give: results of an encoder and the like
    is_fixed  whether the cache may be longer than the rows in use (all its readers are GroupQueryAttention)
    limit     most rows of the cache, 0 if unknown; limited_by  source of the limit, in words
    vocabulary  rows of the token table, 0 if unknown
    rounded   products whose activations ONNX Runtime rounds to 8 bits (accuracy_level 4 of MatMulNBits)
    """

    path: Path
    roles: Mapping[str, Role]
    dims: Mapping[str, tuple[int | str, ...]]
    types: Mapping[str, np.dtype]
    logits: str
    states: tuple[State, ...]
    given: tuple[str, ...]
    is_fixed: bool
    limit: int
    limited_by: str
    vocabulary: int
    rounded: int


def read_language_model(path: Path) -> LanguageModel:
    """Read the inputs and outputs of a model file. Raises UsageError for one that is no language model."""
    draft = read_draft(path)
    config = read_genai_config(path)
    graph = draft.proto.graph
    inputs = {value.name: value for value in graph.input if value.name not in draft.weights}
    roles = {name: role for name in inputs if (role := role_of(name, config)) is not None}
    tokens = [name for name, role in roles.items() if role == Role.TOKENS]
    logits = next((value.name for value in graph.output if value.name == config.logits), "")
    if not tokens or not logits:
        missing = f"an output {config.logits}" if tokens else "an input input_ids"
        hint = "; inputs_embeds are made by another file, which --decode does not run"
        raise UsageError(
            f"--decode {path}: expected a language model with {missing}, found none"
            + (hint if not tokens and "inputs_embeds" in inputs else "")
        )
    _one_sequence(path, inputs[tokens[0]])
    pairs = paired_states([name for name in inputs if name not in roles], graph.output, config)
    states = tuple(_state(path, inputs[past], present) for past, present in pairs)
    limit, limited_by = _limit(config, draft, roles)
    return LanguageModel(
        path,
        roles,
        {name: _dims(value) for name, value in inputs.items()},
        {name: _dtype(value) for name, value in inputs.items()},
        logits,
        states,
        tuple(sorted(set(inputs) - set(roles) - {each.past for each in states})),
        _is_fixed(graph, states),
        limit,
        limited_by,
        _vocabulary(draft, tokens[0]),
        count_rounded(graph),
    )


def _dims(value: onnx.ValueInfoProto) -> tuple[int | str, ...]:
    """Return the sizes of an input, and the names of those that are open."""
    return tuple(dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim)


def _dtype(value: onnx.ValueInfoProto) -> np.dtype:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))


def _one_sequence(path: Path, value: onnx.ValueInfoProto) -> None:
    dims = _dims(value)
    if len(dims) != 2 or (isinstance(dims[0], int) and dims[0] > 1) or isinstance(dims[1], int):
        raise UsageError(
            f"--decode {path}: expected {value.name} of one sequence of any length, [batch, tokens], "
            f"found [{', '.join(map(str, dims))}]"
        )


def _state(path: Path, value: onnx.ValueInfoProto, present: str) -> State:
    """Find the batch and the rows among the open dimensions of a state: the batch is the one that is called
    so, else the first."""
    dims = _dims(value)
    opened = [axis for axis, dim in enumerate(dims) if isinstance(dim, str)]
    batch = next((axis for axis in opened if "batch" in str(dims[axis]).lower()), None)
    if batch is None and opened and (len(opened) > 1 or opened[0] == 0):
        batch = opened[0]
    rows = [axis for axis in opened if axis != batch]
    if len(rows) > 1:
        raise UsageError(
            f"--decode {path}: input {value.name} leaves {len(rows)} sizes open beside its batch, "
            f"expected its rows only: set the others in the model"
        )
    shape = tuple(1 if axis == batch else 0 if isinstance(dim, str) else dim for axis, dim in enumerate(dims))
    is_kept = any(word in value.name for word in _CROSS)
    return State(value.name, present, shape, rows[0] if rows else -1, _dtype(value), is_kept)


def _is_fixed(graph: onnx.GraphProto, states: Iterable[State]) -> bool:
    wanted = {each.past for each in states if each.grows}
    readers = [node for node in all_nodes(graph) if wanted & set(node.input)]
    is_grouped = all(node.op_type == _GROUPED and wanted & set(node.input[3:5]) for node in readers)
    return bool(wanted) and is_grouped and wanted <= {name for node in readers for name in node.input}


def _tables(draft: Draft, indices: str) -> list[tuple[str, int]]:
    """Return (name, rows) of the weights whose rows an input chooses."""
    return [
        (node.input[0], len(draft.weights[node.input[0]]))
        for node in draft.proto.graph.node
        if node.op_type == "Gather" and node.input[1] == indices and node.input[0] in draft.weights
    ]


def _vocabulary(draft: Draft, tokens: str) -> int:
    return min((rows for _, rows in _tables(draft, tokens)), default=0)


def _limit(config: GenaiConfig, draft: Draft, roles: Mapping[str, Role]) -> tuple[int, str]:
    """Return the most rows of the cache, the least of tables of positions and genai_config.json, and the
    source of it; (0, "") if unknown."""
    found = [(config.limit, "context_length in genai_config.json")] if config.limit else []
    for name, role in roles.items():
        if role == Role.POSITIONS:
            found += [(rows, f"rows of {table}") for table, rows in _tables(draft, name)]
    for node in draft.proto.graph.node:
        if node.op_type == _GROUPED and len(node.input) > 7 and node.input[7] in draft.weights:
            found.append((len(draft.weights[node.input[7]]), f"rows of {node.input[7]} in {node.name}"))
    return min(found, default=(0, ""))
