"""Tooltips of a timeline: explain what is under the pointer in at most six lines."""

from collections.abc import Sequence
from html import escape

from npuviz.base.units import format_bytes, format_count, format_cycles_as_time
from npuviz.trace.schema import Track
from npuviz.ui.timeline.index import TimelineIndex
from npuviz.ui.timeline.rows import Place
from npuviz.ui.timeline.state import Picked, TimelineState
from npuviz.workbench.sessions.bookmarks import Bookmark

REACH_PIXELS = 2.0
FLAG_PIXELS = 12.0


def tooltip_text(state: TimelineState, tracks: Sequence[Track], place: Place) -> str:
    """Return the tooltip of a place as rich text, "" for none."""
    index = state.index
    if index is None:
        return ""
    track = next((track for track in tracks if track.id == place.track), None)
    if place.zone == "header" and place.row is not None:
        if track is None:
            members = f"{len(place.row.members)} tracks" if place.row.members else escape(place.row.label)
            docs = {each.doc for each in tracks if each.id in place.row.members and each.doc}
            text = f"<br>{escape(docs.pop())}" if len(docs) == 1 else ""
            return f"<b>{escape(place.row.name)}</b>{text}<br>{members}"
        counted = f"counts {track.measure}" if track.measure else ""
        lines = [f"<b>{escape(track.name)}</b>", escape(track.doc), escape(counted)]
        if track.id in state.estimated:
            lines.append("\u2248 estimated: its durations are assumptions")
        return "<br>".join(line for line in lines if line)
    if place.zone == "ruler":
        return "<br>".join(_bookmark_text(each) for each in state.bookmarks_near(place.x, FLAG_PIXELS)[:4])
    if place.zone != "tracks" or track is None:
        return ""
    if track.kind == "counter":
        return _counter_text(state, index, track, place.x)
    found = state.slice_near(track.id, place.x, REACH_PIXELS)
    return "<br>".join(slice_lines(index, found, track.name)) if found else ""


def slice_name(index: TimelineIndex, found: Picked) -> str:
    """Return kind and operator of a slice."""
    schema = index.reader.schema
    kind = next((kind.name for kind in schema.kinds if kind.id == found.kind), f"kind {found.kind}")
    node = schema.node_names[found.node] if 0 <= found.node < len(schema.node_names) else ""
    return f"{kind}  {node}" if node else kind


def _bookmark_text(bookmark: Bookmark) -> str:
    until = f" \u2013 {format_count(bookmark.last)}" if bookmark.is_range else ""
    what = "  ".join(part for part in (bookmark.track, bookmark.label) if part)
    title = f"<b>{format_count(bookmark.first)}{until}</b> {escape(what)}"
    return f"{title}<br>{escape(bookmark.note)}" if bookmark.note else title


def slice_lines(index: TimelineIndex, found: Picked, track_name: str) -> list[str]:
    """Describe a slice in lines of rich text."""
    schema = index.reader.schema
    kind = next((kind for kind in schema.kinds if kind.id == found.kind), None)
    name = kind.name if kind else f"kind {found.kind}"
    node = schema.node_names[found.node] if 0 <= found.node < len(schema.node_names) else ""
    title = f"<b>{escape(name)}</b>" + (f"&nbsp; {escape(node)}" if node else "")
    lines = [title]
    where = f"{escape(track_name)}, {kind.role}" if kind else escape(track_name)
    lines.append(
        where + (f", instruction {format_count(found.instruction)}" if found.instruction >= 0 else "")
    )
    length = found.end - found.start
    time = format_cycles_as_time(length, schema.frequency_hz)
    lines.append(f"{format_count(found.start)} \u2013 {format_count(found.end)}")
    lines.append(f"{format_count(length)} cycles" + (f" = {time}" if time else ""))
    if kind and kind.doc:
        lines.append(("why: " if kind.role.startswith("wait-") else "") + escape(kind.doc))
    return lines[:6]


def _counter_text(state: TimelineState, index: TimelineIndex, track: Track, x: float) -> str:
    cycle = max(state.viewport.cycle_at(x), 0.0)
    step = state.viewport.cycles_per_pixel
    _cycles, low, high, last = index.reader.counter(track.id, (cycle, cycle + max(step, 1.0)), 1)
    shown = _amount(track, int(last[0]))
    lines = [f"<b>{escape(track.name)}</b>", f"{shown} at {format_count(int(cycle))}"]
    if low[0] != high[0]:
        lines.append(f"{_amount(track, int(low[0]))} \u2013 {_amount(track, int(high[0]))} within this pixel")
    if track.maximum:
        lines.append(f"of {_amount(track, track.maximum)}")
    if track.doc:
        lines.append(escape(track.doc))
    return "<br>".join(lines[:6])


def _amount(track: Track, value: int) -> str:
    if track.measure == "bytes":
        return format_bytes(value)
    return f"{format_count(value)} {track.measure}".strip()
