"""Reads a DRAM device from a file in Ramulator's form."""

from dataclasses import replace
from pathlib import Path

from npuviz.base.errors import FormatError, TargetError
from npuviz.formats.onnxim.ramulator import RamulatorConfig, read_ramulator
from npuviz.sim.dram.device import DramDevice, make_device
from npuviz.sim.dram.presets import ORGANIZATIONS, Organization

_NEEDED = ("groups", "banks", "rows", "columns")
_ACCESS_WORDS = {"HBM2": 4, "HBM2E": 4, "DDR4": 8, "LPDDR4X": 16, "LPDDR5": 16}


def read_device(path: Path, *, is_exact: bool) -> tuple[DramDevice, bool, tuple[str, ...]]:
    """Read (device, whether it is refreshed, warnings) from a file.

    `is_exact` keeps a preset's own numbers even where they break a rule. Raises FormatError with the
    file's name, also for devices that cannot exist.
    """
    config, warnings = read_ramulator(path)
    try:
        device = make_device(
            config.standard,
            _organization(config),
            config.timing_preset,
            config.timing,
            config.mapping,
            is_exact=is_exact,
        )
    except TargetError as error:
        raise FormatError(path, found=str(error)) from None
    return device, config.is_refreshed, warnings


def _organization(config: RamulatorConfig) -> str | Organization:
    """Return the preset, or the preset with the file's sizes, or sizes alone."""
    if not config.organization:
        if not config.organization_preset:
            raise TargetError("no org.preset and no sizes; give one of them")
        return config.organization_preset
    sizes = dict(config.organization)
    preset = ORGANIZATIONS.get(config.organization_preset)
    if preset is not None and preset[0] == config.standard:
        return replace(preset[1], **sizes)
    if config.organization_preset:
        return config.organization_preset  # unknown: make_device names the known ones
    missing = [name for name in _NEEDED if name not in sizes]
    if missing:
        raise TargetError(f"org has no preset and gives no {', '.join(missing)}")
    sizes.setdefault("ranks", 1)
    sizes.setdefault("width", 64)
    sizes.setdefault("prefetch", _ACCESS_WORDS.get(config.standard, 8))
    if "density" not in sizes:
        bits = sizes.get("chip_bits", sizes["width"])
        rows = sizes["rows"] * sizes["columns"]
        sizes["density"] = sizes["groups"] * sizes["banks"] * rows * bits >> 20
    return Organization(**sizes)
