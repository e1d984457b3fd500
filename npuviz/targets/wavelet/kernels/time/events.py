"""Wake actors, make the blocks of nodes, and note faults and log rows; all other kernels of the machine use
this.

A node has two actors: its router and its processor. A bit in the slot of a cycle wakes an actor; it may find
nothing to do. What one node does to another takes effect a cycle later at the earliest, so that the order of
the actors of a cycle decides nothing but how often one wakes in vain. Threads may run parts side by side
(bands.py): words that they share are only read, are set to the same value by all, or belong to a band.
"""

from typing import Any, NamedTuple

from npuviz.sim.parts.atomic_kernels import add_word
from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels.log_numbers import LOG_PRINT, LOG_TRACE
from npuviz.targets.wavelet.kernels.program_records import LAYOUT, NODE, NUM_COLORS
from npuviz.targets.wavelet.kernels.records import (
    ASIDE_ROW,
    BAND,
    BLOCK,
    COMMAND_STATE,
    LOG_CHUNK_ROWS,
    LOG_ROW,
    MOST_HAZARDS,
    NONE,
    ONE,
    SEEN_WORDS,
    STAGE,
    STATUS_FAULT,
    STATUS_RUNNING,
)
from npuviz.targets.wavelet.kernels.time.seats import take_seat
from npuviz.targets.wavelet.kernels.time.wheel import schedule


@inlined
def wake_router(wafer, pe, t):
    """Let the router of a block look for work at cycle `t`."""
    schedule(wafer, 2 * pe.seat, t)


@kernel
def open_router(wafer, pe, t):
    """Let the router of a block look at all its channels at cycle `t`: a setting may have changed."""
    pe.shut = 0
    for i in range(NUM_COLORS):
        pe.due[i] = 0
    wake_router(wafer, pe, t)


@inlined
def wake_processor(wafer, pe, t):
    """Let the processor of a block look for work at cycle `t`."""
    schedule(wafer, 2 * pe.seat + 1, t)


@inlined
def step_from(pe, number, t):
    """Let the next step of a thread be at cycle `t` at the earliest."""
    pe.next[number] = t
    pe.timed |= 1 << number


@inlined
def band_number(wafer, pe):
    """Return the number of the band of a block; new seats behind the last band are counted with it."""
    number = pe.seat >> wafer.band_shift
    last = wafer.bands_count - 1
    return number if number < last else last


@inlined
def band_of(wafer, pe):
    """Return the BAND of a block."""
    return BAND(wafer, wafer.bands, band_number(wafer, pe))


@kernel
def fault(wafer, node, code, value):
    """Stop the machine after this cycle because of something that a node did."""
    fault_of(wafer, band_of(wafer, BLOCK(wafer, wafer[wafer.nodes + node])), node, code, value)


@kernel
def fault_of(wafer, band, node, code, value):
    """Note a fault at a node, caused by a node of a band; the first fault of a band in a cycle counts."""
    if band.fault:
        return
    wafer.faults = 1
    band.fault = code
    band.fault_node = node
    band.fault_value = value
    b = wafer[wafer.nodes + node]
    band.fault_instruction = BLOCK(wafer, b).line if b > 0 else -1


@inlined
def has_fault(wafer, pe):
    """Return whether the band of a block met a fault in this cycle."""
    return band_of(wafer, pe).fault != 0


@inlined
def look_for_fault(wafer):
    """Stop the run with the first fault of this cycle, if there was one."""
    if wafer.faults == 0:
        return
    for i in range(wafer.bands_count):
        band = BAND(wafer, wafer.bands, i)
        if band.fault and wafer.status == STATUS_RUNNING:
            wafer.status = STATUS_FAULT
            wafer.fault = band.fault
            wafer.fault_node = band.fault_node
            wafer.fault_instruction = band.fault_instruction
            wafer.fault_value = band.fault_value


@kernel
def end_part(wafer, command, t):
    """Note that a PE has done its part of a host command; the last PE lets the host look in the next
    cycle."""
    left = wafer.commands + command * COMMAND_STATE.num_words + COMMAND_STATE.left
    if add_word(wafer, left, NONE) == 1 and wafer.host_at > t + 1:
        wafer.host_at = t + 1


