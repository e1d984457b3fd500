"""What is fixed about one systolic machine: a hardware description, a mode, and stated assumptions."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from npuviz.base.errors import TargetError, UsageError
from npuviz.formats.onnxim_config import (
    CHIP_KEYS,
    CORE_KEYS,
    CoreConfig,
    Key,
    OnnximConfig,
    check_value,
    parse_config,
    read_config,
)
from npuviz.program.program import Note
from npuviz.targets.systolic.presets import PRESETS

MAX_ARRAY_ROWS = 1 << 18
"""Largest sum of array heights over all cores: bounds the pipelines the machine keeps."""
MAX_PORTS = 1 << 16
"""Largest number of network ports over all cores."""

Mode = Literal["true", "parity"]

SPEC_KEYS: Mapping[str, Key] = {
    "mode": Key(words=("true", "parity"), default="true"),
    "element_type": Key(words=("model", "float32", "float16", "bfloat16", "int8"), default="model"),
    # Assumed: a driver call, and a processor that streams 16 bytes per core cycle.
    "host_cycles": Key(1, 1 << 40, default=1000),
    "host_bytes_per_cycle": Key(1, 1 << 20, default=16),
}
"""Keys of the spec that the hardware description does not hold."""

_ALIASES = {"cores": "num_cores"}


@dataclass(frozen=True, slots=True)
class SystolicSpec:
    """One machine.

    config        the hardware description; its keys keep their names and units
    mode          "true", or "parity" for ONNXim's cycle counts with its flaws
    element_type  true mode: the type elements have in SRAM and DRAM; "model" keeps each tensor's own
    host_cycles, host_bytes_per_cycle  assumed cost of a Host operator: fixed part, and bytes it reads
                  and writes per core cycle
    """

    config: OnnximConfig
    mode: Mode = "true"
    element_type: str = "model"
    host_cycles: int = 1000
    host_bytes_per_cycle: int = 16

    @property
    def num_cores(self) -> int:
        """NC."""
        return self.config.num_cores

    @property
    def cores(self) -> tuple[CoreConfig, ...]:
        """One item per core."""
        return self.config.cores

    @property
    def precision(self) -> int:
        """Bytes of an element (p)."""
        return self.config.precision

    @property
    def req_size(self) -> int:
        """Bytes of a DRAM request (R)."""
        return self.config.dram_req_size

    @property
    def core_period_ps(self) -> int:
        """Core clock period. Ref: systolic.md section 3, 1000000 // MHz."""
        return 1_000_000 // self.config.core_freq

    @property
    def dram_period_ps(self) -> int:
        """DRAM clock period in picoseconds."""
        return 1_000_000 // self.config.dram_freq

    @property
    def noc_period_ps(self) -> int:
        """Network clock period in picoseconds."""
        return 1_000_000 // self.config.icnt_freq

    def spad_half_bytes(self, core: int = 0) -> int:
        """Scratchpad bytes a tile owns."""
        return self.cores[core].spad_bytes // 2

    def acc_half_bytes(self, core: int = 0) -> int:
        """Accumulator bytes a tile owns."""
        return self.cores[core].acc_bytes // 2


def make_spec(
    preset: str = "", config: Path | None = None, settings: Mapping[str, str] | None = None
) -> tuple[SystolicSpec, tuple[Note, ...]]:
    """The spec of a preset ("" for the first) or a hardware file, changed by `--set` pairs.

    Raises FormatError (file), UsageError (preset or setting), TargetError (not modelled, too large).
    """
    if config is not None:
        hardware, warnings = read_config(config)
    else:
        name = preset or next(iter(PRESETS))
        if name not in PRESETS:
            raise UsageError(f"unknown preset {name!r}; there are {', '.join(PRESETS)}")
        hardware, warnings = parse_config(PRESETS[name][1], f"preset {name}")
    spec = _apply(SystolicSpec(hardware), settings or {})
    _refuse(spec)
    return spec, tuple(Note("warning", "config", text) for text in warnings)


def is_setting(name: str) -> bool:
    """Whether a `--set` name belongs to the spec or the hardware description."""
    name = _ALIASES.get(name, name)
    return name in SPEC_KEYS or name in CHIP_KEYS or name in CORE_KEYS or _core_setting(name) is not None


def similar_settings(name: str) -> list[str]:
    """Settings whose names are close to a name that is none."""
    return get_close_matches(name, [*SPEC_KEYS, *CHIP_KEYS, *CORE_KEYS, *_ALIASES], n=3)


