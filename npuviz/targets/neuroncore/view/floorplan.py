"""Place the boxes of a NeuronCore in the floorplan drawing."""

from npuviz.sim.description import Box
from npuviz.targets.neuroncore.ids import dma_unit, hbm_memory, host_unit, unit_of
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, Engine
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables

_CORE_WIDTH = 46.0
_CORE_HEIGHT = 34.0
_GAP = 3.0
_HBM_HEIGHT = 5.0


def make_floorplan(spec: NeuronSpec, tables: Tables) -> tuple[Box, ...]:
    """Return the boxes: cores side by side, HBM below them, the Host on the right."""
    found: list[Box] = []
    for core in range(tables.num_cores):
        found += _core_boxes(spec, core, core * (_CORE_WIDTH + _GAP))
    width = tables.num_cores * (_CORE_WIDTH + _GAP) - _GAP
    found.append(Box(0, _CORE_HEIGHT + _GAP, width, _HBM_HEIGHT, "HBM", memory=hbm_memory(spec)))
    found.append(Box(width + _GAP, 0, 8, 12, "Host", unit=host_unit(spec), role="host"))
    return tuple(found)


def _core_boxes(spec: NeuronSpec, core: int, x: float) -> list[Box]:
    found = [
        Box(x, 0, _CORE_WIDTH, _CORE_HEIGHT, f"Core[{core}]"),
        Box(x + 1, 3, 12, 22, "SBUF", memory=2 * core),
        Box(x + 33, 3, 12, 9, "PSUM", memory=2 * core + 1),
        Box(x + 15, 3, 16, 9, ENGINE_NAMES[Engine.PE], unit=unit_of(core, Engine.PE), role="compute"),
    ]
    rows = ((Engine.ACTIVATION, 15, 13.5), (Engine.DVE, 23.5, 13.5), (Engine.POOL, 15, 19.5))
    for engine, left, y in rows:
        label = ENGINE_NAMES[engine]
        found.append(Box(x + left, y, 7.5, 5, label, unit=unit_of(core, engine), role="compute"))
    sync = unit_of(core, Engine.SP)
    found.append(Box(x + 23.5, 19.5, 7.5, 5, ENGINE_NAMES[Engine.SP], unit=sync, role="control"))
    step = (_CORE_WIDTH - 2) / spec.num_dma_engines
    for engine in range(spec.num_dma_engines):
        unit = dma_unit(spec, core, engine)
        left = x + 1 + engine * step
        found.append(Box(left, 27, step * 0.85, 5.5, f"DMA {engine}", unit=unit, role="move-in"))
    return found
