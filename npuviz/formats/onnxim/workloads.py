"""Read ONNXim's list files, sizes of language models, and request traces."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npuviz.base.errors import FormatError
from npuviz.base.names import is_number
from npuviz.formats.binary import read_text
from npuviz.formats.json_text import read_json_object, wrong_json

MAX_MODELS = 10_000
MAX_TRACE_ROWS = 1_000_000
TRACE_LIMIT_BYTES = 32 << 20
_LARGEST = 1 << 40
_LARGEST_SIZE = 1 << 24
_WHOLE = {"nr_atten": -1, "partition_id": 0, "target_core": 0, "output_seq_len": 0}
"""Integers of an entry, with their value if absent, which is also the least that is allowed."""
_KNOWN = {*_WHOLE, "name", "request_time", "trace_file", "scheduler", "scheduler_config"}
_SIZES = (
    *("num_attention_heads", "num_kv_heads", "vocab_size", "num_hidden_layers"),
    *("hidden_size", "intermediate_size", "max_seq_length"),
)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of a list file.

    request_time_ps  arrival in picoseconds (the file says milliseconds)
    dimensions       values of symbolic dimensions: all other integers of the entry
    trace_file, scheduler, max_batch_size (0: no limit), check_mem_size  language mode only
    """

    name: str
    request_time_ps: int = 0
    nr_atten: int = -1
    partition_id: int = 0
    target_core: int = 0
    output_seq_len: int = 0
    trace_file: str = ""
    scheduler: str = "simple"
    max_batch_size: int = 0
    check_mem_size: bool = True
    dimensions: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Sizes of a language model; field names are the keys of the file."""

    num_attention_heads: int
    num_kv_heads: int
    vocab_size: int
    num_hidden_layers: int
    hidden_size: int
    intermediate_size: int
    max_seq_length: int
    activation_function: str = "relu"
    ffn_type: str = "default"
    run_single_layer: bool = False
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1

    @property
    def head_size(self) -> int:
        """Number of features of one head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def kv_width(self) -> int:
        """Number of features of K (or V) of one token."""
        return self.head_size * self.num_kv_heads

    @property
    def qkv_width(self) -> int:
        """Number of outputs of the QKV product."""
        return self.hidden_size + 2 * self.kv_width

    @property
    def ffn_width(self) -> int:
        """Number of outputs of the first feed-forward product: twice the width if it includes a gate."""
        return self.intermediate_size * (2 if self.ffn_type == "llama" else 1)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A request: arrival in core cycles from the start, and lengths in tokens."""

    arrival: int
    prompt_length: int
    target_length: int
    cached_length: int


def is_model_list(head: bytes) -> bool:
    """Whether the first bytes of a JSON file look like a list of models."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and b'"models"' in head


def read_model_list(path: Path) -> tuple[ModelEntry, ...]:
    """Read a list file. Raises FormatError."""
    models = read_json_object(path).get("models")
    if not isinstance(models, list) or not models:
        raise wrong_json(path, "key models", "a list of models", models)
    if len(models) > MAX_MODELS:
        raise FormatError(path, expected=f"at most {MAX_MODELS} models", found=str(len(models)))
    return tuple(_entry(path, f"models[{index}]", entry) for index, entry in enumerate(models))


