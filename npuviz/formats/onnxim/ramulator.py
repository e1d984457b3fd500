"""Read DRAM descriptions in the YAML form of Ramulator 2.

Only the description of the memory is read: device, organization, timing, refresh and address mapping.
npuviz.sim.dram.device interprets the names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from npuviz.base.errors import FormatError
from npuviz.formats.binary import read_text

LIMIT_BYTES = 1 << 16
"""Largest size of a file: a description fits on a page."""
MAX_DEPTH = 32

_SIZES = {
    "channel": "channels",
    "rank": "ranks",
    "pseudochannel": "ranks",
    "bankgroup": "groups",
    "bank": "banks",
    "row": "rows",
    "column": "columns",
    "channel_width": "width",
    "dq": "chip_bits",
    "density": "density",
}
_RENAMED = {
    "BL16": "BL",
    "RCDRD": "RCD",
    "RTPL": "RTP",
    "RPpb": "RP",
    "CCD": "CCDS",
    "RRD": "RRDS",
    "WTR": "WTRS",
    "RFCab": "RFC",
}
_TIMINGS = {
    *("BL", "CL", "CWL", "RCD", "RCDWR", "RP", "RPab", "RAS", "RC", "WR", "RTP", "RTPS", "CCDS", "CCDL"),
    *("RRDS", "RRDL", "WTRS", "WTRL", "FAW", "RFC", "REFI", "CS"),
    *_RENAMED,
}
# Timings that the model does not use; they are known, so that they are not reported as misspelt.
_UNUSED = {"RTW", "RFCSB", "REFISB", "RREFD", "PPD", "RFCpb", "PBR2PBR", "PBR2ACT", "CK_ps"}
_NO_REFRESH = ("", "None", "NoRefresh", "No")


@dataclass(frozen=True, slots=True)
class RamulatorConfig:
    """A memory as the file describes it, names not interpreted.

    organization  those of ranks, groups, banks, rows, columns, width, chip_bits, density that the file has
    timing        nXXX in cycles, tXXX in nanoseconds, and `rate` in MT/s
    mapping       name of the address mapping
    is_refreshed  whether the file names a refresh manager
    """

    standard: str
    organization_preset: str = ""
    organization: Mapping[str, int] = field(default_factory=dict[str, int])
    timing_preset: str = ""
    timing: Mapping[str, float] = field(default_factory=dict[str, float])
    mapping: str = "RoBaRaCoCh"
    is_refreshed: bool = False


def read_ramulator(path: Path) -> tuple[RamulatorConfig, tuple[str, ...]]:
    """Read a description; return (config, warnings). Raises FormatError."""
    text = read_text(path, LIMIT_BYTES)
    _refuse_structure(text, path)
    try:
        data = yaml.load(text, Loader=_UniqueLoader)
    except yaml.YAMLError as error:
        raise _yaml_error(path, error) from None
    except (ValueError, OverflowError, RecursionError, TypeError) as error:
        raise FormatError(path, expected="YAML", found=str(error)[:80]) from None
    if not isinstance(data, dict):
        raise FormatError(path, expected="a mapping with MemorySystem", found=_describe(data))
    return _parse(data, path)


class _UniqueLoader(yaml.SafeLoader):
    """YAML's safe loader, refusing a key that appears twice in a mapping."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Construct the mapping of a node. Raises yaml.MarkedYAMLError for a repeated key."""
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.MarkedYAMLError(problem=f"key {name[:40]!r} twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _refuse_structure(text: str, path: Path) -> None:
    """Refuse aliases, which can expand to huge data, and deep nesting."""
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                place = f"line {event.start_mark.line + 1}"
                raise FormatError(path, field=place, expected="no aliases", found=f"*{event.anchor}"[:40])
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                raise FormatError(path, expected="YAML of sensible depth", found=f"over {MAX_DEPTH} levels")
    except yaml.YAMLError as error:
        raise _yaml_error(path, error) from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise FormatError(path, expected="YAML", found=str(error)[:80]) from None


def _yaml_error(path: Path, error: yaml.YAMLError) -> FormatError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    return FormatError(path, field=place, expected="YAML", found=str(problem)[:80])


def _describe(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value)[:40]


def _block(data: Mapping[Any, Any], name: str, where: str, path: Path, *, needed: bool) -> dict[str, Any]:
    value = data.get(name)
    if value is None and not needed:
        return {}
    if not isinstance(value, dict):
        raise FormatError(path, field=f"{where}{name}", expected="a mapping", found=_describe(value))
    return {str(key): item for key, item in value.items()}


def _word(block: Mapping[str, Any], name: str, where: str, path: Path, default: str | None = None) -> str:
    value = block.get(name, default)
    if not isinstance(value, str):
        raise FormatError(path, field=f"{where}.{name}", expected="a name", found=_describe(value))
    return value


def _parse(data: dict[Any, Any], path: Path) -> tuple[RamulatorConfig, tuple[str, ...]]:
    warnings: list[str] = []
    memory = _block(data, "MemorySystem", "", path, needed=True)
    dram = _block(memory, "DRAM", "MemorySystem.", path, needed=True)
    where = "MemorySystem.DRAM"
    standard = _word(dram, "impl", where, path)
    sizes = _block(dram, "org", f"{where}.", path, needed=False)
    timing = _block(dram, "timing", f"{where}.", path, needed=False)
    organization = _organization(sizes, f"{where}.org", path, warnings)
    if organization.pop("channels", 1) != 1:
        warnings.append("org.channel is not 1: the hardware file says how many channels there are")
    controller = _block(memory, "Controller", "MemorySystem.", path, needed=False)
    _check_controller(controller, path, warnings)
    refresh = _block(controller, "RefreshManager", "MemorySystem.Controller.", path, needed=False)
    mapper = _block(memory, "AddrMapper", "MemorySystem.", path, needed=False)
    manager = _word(refresh, "impl", "MemorySystem.Controller.RefreshManager", path, "")
    if manager not in (*_NO_REFRESH, "AllBank"):
        raise FormatError(
            path,
            field="MemorySystem.Controller.RefreshManager.impl",
            expected="AllBank or NoRefresh",
            found=repr(manager[:40]),
        )
    config = RamulatorConfig(
        standard=standard,
        organization_preset=_word(sizes, "preset", f"{where}.org", path, ""),
        organization=organization,
        timing_preset=_word(timing, "preset", f"{where}.timing", path, ""),
        timing=_timing(timing, f"{where}.timing", path, warnings),
        mapping=_word(mapper, "impl", "MemorySystem.AddrMapper", path, "RoBaRaCoCh"),
        is_refreshed=manager == "AllBank",
    )
    return config, tuple(warnings)


def _check_controller(controller: Mapping[str, Any], path: Path, warnings: list[str]) -> None:
    scheduler = _block(controller, "Scheduler", "MemorySystem.Controller.", path, needed=False)
    name = _word(scheduler, "impl", "MemorySystem.Controller.Scheduler", path, "FRFCFS")
    if name != "FRFCFS":
        raise FormatError(
            path, field="MemorySystem.Controller.Scheduler.impl", expected="FRFCFS", found=repr(name[:40])
        )
    if controller.get("plugins"):
        warnings.append("plugins of the DRAM controller are ignored")


def _number(name: str, value: Any, where: str, path: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e12:
        raise FormatError(path, field=f"{where}.{name}"[:80], expected="a number", found=_describe(value))
    return value


def _organization(block: Mapping[str, Any], where: str, path: Path, warnings: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in block.items():
        if name == "preset":
            continue
        if name not in _SIZES:
            warnings.append(f"unknown key org.{name[:40]} is ignored")
            continue
        number = _number(name, value, where, path)
        if number != int(number) or number < 1:
            raise FormatError(path, field=f"{where}.{name}", expected="a whole number", found=str(value)[:40])
        found[_SIZES[name]] = int(number)
    return found


def _timing(block: Mapping[str, Any], where: str, path: Path, warnings: list[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in block.items():
        if name == "preset":
            continue
        rest = name[1:]
        if name == "rate":
            found["rate"] = _number(name, value, where, path)
        elif name[:1] not in ("n", "t") or rest not in _TIMINGS:
            known = name[:1] in ("n", "t") and rest in _UNUSED
            text = "has no effect here" if known else "is unknown and ignored"
            warnings.append(f"timing.{name[:40]} {text}")
        else:
            found[name[0] + _RENAMED.get(rest, rest)] = _number(name, value, where, path)
    return found
