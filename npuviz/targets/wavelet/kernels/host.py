"""Run the commands of the host: start them in order, move data or launch functions, and end them.

Transfers reach the memory and the queues of a PE directly; the columns beside the program, through which real
transfers go, are modelled by a cost per word (assumed).
"""

from numba import int64

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import STOP_MEMORY_WRITE, is_watched
from npuviz.targets.wavelet.kernels.dsd.operand import is_inside
from npuviz.targets.wavelet.kernels.dsd.start import thread_of
from npuviz.targets.wavelet.kernels.faults import FAULT_ADDRESS, FAULT_COLOR
from npuviz.targets.wavelet.kernels.host_commands import (
    COMMAND,
    FIRST_COMMAND,
    HOST_COPY_IN,
    HOST_COPY_OUT,
    HOST_LAUNCH,
    HOST_STREAM_IN,
    HOST_STREAM_OUT,
    SYMBOL,
)
from npuviz.targets.wavelet.kernels.jitter import MORE_LAUNCH, UNIT_LAUNCH, more_cycles
from npuviz.targets.wavelet.kernels.memory import load_16, load_32, store_16, store_32
from npuviz.targets.wavelet.kernels.origins import origin, origin_of_word
from npuviz.targets.wavelet.kernels.processor.task import LAUNCH_SHIFT, NO_TASK, may_start, pick_task
from npuviz.targets.wavelet.kernels.program_records import CODE, LAYOUT, NODE
from npuviz.targets.wavelet.kernels.records import (
    BLOCK,
    CHANNEL,
    COMMAND_STATE,
    ENDED,
    FAR,
    MAIN,
    QUEUE,
    WAIT_NONE,
    ZERO,
)
from npuviz.targets.wavelet.kernels.taps import (
    READ_MEMORY,
    WORK_HOST_IN,
    WORK_HOST_OUT,
    WRITE_MEMORY,
    is_tapped,
    tap_work,
    touch,
)
from npuviz.targets.wavelet.kernels.time.events import block_of, fault, open_router, wake_processor
from npuviz.targets.wavelet.kernels.time.stops import (
    ELEMENT_BITS,
    MARK_HOST,
    PART_HOST,
    watch_bytes,
    watch_part,
)
from npuviz.targets.wavelet.kernels.unset import note_written


@kernel
def node_at(program, x, y):
    """Return the node at a place of the rectangle, -1 if there is none."""
    return program[program.grid + y * program.rectangle + x]


@kernel
def _program_of(program, node):
    """Return the word of the program of a node, -1 for none."""
    return LAYOUT(program, NODE(program, program.nodes, node).layout).code


