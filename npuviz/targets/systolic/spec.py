"""The spec of one systolic machine: a hardware description, a mode, and stated assumptions."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from npuviz.base.errors import TargetError, UsageError
from npuviz.base.names import is_number
from npuviz.formats.onnxim.hardware import (
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
from npuviz.sim.dram.device import QUEUE_DEPTH, DramDevice, preset_device, watermarks
from npuviz.sim.dram.presets import DEVICES
from npuviz.sim.latencies import MOST_SEED
from npuviz.sim.network.flit_network import FlitConfig
from npuviz.sim.settings import SettingNames
from npuviz.targets.systolic.hardware.dram import read_device
from npuviz.targets.systolic.hardware.named_files import named_file
from npuviz.targets.systolic.hardware.network import NETWORKS, read_network
from npuviz.targets.systolic.presets import PRESETS

MAX_ARRAY_ROWS = 1 << 18
"""Largest sum of array heights over all cores: bounds the pipelines the machine keeps."""
MAX_PORTS = 1 << 16
"""Largest number of network ports over all cores."""

Mode = Literal["true", "parity"]

Refresh = Literal["auto", "on", "off"]

SPEC_KEYS: Mapping[str, Key] = {
    "mode": Key(words=("true", "parity"), default="true"),
    "element_type": Key(words=("model", "float32", "float16", "bfloat16", "int8"), default="model"),
    # Assumed: a driver call, and a processor that streams 16 bytes per core cycle.
    "host_cycles": Key(1, 1 << 40, default=1000),
    "host_bytes_per_cycle": Key(1, 1 << 20, default=16),
    # Assumed: one core, two 256-bit multiply-adds (32 operations) a cycle at 2.9 times the cores' clock.
    "host_operations_per_cycle": Key(1, 1 << 20, default=93),
    "host_processor": Key(default="x86-64 with AVX2 at 2.9 GHz", is_text=True),
    "tilings": Key(default="", is_text=True),
    "keep_fp32": Key(default="", is_text=True),
    # 62 banks: a map of them is one word.
    "spad_banks": Key(0, 62, default=0),
    "spad_ports": Key(1, 8, default=1),
    "dram_device": Key(words=("file", *DEVICES), default="file"),
    "dram_refresh": Key(words=("auto", "on", "off"), default="auto"),
    "dram_queue_depth": Key(4, 1 << 14, default=QUEUE_DEPTH),
    "network": Key(words=("file", *NETWORKS), default="file"),
    "latency_seed": Key(0, MOST_SEED, default=0),
}
"""Keys of the spec that the hardware description does not hold."""

_ALIASES = {"cores": "num_cores"}


@dataclass(frozen=True, slots=True)
class SystolicSpec:
    """One machine.

    config        the hardware description; its keys keep their names and units
    mode          "true", or "parity" for ONNXim's cycle counts with its flaws
    element_type  true mode: the type elements have in SRAM and DRAM; "model" keeps each tensor's own
    host_*        assumed cost of Host operators on the processor of that name: cycles of every operator that
                  is called (in a Loop, each turn), bytes and arithmetic operations per core cycle
    spad_banks, spad_ports  true mode: banks of a scratchpad (0: accesses never meet), accesses of a bank
                  per cycle
    keep_fp32     true mode: names of operators that the Host computes in fp32, separated by commas
    dram_queue_depth  requests that each of the two buffers of a channel of command-level DRAM holds
    tilings       true mode: a file that `npuviz map` wrote, "" for the tilings of the estimate
    latency_seed  0: the figures of the description; else vector units, memory and Host take other times
    """

    config: OnnximConfig
    mode: Mode = "true"
    element_type: str = "model"
    host_cycles: int = 1000
    host_bytes_per_cycle: int = 16
    host_operations_per_cycle: int = 93
    host_processor: str = "x86-64 with AVX2 at 2.9 GHz"
    tilings: str = ""
    keep_fp32: str = ""
    spad_banks: int = 0
    spad_ports: int = 1
    dram_device: str = "file"
    dram_refresh: Refresh = "auto"
    dram_queue_depth: int = QUEUE_DEPTH
    network: str = "file"
    device: DramDevice | None = None
    is_refreshed: bool = False
    flits: FlitConfig | None = None
    latency_seed: int = field(default=0, repr=False)

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
        """Return the scratchpad bytes that a tile owns."""
        return self.cores[core].spad_bytes // 2

    def acc_half_bytes(self, core: int = 0) -> int:
        """Return the accumulator bytes that a tile owns."""
        return self.cores[core].acc_bytes // 2


def make_spec(
    preset: str = "", config: Path | None = None, settings: Mapping[str, str] | None = None
) -> tuple[SystolicSpec, tuple[Note, ...]]:
    """Make the spec of a preset ("" for the first) or a hardware file, changed by `--set` pairs.

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
    spec, more = with_device(spec, config)
    spec, further = with_network(spec, config)
    return spec, tuple(Note("warning", "config", text) for text in (*warnings, *more, *further))