def unknown_setting(name: str, others: tuple[str, ...] = ()) -> UsageError:
    """The error for an unknown `--set` name; `others` are further names that would have been right."""
    known = [*SPEC_KEYS, *CHIP_KEYS, *CORE_KEYS, *_ALIASES, *others]
    close = get_close_matches(name, known, n=3)
    hint = (
        f"close: {', '.join(close)}"
        if close
        else f"keys are {', '.join([*SPEC_KEYS, *others, 'cores'])}, ..."
    )
    return UsageError(f"--set {name[:60]}: unknown key; {hint}")


def _core_setting(name: str) -> tuple[int, str] | None:
    """(core index, key) of `core_3.core_width`, else None."""
    prefix, _, key = name.removeprefix("core_config.").partition(".")
    digits = prefix.removeprefix("core_")
    is_core = prefix.startswith("core_") and digits.isascii() and digits.isdigit() and len(digits) < 6
    return (int(digits), key) if is_core and key in CORE_KEYS else None


def _apply(spec: SystolicSpec, settings: Mapping[str, str]) -> SystolicSpec:
    own: dict[str, Any] = {}
    chip: dict[str, Any] = {}
    every: dict[str, Any] = {}
    single: list[tuple[int, str, Any]] = []
    for given, text in settings.items():
        name = _ALIASES.get(given, given)
        at = _core_setting(name)
        if name in SPEC_KEYS:
            own[name] = _parse(given, name, SPEC_KEYS[name], text)
        elif name in CHIP_KEYS:
            chip[name] = _parse(given, name, CHIP_KEYS[name], text)
        elif name in CORE_KEYS:
            every[name] = _parse(given, name, CORE_KEYS[name], text)
        elif at is not None:
            single.append((*at, _parse(given, at[1], CORE_KEYS[at[1]], text)))
        else:
            raise unknown_setting(given)
    cores = _cores(spec.config, chip.get("num_cores", spec.num_cores))
    cores = [replace(core, **every) for core in cores] if every else cores
    for index, name, value in single:
        if index >= len(cores):
            raise UsageError(f"--set core_{index}.{name}: there are {len(cores)} cores, from core_0 on")
        cores[index] = replace(cores[index], **{name: value})
    partition = {core: part for core, part in spec.config.partition.items() if core < len(cores)}
    config = replace(spec.config, cores=tuple(_with_accumulator(cores)), partition=partition, **chip)
    return replace(spec, config=config, **own)


def _with_accumulator(cores: list[CoreConfig]) -> list[CoreConfig]:
    """0 stands for an eighth of the scratchpad here as in a file."""
    return [
        core if core.accum_spad_size else replace(core, accum_spad_size=max(1, core.spad_size // 8))
        for core in cores
    ]


def _cores(config: OnnximConfig, count: int) -> list[CoreConfig]:
    """The first `count` cores; further ones are copies of the last."""
    cores = list(config.cores[:count])
    return cores + [cores[-1]] * (count - len(cores))


def _parse(given: str, name: str, key: Key, text: str) -> int | str:
    value: int | str = text.strip()
    if not key.words and not key.is_text:
        try:
            value = int(value)
        except ValueError:
            value = text
    checked, expected = check_value(name, key, value)
    if checked is None:
        raise UsageError(f"--set {given}={text[:60]}: expected {expected}")
    return checked


def _refuse(spec: SystolicSpec) -> None:
    config = spec.config
    if config.dram_type != "simple":
        raise TargetError(
            f"DRAM of type {config.dram_type} is not modelled yet; --set dram_type=simple runs it"
        )
    if config.icnt_type != "simple":
        raise TargetError(f"network {config.icnt_type} is not modelled yet; --set icnt_type=simple runs it")
    if config.scheduler != "simple":
        raise TargetError(f"scheduler {config.scheduler} is not modelled yet; --set scheduler=simple runs it")
    if any(core.core_type != "systolic_ws" for core in config.cores):
        raise TargetError("output-stationary cores are not modelled; --set core_type=systolic_ws runs it")
    rows = sum(core.core_height for core in config.cores)
    if rows > MAX_ARRAY_ROWS:
        raise TargetError(
            f"{config.num_cores} cores with {rows} array rows in all: at most {MAX_ARRAY_ROWS}; "
            "use fewer cores (--set cores=N) or lower arrays"
        )
    ports = config.num_cores * config.icnt_injection_ports_per_core
    if ports > MAX_PORTS:
        raise TargetError(f"{ports} network ports in all: at most {MAX_PORTS}; use fewer cores or ports")
