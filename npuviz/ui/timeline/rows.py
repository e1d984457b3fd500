"""Lay out the rows of a timeline: which track is drawn where, without any drawing."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from npuviz.base.names import natural_key
from npuviz.trace.schema import Track

MIN_ARRAY = 8
"""Fewest tracks with one name and different numbers that are made a group."""
MAX_COUNTERS = 3
"""Most counters of a track that are shown without a group."""

DOMINANT = 0.5
"""A unit that is busy for more than this share of a run is shown first."""

RowKind = Literal["group", "interval", "counter"]


@dataclass(frozen=True, slots=True)
class Row:
    """One horizontal band.

    label    what the header shows; name is the full hierarchical name
    track    track id, -1 for a group
    depth    nesting, 0 at the root
    top, height  logical pixels from the top of the first row
    members  interval tracks of a group, all levels
    """

    kind: RowKind
    label: str
    name: str
    track: int
    depth: int
    top: int
    height: int
    members: tuple[int, ...] = ()
    is_collapsed: bool = False

    @property
    def bottom(self) -> int:
        """First pixel below the row."""
        return self.top + self.height


@dataclass(frozen=True, slots=True)
class RowOptions:
    """The user's choices for rows: height, folded groups, hidden and pinned tracks, filter.

    collapsed  names of groups that are not in their first state: arrays and groups of counters begin
               folded, all others open
    units      show only tracks of these units; None: of all
    leading    tracks that come before the others of their group, and groups of them before other groups
    folded     names of groups that begin folded, besides arrays and counters
    """

    row_height: int = 22
    collapsed: frozenset[str] = frozenset()
    hidden: frozenset[int] = frozenset()
    pinned: tuple[int, ...] = ()
    filter_text: str = ""
    shows_counters: bool = True
    units: frozenset[int] | None = None
    leading: frozenset[int] = frozenset()
    folded: frozenset[str] = frozenset()


class RowLayout:
    """Rows from top to bottom, with look-up by pixel and by track."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.rows = tuple(rows)
        self.height = self.rows[-1].bottom if self.rows else 0
        self._tops = [row.top for row in self.rows]
        self._by_track = {row.track: row for row in self.rows if row.track >= 0}
        self._by_member = {
            track: row for row in reversed(self.rows) if row.is_collapsed for track in row.members
        }

    def at(self, y: float) -> Row | None:
        """Return the row at a pixel from the top of the first row, or None."""
        position = bisect_right(self._tops, y) - 1
        if position < 0 or y >= self.rows[position].bottom:
            return None
        return self.rows[position]

    def between(self, top: float, bottom: float) -> tuple[Row, ...]:
        """Return the rows that touch the band [top, bottom)."""
        first = max(bisect_right(self._tops, top) - 1, 0)
        last = bisect_right(self._tops, bottom)
        return tuple(row for row in self.rows[first:last] if row.bottom > top and row.top < bottom)

    def of_track(self, track: int) -> Row | None:
        """Return the row of a track, or None while it is folded or hidden."""
        return self._by_track.get(track)

    def showing(self, track: int) -> Row | None:
        """Return the row of a track, or that of the folded group it is in; None if it is hidden."""
        return self._by_track.get(track) or self._by_member.get(track)


@dataclass
class _Branch:
    """A group while the tree is being built."""

    name: str
    label: str
    branches: dict[str, "_Branch"] = field(default_factory=dict[str, "_Branch"])
    leaves: list[Track] = field(default_factory=list[Track])
    is_folded: bool = False

    def members(self) -> list[int]:
        own = [track.id for track in self.leaves]
        return own + [track for branch in self.branches.values() for track in branch.members()]

    def first(self) -> int:
        return min(self.members(), default=0)


def lay_out(tracks: Iterable[Track], options: RowOptions) -> RowLayout:
    """Arrange tracks by the hierarchy of their names, counters under the track that owns them."""
    wanted = [track for track in tracks if track.id not in options.hidden]
    if options.units is not None:
        pins = options.pinned
        wanted = [track for track in wanted if track.unit in options.units or track.id in pins]
    intervals = [track for track in wanted if track.kind == "interval"]
    counters = [track for track in wanted if track.kind == "counter" and options.shows_counters]
    text = options.filter_text.casefold().strip()
    if text:
        intervals = [track for track in intervals if text in track.name.casefold()]
        counters = [track for track in counters if text in track.name.casefold()]
    owned, loose = _counters_by_owner(intervals, counters)
    arranged = _Arrangement(options, owned)
    pinned = {track.id: track for track in wanted}
    for track_id in options.pinned:
        if track_id in pinned:
            arranged.add_track(pinned[track_id], pinned[track_id].name, 0)
    arranged.add_branch(_tree(intervals, loose), 0)
    return RowLayout(arranged.rows)


def leading_tracks(tracks: Iterable[Track], shares: Mapping[int, float]) -> frozenset[int]:
    """Return the tracks to show first: those of no unit, which frame all work, and those of busy units.

    shares  unit -> busy share of the run, empty while unknown
    """
    return frozenset(
        track.id
        for track in tracks
        if track.kind == "interval"
        and "." not in track.name
        and (track.unit < 0 or shares.get(track.unit, 0.0) > DOMINANT)
    )


def _counters_by_owner(
    intervals: Sequence[Track], counters: Sequence[Track]
) -> tuple[dict[int, list[Track]], list[Track]]:
    """Return {interval track: its counters}, and the counters without such a track."""
    by_unit: dict[int, Track] = {}
    for track in intervals:
        if track.unit >= 0:
            by_unit.setdefault(track.unit, track)
    owned: dict[int, list[Track]] = {}
    loose: list[Track] = []
    for counter in counters:
        owner = by_unit.get(counter.unit)
        if owner is None:
            loose.append(counter)
        else:
            owned.setdefault(owner.id, []).append(counter)
    for found in owned.values():
        found.sort(key=lambda track: natural_key(track.name))
    return owned, loose


