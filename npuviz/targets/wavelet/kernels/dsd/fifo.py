"""Handle FIFOs in PE memory: actions when one is empty or full, and tasks that pops and pushes activate.

Ref: wavelet-fabric.md section 7.4 (DSD).
"""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.targets.wavelet.kernels.causes import last_thread
from npuviz.targets.wavelet.kernels.dsd.operand import settings_of, write_memory
from npuviz.targets.wavelet.kernels.faults import FAULT_FIFO
from npuviz.targets.wavelet.kernels.processor.task import activate
from npuviz.targets.wavelet.kernels.records import (
    FIFO,
    KIND_LINE,
    WAIT_FIFO_EMPTY,
    WAIT_FIFO_FULL,
)
from npuviz.targets.wavelet.kernels.time.events import fault

FIFO_GOES_ON = 1
FIFO_WAITS = 0
FIFO_ENDS = -1

ACTION_TEST = 0
ACTION_TERMINATE = 1
ACTION_SUSPEND = 2
ACTION_FAULT = 3


@inlined
def elements_free(machine, pe, operand):
    """Return how many elements a FIFO can still take."""
    return (
        settings_of(machine.program, pe, operand).size - FIFO(machine.wafer, operand.record).fill
    ) // operand.bytes


@inlined
def elements_held(wafer, operand):
    """Return how many elements are in a FIFO."""
    return FIFO(wafer, operand.record).fill // operand.bytes


@kernel
def fifo_ready(machine, pe, thread, operand, place):
    """Return whether a FIFO operand lets its operation take a step: FIFO_GOES_ON, FIFO_WAITS or FIFO_ENDS.

    place  0: the operand is the destination
    """
    wafer = machine.wafer
    fifo = FIFO(wafer, operand.record)
    settings = settings_of(machine.program, pe, operand)
    group = thread.group
    if place == 0:
        if elements_free(machine, pe, operand) > 0:
            return FIFO_GOES_ON
        fifo.was_full = 1
        fifo.need = group * operand.bytes
        action = settings.full_action
        thread.wait = WAIT_FIFO_FULL
    else:
        if elements_held(wafer, operand) > 0:
            return FIFO_GOES_ON
        fifo.was_empty = 1
        fifo.need_pop = group * operand.bytes
        action = settings.empty_action
        thread.wait = WAIT_FIFO_EMPTY
    if action == ACTION_FAULT:
        fault(wafer, pe.node, FAULT_FIFO, operand.queue)
        return FIFO_WAITS
    if action == ACTION_SUSPEND or (action == ACTION_TEST and thread.is_async):
        return FIFO_WAITS
    thread.finished = 0 if action == ACTION_TEST else 1
    if place == 0:
        fifo.write_length = thread.left
    else:
        fifo.read_length = thread.left
        destination = thread.operands[0]
        if destination.kind == KIND_LINE and destination.length < 0:
            # A destination that is a scalar keeps its value.
            destination.address = destination.base
            write_memory(machine, pe, destination, thread.value)
    return FIFO_ENDS


@kernel
def note_pop(machine, pe, operand):
    """Activate `activate_pop` if a pop made enough room for the push that found the FIFO full."""
    fifo = FIFO(machine.wafer, operand.record)
    settings = settings_of(machine.program, pe, operand)
    fifo.by = ((machine.wafer.now + 1) << 4) | last_thread(pe)
    if fifo.was_full and settings.size - fifo.fill >= fifo.need:
        fifo.was_full = 0
        if settings.activate_pop >= 0:
            activate(machine, pe, settings.activate_pop, pe.line)


@kernel
def note_push(machine, pe, operand):
    """Activate `activate_push` if a push added enough for the pop that found the FIFO empty."""
    fifo = FIFO(machine.wafer, operand.record)
    settings = settings_of(machine.program, pe, operand)
    fifo.by = ((machine.wafer.now + 1) << 4) | last_thread(pe)
    if fifo.was_empty and fifo.fill >= fifo.need_pop:
        fifo.was_empty = 0
        if settings.activate_push >= 0:
            activate(machine, pe, settings.activate_push, pe.line)