@kernel
def _symbol(machine, command, code):
    """Return the SYMBOL that a command names in a program."""
    return SYMBOL(machine.host, command.symbols, (code - machine.program.codes) // CODE.num_words)


@kernel
def _copy_words(machine, index, pe, place, t):
    """Copy the words of one PE between a command's words and its memory; a fault outside the memory."""
    wafer, host = machine.wafer, machine.host
    command = COMMAND(host, FIRST_COMMAND, index)
    symbol = _symbol(machine, command, pe.code)
    address = symbol.address
    memory = pe.memory
    if address < 0:
        fault(wafer, pe.node, FAULT_ADDRESS, address)
        return
    if symbol.is_pointer:
        address = load_16(wafer, memory, address)
    size = 2 if command.is_16bit else 4
    count = command.words
    if not is_inside(pe, address, size * count):
        fault(wafer, pe.node, FAULT_ADDRESS, address + size * count)
        return
    is_in = command.kind == HOST_COPY_IN
    if is_in and is_watched(machine):
        mark = ((index + 1) << ELEMENT_BITS) | MARK_HOST
        watch_bytes(machine, pe.node, STOP_MEMORY_WRITE, (address, address + size * count, mark), t)
    if is_tapped(machine):
        tap_work(machine, pe.node, WORK_HOST_IN if is_in else WORK_HOST_OUT, index, -1)
        touch(machine, pe.node, WRITE_MEMORY if is_in else READ_MEMORY, address, size * count)
    if is_in and machine.program.unset:
        note_written(machine, pe, address, address + size * count)
    for i in range(count):
        at = address + i * size
        if is_in:
            if size == 2:
                store_16(wafer, memory, at, host[place + i])
            else:
                store_32(wafer, memory, at, host[place + i])
        else:
            host[place + i] = load_16(wafer, memory, at) if size == 2 else load_32(wafer, memory, at)


@kernel
def _start_on(machine, command, index, target, t):
    """Start a command on one PE; return 1 if the command is done only after this PE has done its part.

    target  node of the PE, and its number in the region
    """
    wafer, program = machine.wafer, machine.program
    node, number = target
    code = _program_of(program, node)
    if code < 0:
        return 0
    kind = command.kind
    function = _symbol(machine, command, code).function if kind == HOST_LAUNCH else ZERO
    if function < 0:
        return 0
    pe = BLOCK(wafer, block_of(wafer, program, node))
    layout = LAYOUT(program, pe.layout)
    if kind == HOST_LAUNCH:
        pe.launch_command = index
        pe.launch_args = command.data
        pe.launch_count = command.args
        more = more_cycles(machine, node, UNIT_LAUNCH, MORE_LAUNCH)
        due = t + wafer.host_launch + more
        pe.launch = function | (due << LAUNCH_SHIFT) if more else function
        wake_processor(wafer, pe, due)
        return 1
    color = command.color
    place = layout.channel[color]
    count = command.words
    if place == 0 or count == 0:
        if place == 0 and count > 0:
            fault(wafer, node, FAULT_COLOR, color)
        return 0
    channel = CHANNEL(pe, place)
    if kind == HOST_STREAM_IN:
        if channel.queue < 0:
            fault(wafer, node, FAULT_COLOR, color)
            return 0
        queue = QUEUE(pe, layout.queue[channel.queue])
        queue.in_left = count
        queue.in_at = command.data + number * count
        queue.in_command = index
        queue.in_next = t + wafer.host_setup
        pe.streams_in |= 1 << channel.queue
        wake_processor(wafer, pe, t + wafer.host_setup)
    else:
        channel.out_left = count
        channel.out_at = command.data + number * count
        channel.out_command = index
        channel.out_next = t + wafer.host_setup
        open_router(wafer, pe, t + wafer.host_setup)
    return 1


@kernel
def _start(machine, index, t):
    wafer, program = machine.wafer, machine.program
    command = COMMAND(machine.host, FIRST_COMMAND, index)
    progress = COMMAND_STATE(wafer, wafer.commands, index)
    kind = command.kind
    width, height = command.width, command.height
    progress.state = 1
    progress.start = t
    progress.end = -1
    progress.left = 0
    progress.first = 0
    progress.beyond = width * height
    wafer.active += 1
    if is_watched(machine):
        watch_part(machine, -1, PART_HOST, ((index + 1) << ELEMENT_BITS) | MARK_HOST, t)
    if kind == HOST_COPY_IN or kind == HOST_COPY_OUT:
        # Words reach a row of PEs from its end, one after the other (assumed).
        progress.end = t + wafer.host_setup + command.words * width * wafer.host_word
        return
    for y in range(height):
        for x in range(width):
            node = node_at(program, command.x + x, command.y + y)
            if node >= 0:
                progress.left += _start_on(machine, command, index, (node, y * width + x), t)
    if kind == HOST_LAUNCH and progress.left == 0:
        progress.end = t + wafer.host_launch


@kernel
def _runs_a_task(program, pe):
    """Return whether a task of a PE runs, so that a copy has to wait: a task of the runtime copies (assumed).

    A task that waits in an operation does not count.
    """
    if pe.task < 0 or pe.map_wait != 0 or pe.halted:
        return False
    return (pe.threads >> MAIN) & 1 == 0 or thread_of(program, pe, MAIN).wait == WAIT_NONE


@kernel
def _copy(machine, index, t):
    """Copy to or from every PE that is between two tasks; return how many PEs are left.

    Only the part of the region from the first to the last PE that is left is searched.
    """
    wafer, program = machine.wafer, machine.program
    command = COMMAND(machine.host, FIRST_COMMAND, index)
    progress = COMMAND_STATE(wafer, wafer.commands, index)
    left = 0
    for place in range(progress.first, progress.beyond):
        node = node_at(program, command.x + place % command.width, command.y + place // command.width)
        if node < 0 or _program_of(program, node) < 0:
            continue
        pe = BLOCK(wafer, block_of(wafer, program, node))
        if pe.copied >= 2 * index + 2:
            continue
        if _runs_a_task(program, pe):
            _note_left(progress, left, place)
            left += 1
            continue
        pe.copied = 2 * index + 2
        _copy_words(machine, index, pe, command.data + place * command.words, t)
    return left


@inlined
def _note_left(progress, left, place):
    """Note that a copy waits for a PE, the first one if `left` is 0."""
    if left == 0:
        progress.first = place
    progress.beyond = place + 1


@kernel
def _finish(machine, index, t):
    wafer = machine.wafer
    kind = COMMAND(machine.host, FIRST_COMMAND, index).kind
    if kind == HOST_LAUNCH or kind == HOST_STREAM_OUT:
        _note_release(machine, index)
    progress = COMMAND_STATE(wafer, wafer.commands, index)
    progress.state = 2
    progress.end = t
    wafer.active -= 1
    wafer.done += 1


@kernel
def _note_release(machine, index):
    """Note which PE of a launch or of a stream from the wafer was the last to release the host."""
    wafer, program = machine.wafer, machine.program
    command = COMMAND(machine.host, FIRST_COMMAND, index)
    latest = COMMAND_STATE(wafer, wafer.commands, index).start
    for y in range(command.height):
        for x in range(command.width):
            node = node_at(program, command.x + x, command.y + y)
            if node < 0 or wafer[wafer.nodes + node] <= 0:
                continue
            pe = BLOCK(wafer, wafer[wafer.nodes + node])
            if command.kind == HOST_LAUNCH:
                if pe.released > latest:
                    latest = pe.released
                    wafer.host_by = origin(latest, node, int64(MAIN))
                continue
            place = LAYOUT(program, pe.layout).channel[command.color]
            if place and CHANNEL(pe, place).out_next > latest:
                latest = CHANNEL(pe, place).out_next
                wafer.host_by = origin_of_word(wafer, CHANNEL(pe, place).out_word)


@kernel
def _may_start(machine, index):
    """Return whether a command may start beside those under way.

    Commands run in order, except that streams of different colors overlap if the earlier ones are nonblock.
    Streams into the wafer share the channels of `--channels`, so that their words enter one stream after the
    other; those of ports have a way of their own.
    """
    wafer, host = machine.wafer, machine.host
    command = COMMAND(host, FIRST_COMMAND, index)
    kind = command.kind
    is_stream = kind == HOST_STREAM_IN or kind == HOST_STREAM_OUT
    for other in range(wafer.oldest, index):
        if COMMAND_STATE(wafer, wafer.commands, other).state != 1:
            continue
        earlier = COMMAND(host, FIRST_COMMAND, other)
        other_streams = earlier.kind == HOST_STREAM_IN or earlier.kind == HOST_STREAM_OUT
        if earlier.nonblock == 0 or not (is_stream and other_streams):
            return False
        if is_stream and other_streams and earlier.color == command.color:
            return False
        if kind == HOST_STREAM_IN and earlier.kind == HOST_STREAM_IN and command.is_port == 0:
            return False
    return True


@kernel
def _is_at_work(machine, pe, t):
    """Return whether a task of a PE runs, or can start."""
    if pe.task >= 0:
        return _runs_a_task(machine.program, pe)
    return pe.timed >> ENDED != 0 or (may_start(pe) and pick_task(machine, pe, t) != NO_TASK)


@kernel
def _is_stream_at_work(machine, index, other, t):
    """Return whether a PE that a stream went into has been busy ever since copy `index` could have been
    made."""
    wafer, program = machine.wafer, machine.program
    command = COMMAND(machine.host, FIRST_COMMAND, other)
    progress = COMMAND_STATE(wafer, wafer.commands, other)
    left = 0
    for place in range(progress.first, progress.beyond):
        node = node_at(program, command.x + place % command.width, command.y + place // command.width)
        if node < 0 or wafer[wafer.nodes + node] <= 0:
            continue
        pe = BLOCK(wafer, wafer[wafer.nodes + node])
        if pe.copied > 2 * index:
            continue
        if _is_at_work(machine, pe, t):
            _note_left(progress, left, place)
            left += 1
        else:
            pe.copied = 2 * index + 1
    return left > 0


@kernel
def _waits_for_streams(machine, index, t):
    """Return whether a copy has to wait for PEs that the streams just before it went into.

    A task of the runtime makes the copy; it runs when no task of the program is ready (assumed: the vendor's
    color-swap reads what the words of a stream have added up). Each PE is waited for by itself.
    """
    other = index - 1
    waits = False
    while other >= 0 and COMMAND(machine.host, FIRST_COMMAND, other).kind == HOST_STREAM_IN:
        if _is_stream_at_work(machine, index, other, t):
            waits = True
        other -= 1
    return waits


@kernel
def host_step(machine, t):
    """Run cycle `t` of the host: end commands that are done, start those that may start.

    A command that waited for another starts in the cycle after the other's end, as it does if a live host
    gives it only then: so a recorded run takes the same cycles.
    """
    wafer = machine.wafer
    wafer.host_at = FAR
    done = wafer.done
    for index in range(wafer.oldest, wafer.next):
        progress = COMMAND_STATE(wafer, wafer.commands, index)
        if progress.state == 1 and progress.left == 0 and progress.end <= t:
            kind = COMMAND(machine.host, FIRST_COMMAND, index).kind
            is_copy = kind == HOST_COPY_IN or kind == HOST_COPY_OUT
            if not is_copy or (not _waits_for_streams(machine, index, t) and _copy(machine, index, t) == 0):
                _finish(machine, index, t)
    while wafer.oldest < wafer.next and COMMAND_STATE(wafer, wafer.commands, wafer.oldest).state == 2:
        wafer.oldest += 1
    if wafer.done != done:
        if wafer.next < wafer.given:
            wafer.host_at = t + 1
    else:
        while wafer.next < wafer.given and _may_start(machine, wafer.next):
            _start(machine, wafer.next, t)
            wafer.next += 1
    for index in range(wafer.oldest, wafer.next):
        progress = COMMAND_STATE(wafer, wafer.commands, index)
        if progress.state == 1 and progress.left == 0:
            end = progress.end
            if end <= t:
                end = t + 1
            if end < wafer.host_at:
                wafer.host_at = end
    if wafer.closed and wafer.done == wafer.given and wafer.closed_at < 0:
        wafer.closed_at = t + 1
