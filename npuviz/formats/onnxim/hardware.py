"""Read ONNXim's hardware descriptions: the newer per-core JSON and the older flat one.

Sizes in the file are KB of 1024 bytes, frequencies MHz, latencies cycles of their own domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from npuviz.base.errors import FormatError
from npuviz.formats.json_text import describe_json, read_json_object, wrong_json

MAX_CORES = 4096
MAX_ARRAY_SIDE = 4096
MAX_LATENCY = 1_000_000


@dataclass(frozen=True, slots=True)
class Key:
    """Allowed values of a key: integers from `low` to `high`, or one of `words`.

    default      value when absent; None: the key is required
    is_assumed   the default is npuviz's own (ONNXim reads such a key uninitialised); absence gives a warning
    """

    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    default: int | str | None = None
    is_assumed: bool = False
    is_text: bool = False


_Cycles = Annotated[int, Key(0, MAX_LATENCY, default=1)]
_Frequency = Annotated[int, Key(1, 1_000_000)]
_Interval = Annotated[int, Key(0, 1 << 62, default=0)]


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """One core. Field names are the keys of the file."""

    core_type: Annotated[str, Key(words=("systolic_ws", "systolic_os", "systolic_is"), default="systolic_ws")]
    core_width: Annotated[int, Key(1, MAX_ARRAY_SIDE)]
    core_height: Annotated[int, Key(1, MAX_ARRAY_SIDE)]
    spad_size: Annotated[int, Key(1, 4 << 20)]
    # Assumed: an eighth of the scratchpad, as in ONNXim's TPUv4 file; 0 stands for this default.
    accum_spad_size: Annotated[int, Key(0, 4 << 20, default=0, is_assumed=True)]
    sram_width: Annotated[int, Key(0, 1 << 20, default=32)]
    # Assumed: one row of 32-bit lanes of an 8-wide array.
    # At least two bytes: an adder tree of one byte per step would never reach its root.
    vector_process_bit: Annotated[int, Key(16, 1 << 24, default=256, is_assumed=True)]
    add_latency: _Cycles
    mul_latency: _Cycles
    mac_latency: _Cycles
    div_latency: _Cycles
    exp_latency: _Cycles
    gelu_latency: _Cycles
    add_tree_latency: _Cycles
    scalar_sqrt_latency: _Cycles
    scalar_add_latency: _Cycles
    scalar_mul_latency: _Cycles

    @property
    def spad_bytes(self) -> int:
        """Bytes of the scratchpad, both halves together."""
        return self.spad_size * 1024

    @property
    def acc_bytes(self) -> int:
        """Bytes of the accumulator, both halves together."""
        return self.accum_spad_size * 1024

    @property
    def vector_bytes(self) -> int:
        """Bytes that the vector unit processes per step."""
        return self.vector_process_bit // 8


@dataclass(frozen=True, slots=True)
class OnnximConfig:
    """A hardware description. Field names are the keys of the file; `cores` has `num_cores` items.

    partition  core index -> partition id; empty: all cores in partition 0
    """

    cores: tuple[CoreConfig, ...]
    num_cores: Annotated[int, Key(1, MAX_CORES)]
    core_freq: _Frequency
    core_print_interval: _Interval
    dram_type: Annotated[str, Key(words=("simple", "ramulator", "ramulator2"), default="simple")]
    dram_freq: _Frequency
    dram_channels: Annotated[int, Key(1, 64)]
    dram_req_size: Annotated[int, Key(8, 256, default=32, is_assumed=True)]
    dram_latency: Annotated[int, Key(0, MAX_LATENCY, default=10)]
    dram_size: Annotated[int, Key(0, 1 << 20, default=0)]
    dram_nbl: Annotated[int, Key(0, 1 << 20, default=1)]
    dram_print_interval: _Interval
    dram_config_path: Annotated[str, Key(default="", is_text=True)]
    icnt_type: Annotated[str, Key(words=("simple", "booksim2"), default="simple")]
    icnt_freq: Annotated[int, Key(1, 1_000_000, default=1000, is_assumed=True)]
    icnt_latency: _Cycles
    icnt_print_interval: _Interval
    icnt_injection_ports_per_core: Annotated[int, Key(1, 64, default=1)]
    icnt_config_path: Annotated[str, Key(default="", is_text=True)]
    precision: Annotated[int, Key(1, 8, default=2, is_assumed=True)]
    layout: Annotated[str, Key(words=("NHWC", "NCHW"), default="NHWC")]
    scheduler: Annotated[
        str, Key(words=("simple", "partition_cpu", "time_multiplex", "spatial_split"), default="simple")
    ]
    partition: Mapping[int, int] = field(default_factory=dict[int, int])


def _keys(config: type) -> dict[str, Key]:
    """Return the Key of each key of the file, in the order of the fields."""
    hints = get_type_hints(config, include_extras=True).items()
    return {name: hint.__metadata__[0] for name, hint in hints if get_origin(hint) is Annotated}


CORE_KEYS: Mapping[str, Key] = _keys(CoreConfig)
"""Keys of one core."""
CHIP_KEYS: Mapping[str, Key] = _keys(OnnximConfig)
"""Keys of the whole chip."""
_OLD_WORDS = {"booksim": "booksim2"}


def read_config(path: Path) -> tuple[OnnximConfig, tuple[str, ...]]:
    """Read a hardware description; return (config, warnings). Raises FormatError."""
    return parse_config(read_json_object(path), path)


def parse_config(data: Mapping[str, Any], source: str | Path) -> tuple[OnnximConfig, tuple[str, ...]]:
    """Make a config from parsed JSON; `source` names the file in errors. Raises FormatError."""
    warnings: list[str] = []
    known = {*CHIP_KEYS, "core_config", "partition"}
    is_flat = "core_config" not in data
    if is_flat:
        known |= set(CORE_KEYS)
    _warn_unknown(data, known, "", warnings)
    chip = {name: _value(data, name, key, "", source, warnings) for name, key in CHIP_KEYS.items()}
    num_cores = int(chip["num_cores"])
    if is_flat:
        cores = (_core(data, "", source, warnings),) * num_cores
    else:
        cores = _cores(data["core_config"], num_cores, source, warnings)
    partition = _partition(data.get("partition", {}), num_cores, source)
    return OnnximConfig(cores=cores, partition=partition, **chip), tuple(warnings)


def check_value(name: str, key: Key, value: Any) -> tuple[int | str | None, str]:
    """Return (value, "") of a valid key, else (None, what was expected)."""
    if key.is_text:
        return (value, "") if isinstance(value, str) else (None, "a text")
    if key.words:
        word = _OLD_WORDS.get(value, value) if isinstance(value, str) else value
        return (word, "") if word in key.words else (None, "one of " + ", ".join(key.words))
    expected = f"an integer from {key.low} to {key.high}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not key.low <= value <= key.high:
        return None, expected
    if name in ("dram_req_size", "precision") and value & (value - 1):
        return None, f"a power of two from {key.low} to {key.high}"
    if name == "dram_channels" and value > 16 and value not in (32, 64):
        return None, "1 to 16, 32 or 64 (the channel hash knows no other)"
    return value, ""


def _value(
    data: Mapping[str, Any], name: str, key: Key, prefix: str, source: str | Path, warnings: list[str]
) -> Any:
    if name not in data:
        if key.default is None:
            raise FormatError(source, field=f"key {prefix}{name}", expected="it to be there", found="nothing")
        if key.is_assumed:
            told = "an eighth of spad_size" if name == "accum_spad_size" else key.default
            warnings.append(f"{prefix}{name} is absent: assumed {told}")
        return key.default
    value, expected = check_value(name, key, data[name])
    if value is None:
        raise wrong_json(source, f"key {prefix}{name}", expected, data[name])
    return value


def _core(data: Mapping[str, Any], prefix: str, source: str | Path, warnings: list[str]) -> CoreConfig:
    values = {name: _value(data, name, key, prefix, source, warnings) for name, key in CORE_KEYS.items()}
    if values["accum_spad_size"] == 0:
        values["accum_spad_size"] = max(1, values["spad_size"] // 8)
    return CoreConfig(**values)


def _cores(block: Any, num_cores: int, source: str | Path, warnings: list[str]) -> tuple[CoreConfig, ...]:
    if not isinstance(block, dict):
        raise wrong_json(source, "key core_config", "an object", block)
    cores: list[CoreConfig] = []
    for index in range(num_cores):
        name = f"core_{index}"
        core = block.get(name)
        if not isinstance(core, dict):
            found = "nothing" if core is None else describe_json(core)
            hint = f"num_cores is {num_cores}, so core_0 to core_{num_cores - 1} must be there"
            where = f"key core_config.{name}"
            raise FormatError(source, field=where, expected="an object", found=found, hint=hint)
        _warn_unknown(core, set(CORE_KEYS), f"core_config.{name}.", warnings)
        cores.append(_core(core, f"core_config.{name}.", source, warnings))
    _warn_unknown(block, {f"core_{index}" for index in range(num_cores)}, "core_config.", warnings)
    return tuple(cores)


def _partition(block: Any, num_cores: int, source: str | Path) -> dict[int, int]:
    if not isinstance(block, dict):
        raise wrong_json(source, "key partition", "an object", block)
    found: dict[int, int] = {}
    for index in range(num_cores):
        value = block.get(f"core_{index}")
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_CORES:
            where = f"key partition.core_{index}"
            raise wrong_json(source, where, "a partition id", value)
        found[index] = value
    return found


def _warn_unknown(data: Mapping[str, Any], known: set[str], prefix: str, warnings: list[str]) -> None:
    for name in data:
        if name not in known and len(warnings) < 100:
            close = get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            warnings.append(f"unknown key {prefix}{name[:60]!s} is ignored{hint}")