def _tree(intervals: Sequence[Track], loose: Sequence[Track]) -> _Branch:
    root = _Branch("", "")
    for track in [*intervals, *loose]:
        branch = root
        path = track.name.split(".")[:-1]
        for depth, part in enumerate(path):
            name = ".".join(path[: depth + 1])
            branch = branch.branches.setdefault(part, _Branch(name, part))
        branch.leaves.append(track)
    _group_arrays(root)
    return root


def _group_arrays(branch: _Branch) -> None:
    """Group tracks that differ only in their number, if they are many and not alone in the branch."""
    for child in branch.branches.values():
        _group_arrays(child)
    arrays: dict[str, list[Track]] = {}
    for track in branch.leaves:
        label = track.name.rsplit(".", 1)[-1]
        if label.endswith("]"):
            arrays.setdefault(_stem(label), []).append(track)
    for stem, tracks in arrays.items():
        if len(tracks) < MIN_ARRAY or len(tracks) == len(branch.leaves) + len(branch.branches):
            continue
        name = f"{branch.name}.{stem}[]".lstrip(".")
        branch.branches[f"{stem}[]"] = _Branch(name, f"{stem} \u00d7 {len(tracks)}", {}, tracks, True)
        branch.leaves = [track for track in branch.leaves if track not in tracks]


def _stem(label: str) -> str:
    """Return a name without its number."""
    return label.partition("[")[0]


def _in_order(
    branch: _Branch, skipped: Collection[int], leading: Collection[int]
) -> list[tuple[str, Track | _Branch]]:
    """Return tracks and groups in order: leading ones first; names of one stem together, at the first's
    place.
    """
    children: list[tuple[str, Track | _Branch]] = [
        (track.name.rsplit(".", 1)[-1], track) for track in branch.leaves if track.id not in skipped
    ]
    children += [(child.label, child) for child in branch.branches.values()]
    first: dict[str, int] = {}
    for label, child in children:
        number = child.id if isinstance(child, Track) else child.first()
        first[_stem(label)] = min(first.get(_stem(label), number), number)

    def place(item: tuple[str, Track | _Branch]) -> tuple[bool, int, Any]:
        is_leading = (item[1].id if isinstance(item[1], Track) else item[1].first()) in leading
        return not is_leading, first[_stem(item[0])], natural_key(item[0])

    return sorted(children, key=place)


class _Arrangement:
    """Collects rows from top to bottom; pinned tracks are at the top and not repeated below.

    owned  interval track -> its counters
    """

    def __init__(self, options: RowOptions, owned: Mapping[int, list[Track]]) -> None:
        self.rows: list[Row] = []
        self._options = options
        self._owned = owned

    def add_branch(self, branch: _Branch, depth: int) -> None:
        """Add the rows of a branch in the order of the machine, numbered names by number."""
        pinned, folded = self._options.pinned, self._options.folded
        for label, child in _in_order(branch, pinned, self._options.leading):
            if isinstance(child, Track):
                self.add_track(child, label, depth)
                counters = [each for each in self._owned.get(child.id, []) if each.id not in pinned]
                self._add_counters(child, counters, depth + 1)
            elif len(child.leaves) == 1 and not child.branches:
                # A group of one track gets no row for itself.
                only = child.leaves[0]
                if only.id not in pinned:
                    self.add_track(only, f"{label}.{only.name.rsplit('.', 1)[-1]}", depth)
            elif not self._add_group(
                label, child.name, depth, tuple(child.members()), child.is_folded or child.name in folded
            ):
                self.add_branch(child, depth + 1)

    def add_track(self, track: Track, label: str, depth: int) -> None:
        """Add the row of a track."""
        height = self._options.row_height
        self.rows.append(Row(track.kind, label, track.name, track.id, depth, self._bottom(), height))

    def _add_counters(self, owner: Track, counters: list[Track], depth: int) -> None:
        """Add counters under the track of their unit; more than MAX_COUNTERS as a group that begins
        folded.
        """
        if len(counters) > MAX_COUNTERS:
            if self._add_group(f"{len(counters)} counters", f"{owner.name}.counters", depth, (), True):
                return
            depth += 1
        for counter in counters:
            own_label = counter.name.removeprefix(owner.name).lstrip(".") or counter.name
            self.add_track(counter, own_label.rsplit(".", 1)[-1], depth)

    def _add_group(self, label: str, name: str, depth: int, members: tuple[int, ...], at_first: bool) -> bool:
        """Add the head of a group; return whether it is folded. `at_first`: it begins folded."""
        options = self._options
        # A group with hits of a filter begins open.
        is_folded = at_first and not options.filter_text and options.units is None
        folded = (name in options.collapsed) != is_folded
        height = options.row_height if folded else max(options.row_height - 2, 14)
        self.rows.append(Row("group", label, name, -1, depth, self._bottom(), height, members, folded))
        return folded

    def _bottom(self) -> int:
        return self.rows[-1].bottom if self.rows else 0


Zone = Literal["minimap", "ruler", "header", "border", "tracks"]


@dataclass(frozen=True, slots=True)
class Place:
    """What is at a pixel of the timeline.

    x    pixels from the left edge of the tracks
    y    pixels of the row layout
    row  the row at that height, or None
    """

    zone: Zone
    x: float
    y: float
    row: Row | None

    @property
    def track(self) -> int:
        """Track of the row, -1 for none."""
        return self.row.track if self.row else -1
