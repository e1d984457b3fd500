"""Walk back through a trace along its causes, from a point (track, cycle) to the start of the run.

Tracks follow each other in the columns `start`, `end`, `kind`, `instruction`; the rows of track t are
offsets[t] to before offsets[t + 1]. Causes are stored likewise, by track and cycle. `by_instruction` has the
rows of each instruction, rising, those of instruction i from `first_of`[i] to before `first_of`[i + 1].
"""

# pyright: reportMissingParameterType=false

import numpy as np

from npuviz.base.kernels import entries
from npuviz.base.kernels.inner import inner
from npuviz.trace.pyramid_kernels import first_between

UNKNOWN = -1
"""Kind of a segment whose cause is not recorded."""
MOST_HOPS = 256
"""Most successive hops in which no cycle passes; after that the walk goes on in the track's own past."""

_entry = entries.entry(entries.WINDOW_GROUP, is_repeatable=True)
_inlined = inner(forceinline=True)


@_entry
def index_instructions(instruction, first_of, by_instruction):
    """Fill the index of rows by instruction; `first_of` (most instruction + 2,) comes as zeros."""
    for row in range(len(instruction)):
        if instruction[row] >= 0:
            first_of[instruction[row] + 1] += 1
    for i in range(1, len(first_of)):
        first_of[i] += first_of[i - 1]
    used = first_of.copy()
    for row in range(len(instruction)):
        i = instruction[row]
        if i >= 0:
            by_instruction[used[i]] = row
            used[i] += 1


@_entry
def sort_causes(track, cycle, offsets, order):
    """Sort causes by track (-1 last), then cycle, then as recorded; `offsets` (tracks + 2,) comes as
    zeros."""
    tracks = len(offsets) - 2
    for row in range(len(track)):
        place = track[row] if track[row] >= 0 else tracks
        offsets[place + 1] += 1
    for place in range(tracks + 1):
        offsets[place + 1] += offsets[place]
    used = offsets[:-1].copy()
    for row in range(len(track)):
        place = track[row] if track[row] >= 0 else tracks
        at = used[place]
        used[place] = at + 1
        # Rows are almost in order: the few that are not move a little.
        while at > offsets[place] and cycle[order[at - 1]] > cycle[row]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = row


@_inlined
def _of_instruction(graph, instruction, limit):
    """Return the row in which an instruction last worked before a cycle, -1 if none is recorded."""
    start, end, kind, _, offsets, passes, waits, frames, first_of, by_instruction = graph[:10]
    best, reached = -1, -1
    if instruction + 1 >= len(first_of):
        return best
    low, high = first_of[instruction], first_of[instruction + 1]
    while low < high:
        row = by_instruction[low]
        track = first_between(offsets, 0, len(offsets), row + 1) - 1
        behind = first_between(by_instruction, low, high, offsets[track + 1])
        # Rows of one track follow each other in time.
        left, right = low, behind
        while left < right:
            middle = (left + right) >> 1
            if start[by_instruction[middle]] < limit:
                left = middle + 1
            else:
                right = middle
        place = left - 1
        while place >= low and (waits[kind[by_instruction[place]]] or frames[kind[by_instruction[place]]]):
            place -= 1
        if place >= low and not passes[track]:
            row = by_instruction[place]
            until = min(end[row], limit)
            if until > reached:
                best, reached = row, until
        low = behind
    return best


@_inlined
def _source_of(graph, row, latest):
    """Return track and cycle (at most `latest`) of a cause's source; (-1, -1) if it is not in the machine or
    not recorded."""
    end, offsets = graph[1], graph[4]
    done, source = graph[13][row], graph[14][row]
    limit = done if done >= 0 else latest
    if source <= -2:
        return np.int64(-2 - source), limit
    if source >= 0:
        place = _of_instruction(graph, source, limit)
        if place >= 0:
            return np.int64(first_between(offsets, 0, len(offsets), place + 1) - 1), min(end[place], limit)
    return np.int64(-1), np.int64(-1)


@_entry
def find_sources(graph, tracks, cycles):
    """Fill track and cycle of every cause's source, -1 where it is not known."""
    for row in range(len(tracks)):
        tracks[row], cycles[row] = _source_of(graph, row, graph[11][row])


@_inlined
def _add(out, count, span, track, what):
    """Append a segment if it is not empty and there is room; return the number of segments. what  its kind
    and instruction"""
    if span[0] < span[1]:
        if count < len(out[0]):
            out[0][count], out[1][count], out[2][count] = span[0], span[1], track
            out[3][count], out[4][count] = what[0], what[1]
        return count + 1
    return count


