"""Lists the settings of a systolic machine, before a file is opened."""

from collections.abc import Mapping
from typing import Any

from npuviz.formats.json_text import read_json_object
from npuviz.formats.onnxim.hardware import CHIP_KEYS, CORE_KEYS, Key
from npuviz.sim.target import ASSUMED, LoadRequest, Setting
from npuviz.targets.systolic.presets import PRESETS
from npuviz.targets.systolic.spec import SETTING_NAMES, SPEC_KEYS, SystolicSpec, make_spec

SOURCES: Mapping[str, str] = {
    "host_cycles": f"{ASSUMED}: a driver call",
    "host_bytes_per_cycle": f"{ASSUMED}: a processor that streams 16 bytes per core cycle",
    "host_operations_per_cycle": f"{ASSUMED}: one core, two 256-bit multiply-adds a cycle at 2.9 GHz",
    "host_processor": f"{ASSUMED}: no machine of this kind names its host",
}
PRESET_SOURCE = "ONNXim, configs/ of commit a1e8629"
"""Ref: npuviz/targets/systolic/presets.py."""
DIFFERING = "differs between cores: core_0."


def list_settings(request: LoadRequest) -> tuple[Setting, ...]:
    """Return every setting with its value and origin; keys of a core are those of all cores.

    Raises as `make_spec`.
    """
    spec, _ = make_spec(request.preset, request.config, SETTING_NAMES.own(request.settings))
    if request.config is not None:
        given, source = read_json_object(request.config), f"in {request.config.name}"
    else:
        given, source = PRESETS[request.preset or next(iter(PRESETS))][1], PRESET_SOURCE
    in_cores = _core_keys(given)
    own = [
        Setting(name, str(getattr(spec, name)), SOURCES.get(name, ""), key.words)
        for name, key in SPEC_KEYS.items()
    ]
    chip = [
        Setting(name, str(getattr(spec.config, name)), source if name in given else _default(key), key.words)
        for name, key in CHIP_KEYS.items()
    ]
    cores = [
        _core_setting(spec, name, source if name in in_cores else _default(key), key.words)
        for name, key in CORE_KEYS.items()
    ]
    return (*own, *chip, *cores)


def _core_keys(given: Mapping[str, Any]) -> set[str]:
    """Return the keys that a description gives for cores: each core's own, or flat ones."""
    cores = given.get("core_config")
    each = cores.values() if isinstance(cores, Mapping) else ()
    return {*given, *(key for core in each if isinstance(core, Mapping) for key in core)}


def _core_setting(spec: SystolicSpec, name: str, source: str, words: tuple[str, ...]) -> Setting:
    values = dict.fromkeys(str(getattr(core, name)) for core in spec.cores)
    if len(values) > 1:
        return Setting(name, "", f"{DIFFERING}{name} and so on", words)
    return Setting(name, next(iter(values)), source, words)


def _default(key: Key) -> str:
    return f"{ASSUMED}: npuviz's default" if key.is_assumed else "ONNXim's default"
