"""Compute the times of a whole trace again with other durations: forwards, each start after its dependences.

A node is a row of intervals that is work, or a cause (a point in time at which its track
could go on). Nodes are sorted by time, so that a node's dependences are timed before it. Without
a change every node keeps its time, because each constraint held in the run, and the tight ones decide.
"""

# pyright: reportMissingParameterType=false

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner
from npuviz.trace.pyramid_kernels import first_between

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)
_inlined = inner(forceinline=True)


@_inlined
def _point(columns, change, times, track, cycle):
    """Return the new time of a point (track, cycle): inside or after the last work of the track before it."""
    start, end, _, offsets, stands, c_offsets, c_cycle = columns[:7]
    factor = change[0]
    new_start, new_cause = times
    row = first_between(start, offsets[track], offsets[track + 1], cycle) - 1
    while row >= offsets[track] and stands[row]:
        row -= 1
    if row >= offsets[track]:
        inside = min(end[row], cycle) - start[row]
        return new_start[row] + inside * factor[row] + max(cycle - end[row], 0)
    cause = first_between(c_cycle, c_offsets[track], c_offsets[track + 1], cycle + 1) - 1
    if cause >= c_offsets[track]:
        return new_cause[cause] + (cycle - c_cycle[cause])
    return np.float64(cycle)


@_inlined
def _cause_time(columns, change, times, cause, cycle):
    """Return the new time of a cause: the new time of its source plus the time between them."""
    c_done, c_track = columns[7:9]
    own = columns[6][cause]
    if c_track[cause] < 0:
        return np.float64(own)
    reached = _point(columns, change, times, c_track[cause], c_done[cause])
    return reached + (own - c_done[cause]) * change[1][cause] + (cycle - own)


@_inlined
def _after_own(columns, change, times, row, track):
    """Return the new time at which a track can go on with a row because of its earlier work, and the cause
    that explains the row's start (-1: none, so that the time lost before it is kept)."""
    start, end, _, offsets, stands, c_offsets, c_cycle = columns[:7]
    before = row - 1
    explained = end[before] if before >= offsets[track] else np.int64(0)
    while before >= offsets[track] and stands[before]:
        before -= 1
    ended = end[before] if before >= offsets[track] else np.int64(0)
    cause = first_between(c_cycle, c_offsets[track], c_offsets[track + 1], start[row] + 1) - 1
    is_explained = cause >= c_offsets[track] and c_cycle[cause] >= explained
    lost = start[row] - ended
    if is_explained:
        lost = 0
    if before < offsets[track]:
        return np.float64(lost), cause if is_explained else np.int64(-1)
    own = times[0][before] + (end[before] - start[before]) * change[0][before] + lost
    return own, cause if is_explained else np.int64(-1)


@_inlined
def _after_flows(columns, change, times, row):
    """Return the latest new end of the producers whose results a row uses."""
    start, end, instruction = columns[:3]
    first_of, by_instruction, f_first, f_source, lag, track_of, stands = (
        columns[9], columns[10], columns[11], columns[12], columns[13], columns[14], columns[4],
    )  # fmt: skip
    latest = 0.0
    index = instruction[row]
    if index < 0 or index + 1 >= len(f_first):
        return latest
    for flow in range(f_first[index], f_first[index + 1]):
        source = f_source[flow]
        if source < 0 or source + 1 >= len(first_of):
            continue
        # An instruction in a loop has many rows: only the last few can be the producer.
        place = first_of[source + 1] - 1
        seen = 0
        while place >= first_of[source] and seen < 64:
            one = by_instruction[place]
            place -= 1
            seen += 1
            if stands[one] or end[one] > start[row]:
                continue
            wait = min(lag[track_of[one]], start[row] - end[one])
            until = times[0][one] + (end[one] - start[one]) * change[0][one] + wait
            latest = max(latest, until)
    return latest


@_entry
def retime(columns, change, order, times):
    """Compute the new times of rows (start) and of causes, in `order` (a cause is -1 - its number).

    columns  start, end, instruction, offsets, stands (no work: waits and frames), then causes: offsets,
             cycle, cycle and track of the source, then first_of and by_instruction, flows by sink
             (first, source), shortest known way of a result out of each track, track of each row
    change   factor of each row's duration, of the time before each cause, and causes that no longer apply
             any more
    times    new start of rows, new time of causes; float64
    """
    start = columns[0]
    c_cycle, dropped, track_of = columns[6], change[2], columns[14]
    stands = columns[4]
    for node in range(len(order)):
        one = order[node]
        if one < 0:
            cause = -1 - one
            times[1][cause] = _cause_time(columns, change, times, cause, c_cycle[cause])
            continue
        if stands[one]:
            times[0][one] = start[one]
            continue
        begin, cause = _after_own(columns, change, times, one, track_of[one])
        if cause >= 0 and not dropped[cause]:
            slack = start[one] - c_cycle[cause]
            begin = max(begin, times[1][cause] + slack * change[1][cause])
        times[0][one] = max(begin, _after_flows(columns, change, times, one))