@_inlined
def _cause_at(graph, track, floor, cycle, hops):
    """Return the last cause of a track in [floor, cycle], -1 without one."""
    cycles, offsets = graph[11], graph[10]
    if hops >= MOST_HOPS:
        return -1
    row = first_between(cycles, offsets[track], offsets[track + 1], cycle + 1) - 1
    if row < offsets[track] or cycles[row] < floor:
        return -1
    return row


@_inlined
def _worked_last(graph, cycle):
    """Return track and cycle of the last work before a cycle; track -1 if there was none."""
    start, end, offsets, passes = graph[0], graph[1], graph[4], graph[5]
    track, latest = np.int64(-1), np.int64(-1)
    for t in range(len(offsets) - 1):
        row = first_between(start, offsets[t], offsets[t + 1], cycle) - 1
        if row >= offsets[t] and not passes[t] and min(end[row], cycle) > latest:
            track, latest = np.int64(t), min(end[row], cycle)
    return track, latest


@_inlined
def _end_of_run(graph, cycle, out):
    """Return where the walk from the end of the run begins: track, cycle, and the number of segments after
    it."""
    row = _cause_at(graph, len(graph[4]) - 1, 0, cycle, 0)
    if row >= 0:
        track, done = _source_of(graph, row, cycle)
        if track >= 0:
            return (
                track,
                done,
                _add(out, 0, (done, cycle), track, (graph[12][row], max(graph[14][row], np.int64(-1)))),
            )
    # No recorded cause of the end of the run: the last work is not taken for it.
    track, latest = _worked_last(graph, cycle)
    return track, latest, _add(out, 0, (max(latest, 0), cycle), -1, (np.int16(UNKNOWN), np.int64(-1)))


@_entry
def walk(graph, track, cycle, stop, out):
    """Write the segments that lead to a point, newest first, down to cycle `stop`; return their number.

    graph   start, end, kind, instruction, offsets, passes (tracks of no unit), waits and frames (by
            kind), first_of, by_instruction, then the causes: offsets, cycle, kind, done, source
    track   -1: the end of the run
    out     start, end, track, kind, instruction of the segments; what does not fit is only counted
    """
    start, end, kind, instruction, offsets, passes, waits, frames = graph[:8]
    c_cycle, c_kind, c_source = graph[11], graph[12], graph[14]
    count, hops = 0, 0
    if track < 0:
        track, cycle, count = _end_of_run(graph, cycle, out)
    while cycle > stop:
        row = first_between(start, offsets[track], offsets[track + 1], cycle) - 1
        exists = row >= offsets[track]
        until = end[row] if exists else np.int64(0)
        first = max(start[row], stop) if exists else np.int64(stop)
        is_frame = exists and (passes[track] or frames[kind[row]])
        if exists and not is_frame and (until > cycle or (until == cycle and not waits[kind[row]])):
            count = _add(out, count, (first, cycle), track, (kind[row], instruction[row]))
            cycle, hops = start[row], 0
            continue
        floor = cycle if is_frame and until >= cycle else until
        cause = _cause_at(graph, track, floor, cycle, hops)
        if cause >= 0:
            possible = c_cycle[cause]
            source, done = _source_of(graph, cause, possible)
            if source >= 0:
                count = _add(out, count, (max(possible, stop), cycle), track, (c_kind[cause], np.int64(-1)))
                way = (max(done, stop), min(possible, cycle))
                count = _add(
                    out, count, way, track, (c_kind[cause], c_source[cause] if c_source[cause] >= 0 else -1)
                )
                hops = hops + 1 if done == cycle else 0
                track, cycle = source, done
                continue
            if c_source[cause] != -1 and floor < c_cycle[cause]:
                # The named source was not recorded: go on with the cause of the track before this one.
                before = _cause_at(graph, track, floor, c_cycle[cause] - 1, 0)
                reached = c_cycle[before] if before >= 0 else floor
                count = _add(
                    out, count, (max(reached, stop), cycle), track, (np.int16(UNKNOWN), np.int64(-1))
                )
                cycle, hops = reached, 0
                continue
            if c_source[cause] == -1 and floor < cycle:
                count = _add(out, count, (max(floor, stop), cycle), track, (c_kind[cause], np.int64(-1)))
                cycle, hops = floor, 0
                continue
        hops = 0
        if exists and until >= cycle:
            # A wait whose end has no recorded cause, or a frame.
            what = np.int16(UNKNOWN) if is_frame else kind[row]
            count = _add(out, count, (first, cycle), track, (what, instruction[row]))
            cycle = start[row]
        else:
            count = _add(out, count, (max(until, stop), cycle), track, (np.int16(UNKNOWN), np.int64(-1)))
            cycle = until
    return count
