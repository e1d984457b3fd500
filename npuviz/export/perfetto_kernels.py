"""Encode trace packets as protobuf, straight into a buffer.

Field numbers: perfetto's protos/perfetto/trace/trace_packet.proto and track_event/track_event.proto.
Every function that writes returns the position after what it wrote.
"""

# pyright: reportMissingParameterType=false

import numba as nb
import numpy as np

from npuviz.base.kernels.inner import inner

SEQUENCE = 1
MAX_FLOWS_OF_SLICE = 1000
SLICE_ROOM = 160
"""Most bytes of a slice without flows; each flow takes 10 more."""
FLOW_ROOM = 10

_PACKET = 0x0A
_TIMESTAMP = 0x40
_SEQUENCE_ID = 0x50
_SEQUENCE_FLAGS = 0x68
_TRACK_EVENT = 0x5A
_EVENT_TYPE = 0x48
_TRACK_UUID = 0x58
_NAME_IID = 0x50
_DEBUG_ANNOTATION = 0x22
_ANNOTATION_NAME_IID = 0x08
_ANNOTATION_INT = 0x20
_BEGIN = 1
_END = 2
_COUNTER = 4
_NEEDS_NAMES = 2

_inlined = inner(forceinline=True)
"""Decorator of helpers in hot loops: at every real call an array argument costs an atomic reference count."""


@_inlined
def _varint(out, at, value):
    rest = np.uint64(value)
    while rest >= np.uint64(0x80):
        out[at] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@_inlined
def _close(out, begin, at):
    """Write the length of the message that starts at `begin` into the byte before it, or into two bytes if
    needed."""
    length = at - begin
    if length < 0x80:
        out[begin - 1] = length
        return at
    for i in range(at, begin, -1):
        out[i] = out[i - 1]
    out[begin - 1] = (length & 0x7F) | 0x80
    out[begin] = length >> 7
    return at + 1


@_inlined
def _open_event(out, at, nanoseconds, what, uuid):
    """Start a packet with a track event; return (start of packet, start of event, position).

    The packet at the begin of a slice is marked as needing the names interned before.
    """
    out[at] = _PACKET
    packet = at + 2
    out[packet] = _TIMESTAMP
    at = _varint(out, packet + 1, nanoseconds)
    out[at] = _SEQUENCE_ID
    out[at + 1] = SEQUENCE
    at += 2
    if what == _BEGIN:
        out[at] = _SEQUENCE_FLAGS
        out[at + 1] = _NEEDS_NAMES
        at += 2
    out[at] = _TRACK_EVENT
    event = at + 2
    out[event] = _EVENT_TYPE
    out[event + 1] = what
    out[event + 2] = _TRACK_UUID
    return packet, event, _varint(out, event + 3, uuid)


@_inlined
def _annotation(out, at, name, value):
    out[at] = _DEBUG_ANNOTATION
    begin = at + 2
    out[begin] = _ANNOTATION_NAME_IID
    out[begin + 1] = name
    out[begin + 2] = _ANNOTATION_INT
    at = _varint(out, begin + 3, value)
    return _close(out, begin, at)


@_inlined
def _flow(out, at, flow):
    """Write a fixed64 flow id: flow_ids (47) for a producer, terminating_flow_ids (48) for a consumer
    (negative)."""
    out[at] = 0xF9 if flow > 0 else 0x81
    out[at + 1] = 0x02 if flow > 0 else 0x03
    rest = np.uint64(abs(flow))
    for i in range(8):
        out[at + 2 + i] = np.uint8(rest & np.uint64(0xFF))
        rest >>= np.uint64(8)
    return at + 10


@nb.njit(cache=True, nogil=True)
def encode_slices(begin_ns, end_ns, names, instructions, cycles, flow_offsets, flows, uuid, first, out):
    """Write slices from row `first` on until the buffer is full; return (next row, bytes written).

    instructions, cycles  values of the annotations 1 and 2; an empty array leaves one out
    flow_offsets          (rows + 1,) or empty; row r has flows[flow_offsets[r] : flow_offsets[r + 1]]
    """
    at = 0
    row = first
    has_flows = len(flow_offsets) > 0
    while row < len(begin_ns):
        num_flows = 0
        if has_flows:
            num_flows = min(flow_offsets[row + 1] - flow_offsets[row], MAX_FLOWS_OF_SLICE)
        if at + SLICE_ROOM + FLOW_ROOM * num_flows > len(out):
            break
        packet, event, at = _open_event(out, at, begin_ns[row], _BEGIN, uuid)
        out[at] = _NAME_IID
        at = _varint(out, at + 1, names[row])
        if len(instructions) > 0 and instructions[row] >= 0:
            at = _annotation(out, at, 1, instructions[row])
        if len(cycles) > 0:
            at = _annotation(out, at, 2, cycles[row])
        for i in range(num_flows):
            at = _flow(out, at, flows[flow_offsets[row] + i])
        at = _close(out, packet, _close(out, event, at))
        packet, event, at = _open_event(out, at, end_ns[row], _END, uuid)
        at = _close(out, packet, _close(out, event, at))
        row += 1
    return row, at


@nb.njit(cache=True, nogil=True)
def encode_counter(nanoseconds, values, uuid, first, out):
    """Write counter values from row `first` on until the buffer is full; return (next row, bytes written)."""
    at = 0
    row = first
    while row < len(values) and at + SLICE_ROOM <= len(out):
        packet, event, at = _open_event(out, at, nanoseconds[row], _COUNTER, uuid)
        out[at] = 0xF0
        out[at + 1] = 0x01
        at = _varint(out, at + 2, values[row])
        at = _close(out, packet, _close(out, event, at))
        row += 1
    return row, at