def _entry(path: Path, where: str, data: Any) -> ModelEntry:
    if not isinstance(data, dict):
        raise wrong_json(path, where, "an object", data)
    name = data.get("name")
    if not isinstance(name, str) or not name or "/" in name or "\\" in name or name.startswith("."):
        raise wrong_json(path, f"{where}.name", "a model name", name)
    texts = {"scheduler": data.get("scheduler", "simple"), "trace_file": data.get("trace_file", "")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise wrong_json(path, f"{where}.{key}", "a text", value)
    limits = data.get("scheduler_config", {})
    if not isinstance(limits, dict):
        raise wrong_json(path, f"{where}.scheduler_config", "an object", limits)
    batch = limits.get("max_batch_size", 0)
    whole: dict[str, Any] = {
        key: _integer(path, f"{where}.{key}", data.get(key, least), least, _LARGEST)
        for key, least in _WHOLE.items()
    }
    dimensions = {
        key: _integer(path, f"{where}.{key}", value, 0, _LARGEST)
        for key, value in data.items()
        if key not in _KNOWN and isinstance(value, int)
    }
    return ModelEntry(
        name=name,
        request_time_ps=_milliseconds(path, f"{where}.request_time", data.get("request_time", 0)),
        max_batch_size=_integer(path, f"{where}.scheduler_config.max_batch_size", batch, 0, _LARGEST),
        check_mem_size=bool(limits.get("check_mem_size", True)),
        dimensions=dimensions,
        **texts,
        **whole,
    )


def _integer(path: Path, where: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise wrong_json(path, where, f"an integer from {low} to {high}", value)
    return value


def _milliseconds(path: Path, where: str, value: Any) -> int:
    """Return a time in milliseconds as picoseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise wrong_json(path, where, "a time from 0 to 1e9 milliseconds", value)
    return round(value * 1_000_000_000)


def read_language_model(path: Path) -> LanguageModel:
    """Read the sizes of a language model. Raises FormatError."""
    data = read_json_object(path)
    required = {name: _integer(path, f"key {name}", data.get(name), 1, _LARGEST_SIZE) for name in _SIZES}
    optional = {
        name: _integer(path, f"key {name}", data.get(name, 1), 1, _LARGEST_SIZE)
        for name in ("tensor_parallel_size", "pipeline_parallel_size")
    }
    heads, kv_heads, hidden = (
        required[name] for name in ("num_attention_heads", "num_kv_heads", "hidden_size")
    )
    if hidden % heads:
        expected = f"a multiple of num_attention_heads ({heads})"
        raise FormatError(path, field="key hidden_size", expected=expected, found=str(hidden))
    if heads % kv_heads:
        expected = f"a divisor of num_attention_heads ({heads})"
        raise FormatError(path, field="key num_kv_heads", expected=expected, found=str(kv_heads))
    is_single = data.get("run_single_layer", False)
    if not isinstance(is_single, bool):
        raise wrong_json(path, "key run_single_layer", "true or false", is_single)
    return LanguageModel(
        **required,
        **optional,
        activation_function=_word(path, data, "activation_function", ("relu", "gelu", "swish")),
        ffn_type=_word(path, data, "ffn_type", ("default", "llama")),
        run_single_layer=is_single,
    )


def _word(path: Path, data: Mapping[str, Any], name: str, words: tuple[str, ...]) -> str:
    value = data.get(name, words[0])
    if value not in words:
        raise wrong_json(path, f"key {name}", "one of " + ", ".join(words), value)
    return str(value)


def read_trace(path: Path) -> tuple[TraceRow, ...]:
    """Read a request trace (CSV with a header line). Raises FormatError."""
    rows: list[TraceRow] = []
    arrival = 0
    lines = csv.reader(read_text(path, TRACE_LIMIT_BYTES).splitlines())
    try:
        for number, cells in enumerate(lines, start=1):
            if number == 1 or not any(cell.strip() for cell in cells):
                continue
            if len(rows) >= MAX_TRACE_ROWS:
                raise FormatError(path, expected=f"at most {MAX_TRACE_ROWS} requests", found="more")
            row = _trace_row(path, number, cells)
            arrival += row.arrival
            rows.append(TraceRow(arrival, row.prompt_length, row.target_length, row.cached_length))
    except csv.Error as error:
        raise FormatError(path, expected="comma-separated values", found=str(error)) from None
    if not rows:
        raise FormatError(path, expected="a header and at least one request", found="none")
    return tuple(rows)


def _trace_row(path: Path, number: int, cells: list[str]) -> TraceRow:
    names = ("time", "prompt_length", "target_length", "cached_length")
    if len(cells) != len(names):
        found = f"{len(cells)} values"
        raise FormatError(path, field=f"line {number}", expected=", ".join(names), found=found)
    values: list[int] = []
    for name, cell in zip(names, cells, strict=True):
        text = cell.strip()
        if not is_number(text, 13) or (name == "prompt_length" and int(text) == 0) or int(text) > _LARGEST:
            where = f"line {number}, {name}"
            expected = "a whole number" if name != "prompt_length" else "a positive whole number"
            raise FormatError(path, field=where, expected=expected, found=repr(cell[:40]))
        values.append(int(text))
    return TraceRow(*values)
