"""Places the boxes of a systolic chip in the floorplan drawing, for any number of cores."""

import math

from npuviz.sim.description import Box
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.spec import SystolicSpec

_CORE_WIDTH = 28.0
_CORE_HEIGHT = 20.0
_GAP = 3.0
_NOC_HEIGHT = 3.0
_DRAM_HEIGHT = 5.0


def make_floorplan(spec: SystolicSpec) -> tuple[Box, ...]:
    """Arrange cores in a grid, the network below them, DRAM channels at the bottom, the Host at the side."""
    columns = max(1, math.ceil(math.sqrt(spec.num_cores)))
    rows = math.ceil(spec.num_cores / columns)
    width = columns * (_CORE_WIDTH + _GAP) - _GAP
    found: list[Box] = []
    for core in range(spec.num_cores):
        x = core % columns * (_CORE_WIDTH + _GAP)
        y = core // columns * (_CORE_HEIGHT + _GAP)
        found += _core_boxes(core, x, y)
    host = spec.num_cores * 4
    y = rows * (_CORE_HEIGHT + _GAP)
    found.append(Box(0, y, width, _NOC_HEIGHT, "NoC", unit=host + 1, role="control"))
    y += _NOC_HEIGHT + _GAP
    channels = spec.config.dram_channels
    step = width / channels
    memory = spec.num_cores * sk.MEMORIES_PER_CORE
    for channel in range(channels):
        box = Box(
            channel * step,
            y,
            step * 0.9,
            _DRAM_HEIGHT,
            f"DRAM {channel}",
            unit=host + 2 + channel,
            memory=memory,
        )
        found.append(box)
    found.append(Box(width + _GAP, 0, 8.0, _CORE_HEIGHT, "Host", unit=host, role="host"))
    return tuple(found)


def _core_boxes(core: int, x: float, y: float) -> list[Box]:
    unit, memory = core * 4, core * sk.MEMORIES_PER_CORE
    return [
        Box(x, y, _CORE_WIDTH, _CORE_HEIGHT, f"Core[{core}]"),
        Box(x + 1, y + 3, 5, 16, "SPAD", memory=memory + sk.MEMORY_SPAD),
        Box(x + 7, y + 3, 4, 7.5, "LD", unit=unit, role="move-in"),
        Box(x + 7, y + 11.5, 4, 7.5, "ST", unit=unit + 3, role="move-out"),
        Box(x + 12, y + 3, 10, 10, "PE array", unit=unit + 1, role="compute"),
        Box(x + 12, y + 14, 10, 5, "VEC", unit=unit + 2, role="compute"),
        Box(x + 23, y + 3, 4, 16, "ACC", memory=memory + sk.MEMORY_ACC),
    ]
