"""Simulate DMA engines: they serve rings of queue sets round robin, element by element, in order in a
ring.
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import kernel
from npuviz.sim.parts.watch_kernels import (
    is_recording,
    is_watched,
    record_cause,
    record_count,
    record_interval,
    watch_queue,
)
from npuviz.targets.neuroncore.kernels.records import (
    ENGINE,
    FAR,
    FIFO_TRANSFERS,
    KIND_DMA_START,
    KIND_TRANSFER,
    MAX_RINGS,
    PART,
    QUANTUM,
    QUEUE,
    RING,
    TRANSFER,
    UP_ADD,
    UP_EVENT_SET,
)
from npuviz.targets.neuroncore.kernels.updates import (
    Change,
    close_allocations,
    instruction_at,
    node_progress,
    note_completion,
    update,
    watch_accesses,
)


@kernel
def has_room(machine, transfer_number):
    """Return whether the queue set of a transfer has room for one more."""
    chip, program = machine.chip, machine.program
    queue = QUEUE(chip, chip.queues, TRANSFER(program, program.transfers, transfer_number).queue)
    return queue.count - queue.done < FIFO_TRANSFERS


@kernel
def _count_pending(machine, queue_number, before, t):
    chip = machine.chip
    queue = QUEUE(chip, chip.queues, queue_number)
    pending = queue.count - queue.done
    if is_recording(machine):
        record_count(machine, machine.program.track_pending + queue_number, t, pending)
    if is_watched(machine):
        watch_queue(machine, queue_number, before, pending, t)


@kernel
def enqueue(machine, index, transfer_number, ends, t):
    """Enqueue the transfer of a trigger that was issued; it is served some time after the trigger completes.

    ends  end of the trigger's issue, and end of the trigger
    """
    chip, program = machine.chip, machine.program
    issued, triggered = ends
    transfer = TRANSFER(program, program.transfers, transfer_number)
    queue_number = transfer.queue
    queue = QUEUE(chip, chip.queues, queue_number)
    entry = queue.fifo[queue.count % FIFO_TRANSFERS]
    ready = triggered + chip.dma_start
    entry.trigger = index
    entry.ready = ready
    entry.left = queue.rings
    entry.start = t
    entry.issued = issued
    queue.count += 1
    pending = queue.count - queue.done
    if pending > queue.peak:
        queue.peak = pending
    _count_pending(machine, queue_number, pending - 1, t)
    if is_watched(machine):
        watch_accesses(machine, transfer.access, transfer.accesses, 0, t)
    per_core = chip.engines_count // chip.cores_count
    for ring_number in range(queue.rings):
        number = queue.core * per_core + (queue.base + ring_number) % per_core
        wake = chip.wakes + chip.sequencers_count + number
        if chip[wake] > ready:
            chip[wake] = ready


@kernel
def _finish_transfer(machine, queue_number, t):
    """Finish the oldest transfer of a queue set, with which all rings are done."""
    chip, program = machine.chip, machine.program
    queue = QUEUE(chip, chip.queues, queue_number)
    entry = queue.fifo[queue.done % FIFO_TRANSFERS]
    trigger = entry.trigger
    instruction = instruction_at(program, trigger)
    transfer = TRANSFER(program, program.transfers, instruction.transfer)
    queue.done += 1
    chip.transfers += 1
    chip.dirty = 1
    note_completion(chip, -1 - trigger, t)
    amount = queue.rings
    if transfer.event >= 0:
        update(machine, Change(UP_EVENT_SET, transfer.event, 1), trigger, t)
    if transfer.semaphore >= 0:
        update(machine, Change(UP_ADD, transfer.semaphore, amount), trigger, t)
    for n in range(transfer.remotes):
        remote = program[program.remotes + transfer.remote + n]
        update(machine, Change(UP_ADD, remote, amount), trigger, t)
    close_allocations(machine, instruction, t)
    node_progress(machine, instruction, t)
    _count_pending(machine, queue_number, queue.count - queue.done + 1, t)
    if is_watched(machine):
        watch_accesses(machine, transfer.access, transfer.accesses, 1, t)


@kernel
def _end_quantum(machine, engine, t):
    chip = machine.chip
    queue_number = engine.queue // MAX_RINGS
    ring = RING(chip, chip.rings, engine.queue)
    engine.queue = -1
    if engine.is_mark == 0:
        ring.left -= engine.served
        if ring.left == 0:
            ring.part += 1
            ring.left = -1
        return
    entry = QUEUE(chip, chip.queues, queue_number).fifo[ring.head % FIFO_TRANSFERS]
    ring.head += 1
    ring.part = 0
    ring.left = -1
    entry.left -= 1
    if entry.left == 0:
        _finish_transfer(machine, queue_number, t)


@kernel
def _end_slice(machine, engine, number, t):
    if engine.slice >= 0:
        if is_recording(machine):
            track = machine.program.track_engines + number
            record_interval(machine, track, KIND_TRANSFER, (engine.slice, t), engine.slice_trigger)
        engine.slice = -1


@kernel
def _begin_quantum(machine, engine, number, place, t):
    chip, program = machine.chip, machine.program
    queue_number, ring_number = place // MAX_RINGS, place % MAX_RINGS
    ring = RING(chip, chip.rings, place)
    entry = QUEUE(chip, chip.queues, queue_number).fifo[ring.head % FIFO_TRANSFERS]
    trigger = entry.trigger
    was_idle = engine.slice < 0
    if engine.slice >= 0 and (engine.slice_trigger != trigger or engine.slice_queue != queue_number):
        _end_slice(machine, engine, number, t)
    if engine.slice < 0:
        if is_recording(machine) and was_idle:
            record_cause(machine, program.track_engines + number, KIND_DMA_START, (entry.issued, t), trigger)
        engine.slice = t
        engine.slice_trigger = trigger
        engine.slice_queue = queue_number
    engine.queue = engine.turn = place
    transfer_number = instruction_at(program, trigger).transfer
    offsets = program.offsets + transfer_number * (MAX_RINGS + 1) + ring_number
    part = program[offsets] + ring.part
    if part < program[offsets + 1]:
        part_row = PART(program, program.parts, part)
        if ring.left < 0:
            ring.left = part_row.elements
        served = ring.left
        if served > QUANTUM:
            served = int64(QUANTUM)
        cost = (((served * part_row.cost + 1023) >> 10) * chip.dma_cost + 65535) >> 16
        engine.is_mark = 0
        moved = served * part_row.bytes
        engine.bytes += moved
        chip.bytes += moved
    else:
        served = int64(0)
        cost = program.mark_cost
        if program.mark_overlaps and part > program[offsets]:
            last = PART(program, program.parts, part - 1)
            cost = max(1, min(cost, cost - last.elements * ((last.cost >> 10) - cost)))
        cost = (cost * chip.dma_cost + 65535) >> 16
        engine.is_mark = 1
    engine.served = served
    engine.until = t + cost
    engine.busy += cost


@kernel
def dma_step(machine, number, t):
    """End the quantum of a DMA engine at time `t` and begin the next; return when it wakes again."""
    chip = machine.chip
    engine = ENGINE(chip, chip.engines, number)
    if engine.queue >= 0:
        if engine.until > t:
            return engine.until
        _end_quantum(machine, engine, t)
    per_core = chip.engines_count // chip.cores_count
    count = chip.queues_count
    earliest = FAR
    # Round robin over the rings of this engine, beginning after the one served last.
    queue_number = engine.turn // MAX_RINGS
    ring_number = engine.turn % MAX_RINGS + 1
    base = QUEUE(chip, chip.queues, queue_number).base if count > 0 else queue_number
    ring_number += (engine.number - base - ring_number) % per_core
    for _ in range(count * (MAX_RINGS // per_core + 2) + 2):
        if count == 0:
            break
        queue = QUEUE(chip, chip.queues, queue_number)
        if ring_number >= queue.rings or queue.core != engine.core:
            queue_number += 1
            if queue_number >= count:
                queue_number = 0
            ring_number = (engine.number - QUEUE(chip, chip.queues, queue_number).base) % per_core
            continue
        place = queue_number * MAX_RINGS + ring_number
        ring = RING(chip, chip.rings, place)
        if ring.head < queue.count:
            ready = queue.fifo[ring.head % FIFO_TRANSFERS].ready
            if ready <= t:
                _begin_quantum(machine, engine, number, place, t)
                return engine.until
            if ready < earliest:
                earliest = ready
        ring_number += per_core
    _end_slice(machine, engine, number, t)
    return earliest
