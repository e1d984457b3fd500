"""Describe elements and words of a fabric in a few lines of text."""

import struct
from collections.abc import Mapping
from typing import Any

from npuviz.base.units import format_count, format_share
from npuviz.sim.fabric import (
    FULL,
    INJECT,
    PORT_NAMES,
    RAMP,
    Area,
    FabricShape,
    Glance,
    HasElements,
    HasFabric,
    Level,
    glance_at,
)

MAX_LINES = 6


def state_name(shape: FabricShape, state: int) -> str:
    """Return the name of an element's state."""
    return shape.states[state].name if 0 <= state < len(shape.states) else f"state {state}"


def color_name(shape: FabricShape, color: int) -> str:
    """Return number and name of a color of the fabric; only the number if it has no name."""
    found = next((each for each in shape.colors if each.id == color), None)
    return f"{color} {found.name}".strip() if found is not None else str(color)


def level_text(level: Level) -> str:
    """Describe how full a queue is: its name, its entries and, if known, its capacity."""
    of = f" of {level.capacity}" if level.capacity else ""
    return f"{level.name}: {level.entries}{of}"


def data_texts(data: int) -> tuple[str, ...]:
    """Return 32 bits in the four readings people use: hexadecimal, whole number, float32, two float16."""
    raw = struct.pack("<I", data & 0xFFFFFFFF)
    single = struct.unpack("<f", raw)[0]
    low, high = struct.unpack("<ee", raw)
    return (f"0x{data & 0xFFFFFFFF:08x}", format_count(data), f"{single:.7g}", f"{low:.4g}, {high:.4g}")


def way_text(port: int) -> str:
    """Say in which direction a word goes, from the `port` field of WORD_DTYPE."""
    if port == INJECT:
        return "from the processor into its router"
    if port == RAMP:
        return "to the processor"
    return f"to the {PORT_NAMES[port].lower()}" if 0 <= port < len(PORT_NAMES) else f"port {port}"


def word_text(shape: FabricShape, word: Mapping[str, Any] | Any, cycle: int) -> str:
    """Describe a word, given as a row of WORD_DTYPE, in lines of text."""
    raw, number, single, _halves = data_texts(int(word["data"]))
    kind = f"control {shape.word}" if word["control"] else shape.word
    color = int(word["color"])
    lines = [f"{kind} of color {color_name(shape, color)}" if color >= 0 else kind]
    lines.append(f"{raw} = {number} = {single}")
    source = shape.label(int(word["source_column"]), int(word["source_row"]))
    lines.append(f"sent by {source}")
    here, way = shape.label(int(word["column"]), int(word["row"])), way_text(int(word["port"]))
    if word["waits"]:
        held = cycle - int(word["start"])
        lines.append(f"held back in {here}, wants {way}")
        if held > 0:
            lines.append(f"for {format_count(held)} cycles" if held != 1 else "for 1 cycle")
    else:
        lines.append(f"{here} {way}, there at cycle {format_count(int(word['arrival']))}")
    lines.append("click to follow it")
    return "\n".join(lines[:MAX_LINES])


def element_text(shape: FabricShape, machine: HasFabric | None, column: int, row: int) -> str:
    """Describe an element in lines of text; give only its name while the machine runs (`machine` is None)."""
    lines = [shape.label(column, row)]
    if machine is None:
        return lines[0]
    area = Area(column, row, 1, 1)
    if isinstance(machine, HasElements):
        lines += _glance_lines(shape, glance_at(machine, column, row))
    else:
        lines.append(state_name(shape, int(machine.element_states(area)[0, 0])))
    loads = machine.link_loads(area)[0, 0]
    busy = [
        f"{PORT_NAMES[port].lower()} {format_share(int(loads[port]) / FULL, 0)}"
        for port in range(1, len(PORT_NAMES))
        if loads[port]
    ]
    if busy:
        lines.insert(min(3, len(lines)), f"links: {', '.join(busy)}")
    return "\n".join(lines[:MAX_LINES])


def _glance_lines(shape: FabricShape, glance: Glance) -> list[str]:
    state = state_name(shape, glance.state)
    lines = [f"{state}: {glance.task}" if glance.task else state]
    if glance.detail:
        lines.append(glance.detail)
    return lines + [level_text(level) for level in glance.levels if level.entries]