def with_network(spec: SystolicSpec, config: Path | None) -> tuple[SystolicSpec, tuple[str, ...]]:
    """Return the spec with the rules of its detailed network, and warnings; a simple network has none.

    A named shape (`--set network=mesh`) asks for the detailed network whatever the file says.
    Raises FormatError (its file), TargetError (not modelled, other number of nodes).
    """
    if spec.network != "file" and spec.config.icnt_type == "simple":
        spec = replace(spec, config=replace(spec.config, icnt_type="booksim2"))
    if spec.config.icnt_type == "simple":
        return spec, ()
    flits, warnings = read_network(spec.config, spec.network, config, is_exact=spec.mode == "parity")
    return replace(spec, flits=flits), warnings


def with_device(spec: SystolicSpec, config: Path | None) -> tuple[SystolicSpec, tuple[str, ...]]:
    """Return the spec with its DRAM's device, and notes on what was assumed or corrected.

    `config` is the hardware file, beside which the DRAM's file is looked for. Raises FormatError (its
    file), TargetError (no device named, impossible timings).
    """
    if spec.config.dram_type == "simple":
        return spec, ()
    is_exact = spec.mode == "parity"
    warnings: tuple[str, ...] = ()
    if spec.dram_device == "file":
        device_option = "--set dram_device=" + "|".join(DEVICES)
        path = named_file(
            "dram_config_path",
            spec.config.dram_config_path,
            config,
            absent=f"DRAM of type ramulator2 without a dram_config_path; name a device with {device_option}",
            hint=f"or {device_option}",
        )
        device, is_refreshed, warnings = read_device(path, is_exact=is_exact)
    else:
        device, is_refreshed = preset_device(spec.dram_device, is_exact=is_exact), True
    if is_exact:
        # Ref: systolic.md F20: the refresh unit counts ranks, and HBM has no level of that name.
        is_refreshed = is_refreshed and not device.standard.startswith("HBM")
    if spec.dram_refresh != "auto":
        is_refreshed = spec.dram_refresh == "on"
    depth = spec.dram_queue_depth
    device = replace(device, queue_depth=depth, watermarks=watermarks(depth))
    notes = [*warnings, *device.notes]
    if not is_exact:
        notes += _mismatches(spec, device)
    return replace(spec, device=device, is_refreshed=is_refreshed), tuple(notes)


def _mismatches(spec: SystolicSpec, device: DramDevice) -> list[str]:
    """Describe mismatches between the hardware file and the device (F20)."""
    found: list[str] = []
    ratio = spec.dram_period_ps / device.period_ps
    if not 0.95 < ratio < 1.05:
        found.append(
            f"the {device.standard} timings are cycles of {1e6 / device.period_ps:.0f} MHz, "
            f"but dram_freq is {spec.config.dram_freq} MHz: all DRAM times are {ratio:.2f} times as long"
        )
    if device.access_bytes != spec.req_size:
        found.append(
            f"a request has {spec.req_size} bytes, a burst of this {device.standard} {device.access_bytes}: "
            "every request takes a whole burst"
        )
    return found


def _core_setting(name: str) -> tuple[int, str] | None:
    """Parse `core_3.core_width` to (core index, key); None for other names."""
    prefix, _, key = name.removeprefix("core_config.").partition(".")
    digits = prefix.removeprefix("core_")
    is_core = prefix.startswith("core_") and is_number(digits, 5)
    return (int(digits), key) if is_core and key in CORE_KEYS else None


SETTING_NAMES = SettingNames(
    (*SPEC_KEYS, *CHIP_KEYS, *CORE_KEYS, *_ALIASES),
    shown=(*SPEC_KEYS, "cores"),
    is_pattern=lambda name: _core_setting(name) is not None,
)
"""Names that belong to the spec or the hardware description."""


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
            raise SETTING_NAMES.unknown(given)
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
    """Replace accumulator size 0 by an eighth of the scratchpad, as for a file."""
    return [
        core if core.accum_spad_size else replace(core, accum_spad_size=max(1, core.spad_size // 8))
        for core in cores
    ]


def _cores(config: OnnximConfig, count: int) -> list[CoreConfig]:
    """Return the first `count` cores; further ones are copies of the last."""
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
    if config.dram_type == "ramulator":
        raise TargetError(
            "DRAM of type ramulator (version 1, .cfg) is not modelled; --set dram_type=ramulator2 with "
            "--set dram_device=HBM2 or DDR4 runs the newer form, --set dram_type=simple the simple DRAM"
        )
    if spec.mode == "parity" and spec.spad_banks:
        raise TargetError("ONNXim's scratchpads have no banks; --set spad_banks=0 or --set mode=true runs it")
    kinds = sorted({core.core_type for core in config.cores})
    if len(kinds) > 1:
        raise TargetError(
            f"cores of types {' and '.join(kinds)} on one chip; use one, for example "
            f"--set core_type={kinds[0]}"
        )
    if spec.mode == "parity" and kinds != ["systolic_ws"]:
        raise TargetError(
            f"ONNXim has no {kinds[0]} cores; --set mode=true or --set core_type=systolic_ws runs it"
        )
    rows = sum(core.core_height for core in config.cores)
    if rows > MAX_ARRAY_ROWS:
        raise TargetError(
            f"{config.num_cores} cores with {rows} array rows in all: at most {MAX_ARRAY_ROWS}; "
            "use fewer cores (--set cores=N) or lower arrays"
        )
    ports = config.num_cores * config.icnt_injection_ports_per_core
    if ports > MAX_PORTS:
        raise TargetError(f"{ports} network ports in all: at most {MAX_PORTS}; use fewer cores or ports")
