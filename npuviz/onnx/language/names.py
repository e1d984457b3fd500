"""Says which role an input of a language model has, and which output has its new value, by their names."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import onnx


class Role(Enum):
    """What an input tells a step of `new` tokens behind `before` earlier ones.

    MASK       1 for each token in use, 0 for free rows of the cache
    POSITIONS  before, before + 1, ...
    BEFORE, NEW, TOTAL  the numbers of tokens: `before`, `new`, and both
    BRANCH     whether there are earlier tokens (models with a branch for the first step)
    LOGITS     for how many of the last tokens logits are wanted
    """

    TOKENS = "tokens"
    MASK = "mask"
    POSITIONS = "positions"
    BEFORE = "before"
    NEW = "new"
    TOTAL = "total"
    BRANCH = "branch"
    LOGITS = "logits"


# Ref: defaults of onnxruntime-genai (src/config.h), and what the exporters of transformers (optimum) write.
_ROLES: Mapping[str, Role] = {
    "input_ids": Role.TOKENS,
    "decoder_input_ids": Role.TOKENS,
    "attention_mask": Role.MASK,
    "decoder_attention_mask": Role.MASK,
    "position_ids": Role.POSITIONS,
    "cache_position": Role.POSITIONS,
    "past_sequence_length": Role.BEFORE,
    "past_key_values_length": Role.BEFORE,
    "current_sequence_length": Role.NEW,
    "total_sequence_length": Role.TOTAL,
    "use_cache_branch": Role.BRANCH,
    "num_logits_to_keep": Role.LOGITS,
}
_PAST = ("past_key_values", "past_key_value", "past")
_PRESENT = ("present_key_values", "present_key_value", "present")
_PATTERNS = ("%s_key_names", "%s_value_names", "%s_names")


@dataclass(frozen=True)
class GenaiConfig:
    """What genai_config.json says of a decoder.

    roles    name of an input -> the name by which onnxruntime-genai calls it
    states   (pattern of an input, pattern of its output) with %d for the layer
    limit    most tokens, 0 if it does not say
    """

    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    states: tuple[tuple[str, str], ...] = ()
    logits: str = "logits"
    limit: int = 0


def read_genai_config(model: Path) -> GenaiConfig:
    """Read genai_config.json beside a model file; the defaults if there is none or it cannot be read."""
    try:
        described = json.loads((model.parent / "genai_config.json").read_text())["model"]
    except (OSError, ValueError, KeyError, TypeError):
        return GenaiConfig()
    length = _part(described, "context_length", int)
    decoder = _part(described, "decoder", dict)
    inputs, outputs = _texts(_part(decoder, "inputs", dict)), _texts(_part(decoder, "outputs", dict))
    states = tuple(
        (inputs[past], outputs[present])
        for pattern in _PATTERNS
        for past, present in [(pattern % "past", pattern % "present")]
        if past in inputs and present in outputs
    )
    roles = {name: key for key, name in inputs.items() if key in _ROLES}
    return GenaiConfig(roles, states, outputs.get("logits", "logits"), max(length or 0, 0))


def _part(values: Any, key: str, kind: type) -> Any:
    found = values.get(key) if isinstance(values, dict) else None
    return found if isinstance(found, kind) else kind()


def _texts(values: Mapping[Any, Any]) -> dict[str, str]:
    return {key: name for key, name in values.items() if isinstance(key, str) and isinstance(name, str)}


def role_of(name: str, config: GenaiConfig) -> Role | None:
    """Return the role of an input; None for states and for what is not known."""
    return _ROLES.get(config.roles.get(name, name))


def paired_states(
    names: Sequence[str], outputs: Iterable[onnx.ValueInfoProto], config: GenaiConfig
) -> list[tuple[str, str]]:
    """Pair inputs with the outputs that hold their new values, in the order of the inputs.

    Names are paired as genai_config.json says, then those that are alike behind `past` and `present`. If
    no two are alike and there are as many of both, they are paired in their order.
    """
    results = [value.name for value in outputs]
    found = dict(_configured(names, set(results), config))
    pasts = {_behind(name, _PAST): name for name in names if name.startswith("past") and name not in found}
    presents = [name for name in results if name.startswith("present") and name not in found.values()]
    alike = {_behind(name, _PRESENT): name for name in presents}
    if not pasts.keys() & alike.keys() and len(pasts) == len(presents):
        found.update(zip(pasts.values(), presents, strict=True))
    found.update((pasts[key], alike[key]) for key in pasts if key in alike)
    return [(name, found[name]) for name in names if name in found]


def _configured(names: Sequence[str], results: set[str], config: GenaiConfig) -> Iterator[tuple[str, str]]:
    for past, present in config.states:
        for layer in range(len(names)):
            pair = (past.replace("%d", str(layer)), present.replace("%d", str(layer)))
            if pair[0] in names and pair[1] in results:
                yield pair


def _behind(name: str, prefixes: Sequence[str]) -> str:
    prefix = next(each for each in prefixes if name.startswith(each))
    return name[len(prefix) :].strip("._")
