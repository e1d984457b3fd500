"""DDR: one bus for all cores, served chunk by chunk, round robin over the streams that want bytes."""

from npuviz.sim.parts.bits_kernels import inlined, kernel
from npuviz.sim.parts.watch_kernels import INTERVAL, emit, is_recording
from npuviz.targets.rk3588.kernels.records import (
    CORE_WORDS,
    FAR,
    H_BUS_BUSY,
    H_BUS_BYTES,
    H_BUS_SINCE,
    H_BUS_STREAM,
    H_BUS_TURN,
    H_BUS_UNTIL,
    H_CORES,
    H_CORES_COUNT,
    H_READ_BYTES,
    H_WRITE_BYTES,
    K_PENDING,
    K_STREAMS,
    K_TASK,
    KIND_BUS,
    KIND_FEATURE,
    KIND_OPERAND,
    KIND_REGISTERS,
    KIND_WEIGHT,
    KIND_WRITE,
    P_BUS_COST,
    P_CHUNK,
    P_TASKS,
    P_TRACK_BUS,
    R_BUSY,
    R_DONE,
    R_START,
    R_TOTAL,
    STREAM_FEATURE,
    STREAM_OPERAND,
    STREAM_WEIGHT,
    STREAM_WORDS,
    STREAM_WRITE,
    STREAMS,
    T_INSTRUCTION,
    TASK_WORDS,
    TRACK_FEATURE,
    TRACK_OPERAND,
    TRACK_WEIGHT,
    TRACK_WRITE,
    TRACKS_PER_CORE,
)


@inlined
def stream_word(s, core, stream):
    """First word of a stream."""
    return s[H_CORES] + core * CORE_WORDS + K_STREAMS + stream * STREAM_WORDS


@kernel
def _track_of(stream):
    if stream == STREAM_FEATURE:
        return TRACK_FEATURE
    if stream == STREAM_WEIGHT:
        return TRACK_WEIGHT
    if stream == STREAM_OPERAND:
        return TRACK_OPERAND
    if stream == STREAM_WRITE:
        return TRACK_WRITE
    return -1


@kernel
def _kind_of(stream):
    if stream == STREAM_FEATURE:
        return KIND_FEATURE
    if stream == STREAM_WEIGHT:
        return KIND_WEIGHT
    if stream == STREAM_OPERAND:
        return KIND_OPERAND
    if stream == STREAM_WRITE:
        return KIND_WRITE
    return KIND_REGISTERS


@kernel
def close_stream(s, p, x, ev, core, stream, t):
    """A stream has no bytes under way any more: its interval ends."""
    w = stream_word(s, core, stream)
    if s[w + R_START] >= 0:
        track = _track_of(stream)
        if track >= 0 and is_recording(x) and s[w + R_START] < t:
            task = s[s[H_CORES] + core * CORE_WORDS + K_TASK]
            instruction = p[p[P_TASKS] + task * TASK_WORDS + T_INSTRUCTION] if task >= 0 else task
            emit(
                x,
                ev,
                INTERVAL,
                core * TRACKS_PER_CORE + track,
                _kind_of(stream),
                s[w + R_START],
                t,
                instruction,
            )
        s[w + R_START] = -1


@kernel
def end_chunk(s, p, x, ev, t):
    """The chunk under way has arrived; returns its core."""
    core, stream = s[H_BUS_STREAM] // STREAMS, s[H_BUS_STREAM] % STREAMS
    w = stream_word(s, core, stream)
    s[w + R_DONE] += s[H_BUS_BYTES]
    if stream == STREAM_WRITE:
        s[s[H_CORES] + core * CORE_WORDS + K_PENDING] -= s[H_BUS_BYTES]
        s[H_WRITE_BYTES] += s[H_BUS_BYTES]
    else:
        s[H_READ_BYTES] += s[H_BUS_BYTES]
    s[H_BUS_STREAM] = -1
    s[H_BUS_UNTIL] = FAR
    if s[w + R_DONE] >= s[w + R_TOTAL]:
        close_stream(s, p, x, ev, core, stream, t)
    return core


@kernel
def begin_chunk(s, p, x, ev, t):
    """Give the bus to the next stream that wants bytes."""
    count = s[H_CORES_COUNT] * STREAMS
    turn = s[H_BUS_TURN]
    for _ in range(count):
        turn += 1
        if turn >= count:
            turn = turn - turn
        core, stream = turn // STREAMS, turn % STREAMS
        w = stream_word(s, core, stream)
        left = s[w + R_TOTAL] - s[w + R_DONE]
        if left > 0:
            size = left if left < p[P_CHUNK] else p[P_CHUNK]
            cost = (size * p[P_BUS_COST] + 65535) >> 16
            s[H_BUS_TURN] = turn
            s[H_BUS_STREAM] = turn
            s[H_BUS_BYTES] = size
            s[H_BUS_UNTIL] = t + cost
            s[H_BUS_BUSY] += cost
            s[w + R_BUSY] += cost
            if s[w + R_START] < 0:
                s[w + R_START] = t
            if s[H_BUS_SINCE] < 0:
                s[H_BUS_SINCE] = t
            return
    if s[H_BUS_SINCE] >= 0:
        if is_recording(x) and s[H_BUS_SINCE] < t:
            emit(x, ev, INTERVAL, p[P_TRACK_BUS], KIND_BUS, s[H_BUS_SINCE], t, -1)
        s[H_BUS_SINCE] = -1