@kernel
def _make_block(wafer, program, node):
    b = wafer.used
    pe = BLOCK(wafer, b)
    place = NODE(program, program.nodes, node)
    layout = LAYOUT(program, place.layout)
    size = layout.size
    for i in range(size):
        pe[i] = program[layout.template + i]
    pe.node = node
    pe.layout = place.layout
    pe.memory = b + layout.memory
    pe.history = wafer.now
    take_seat(wafer, program, pe, node)
    wafer.used = b + size
    wafer.demand -= size
    wafer[wafer.nodes + node] = b
    return b


@inlined
def block_of(wafer, program, node):
    """Return the word of a node's block, which is made on first use."""
    b = wafer[wafer.nodes + node]
    if b == 0:
        b = _make_block(wafer, program, node)
    return b


@kernel
def log(wafer, node, kind, value, instruction):
    """Append a row to the log: a printed character, a traced word, a hazard."""
    if wafer.aside:
        _keep_aside(wafer, node, kind, value, instruction)
        return
    rows = wafer.log_count
    place = rows % LOG_CHUNK_ROWS
    if place == 0:
        chunk = wafer.used
        wafer.used = chunk + 1 + LOG_CHUNK_ROWS * LOG_ROW.num_words
        wafer[chunk] = 0
        if rows == 0:
            wafer.log_first = chunk
        else:
            wafer[wafer.log_last] = chunk
        wafer.log_last = chunk
    row = LOG_ROW(wafer, wafer.log_last + 1, place)
    row.cycle = wafer.now
    row.node = node
    row.kind = kind
    row.value = value
    row.instruction = instruction
    wafer.log_count = rows + 1


@kernel
def hazard(wafer, node, kind, value, instruction):
    """Log a hazard: a rule that the hardware leaves to the programmer was broken. Recent ones are not logged
    again."""
    if wafer.aside:
        _keep_aside(wafer, node, kind, value, instruction)
        return
    key = (((node << 20) ^ instruction) << 5 | kind) ^ (value << 40)
    place = wafer.seen + ((key ^ (key >> 17) ^ (key >> 34)) & (SEEN_WORDS - 1))
    if wafer[place] == key + 1 or wafer.hazards >= MOST_HAZARDS:
        return
    wafer[place] = key + 1
    wafer.hazards += 1
    log(wafer, node, kind, value, instruction)


@kernel
def _keep_aside(wafer, node, kind, value, instruction):
    """Keep a row for the log until the cycle is over, because threads call this in any order."""
    row = ASIDE_ROW(wafer, wafer.aside + 1, add_word(wafer, wafer.aside, ONE))
    row.node = node
    row.kind = kind
    row.value = value
    row.instruction = instruction


@kernel
def log_aside(wafer, aside):
    """Log the rows kept aside, band by band, as one thread would have done. Rows of one band are in order."""
    rows = wafer[aside]
    for number in range(wafer.bands_count):
        for i in range(rows):
            row = ASIDE_ROW(wafer, aside + 1, i)
            if band_number(wafer, BLOCK(wafer, wafer[wafer.nodes + row.node])) != number:
                continue
            if row.kind == LOG_PRINT or row.kind == LOG_TRACE:
                log(wafer, row.node, row.kind, row.value, row.instruction)
            else:
                hazard(wafer, row.node, row.kind, row.value, row.instruction)
    for i in range(1 + rows * ASIDE_ROW.num_words):
        wafer[aside + i] = 0


class Stage(NamedTuple):
    """An event in the life of a word at a node."""

    kind: Any
    """A TRAIL_ number."""
    port: Any
    color: Any
    waited: Any
    """Cycles that the word waited."""


@kernel
def leave_trail(wafer, pe, identity, stage, extra):
    """Remember a stage of a word's way at the node of a block.

    extra  the instruction that sent the word (-1 unknown), for other stages its payload with the control mark
    """
    kind, port, color, waited = stage
    band = band_of(wafer, pe)
    rows = band.trail_count
    row = STAGE(wafer, band.trail, rows & (wafer.trail_rows - 1))
    row.identity = identity
    row.cycle = wafer.now
    row.place = pe.node | (port << 24) | (kind << 28) | ((waited & 0xFF_FFFF) << 32) | (color << 56)
    row.extra = extra
    band.trail_count = rows + 1
