"""Find the earlier work an instruction must wait for: flow, anti and output dependencies of byte boxes.

Work is identified by channel and position. A channel completes its work in order: an engine (position:
instruction in its program) or a queue set (position: transfer). "Done up to n" of a channel means that
the positions 0..n-1 have completed.

For every engine, the tracker knows the progress of each channel that is certain when the engine's next
instruction issues; it makes no waits for progress that is certain (transitive pruning).
"""

from collections.abc import Iterable

from npuviz.targets.neuroncore.compiler.patterns.tile import Box, Region

_MAX_RECORDS = 96
"""Most records of a region, before they are merged into fewer, larger ones."""


class Tracker:
    """Finds and prunes the waits of a program under construction.

    num_engines  channels 0..num_engines-1 are engines (with Host and triggers), the others queue sets
    """

    def __init__(self, num_engines: int, num_channels: int) -> None:
        self.num_engines = num_engines
        self.num_channels = num_channels
        self.known: list[list[int]] = [[0] * num_channels for _ in range(num_engines)]
        self._frozen: list[tuple[int, ...] | None] = [None] * num_engines
        # By channel and position: the progress of channels that was certain when the work issued.
        self.certain: list[list[tuple[int, ...]]] = [[] for _ in range(num_channels)]

    def length(self, channel: int) -> int:
        """Return the number of positions used on a channel so far."""
        return len(self.certain[channel])

    # Dependencies --------------------------------------------------------------------------------

    def needs_of(
        self,
        engine: int,
        reads: Iterable[tuple[Region, Box]],
        writes: Iterable[tuple[Region, Box]],
        own: int,
        accumulates: bool = False,
    ) -> dict[int, int]:
        """Return what the next instruction of `engine` must wait for, {channel: done up to}.

        own          channel on which the work completes (the engine, or the queue of its transfer); anti
        dependencies within it need no waits
        accumulates  whether output dependencies within `own` need no waits either (PE adding to PSUM)
        """
        known = self.known[engine]
        needs: dict[int, int] = {}
        for region, box in reads:
            if region.prior and own not in region.settled:
                _need_prior(region, own, known, needs)
            _need(region.writes, box, known, needs, -1)
        for region, box in writes:
            if region.prior and own not in region.settled:
                _need_prior(region, own, known, needs)
            _need(region.writes, box, known, needs, own if accumulates else -1)
            _need(region.reads, box, known, needs, own)
        return needs

    def pruned(self, engine: int, needs: dict[int, int]) -> list[tuple[int, int]]:
        """Return the waits (channel, done up to) that imply all `needs`, which are certain for the engine
        then.
        """
        known = self.known[engine]
        if not needs:
            return []
        implied = {channel: self.certain[channel][count - 1] for channel, count in needs.items()}
        waits = [
            (channel, count)
            for channel, count in needs.items()
            if not any(other != channel and certain[channel] >= count for other, certain in implied.items())
        ]
        for channel, count in waits:
            for index, value in enumerate(implied[channel]):
                if value > known[index]:
                    known[index] = value
            known[channel] = max(known[channel], count)
        self._frozen[engine] = None
        return waits

    def take_back(self, lengths: tuple[int, ...], known: tuple[tuple[int, ...], ...]) -> None:
        """Forget all work from the positions `lengths` on, and restore the certain progress `known`."""
        for positions, length in zip(self.certain, lengths, strict=True):
            del positions[length:]
        self.known = [list(each) for each in known]
        self._frozen = [None] * self.num_engines

    # Records -------------------------------------------------------------------------------------

    def issue(self, engine: int, queue: int = -1) -> int:
        """Use the next position of an engine, and of the queue its trigger fills; return the engine's."""
        frozen = self._frozen[engine]
        if frozen is None:
            frozen = self._frozen[engine] = tuple(self.known[engine])
        position = len(self.certain[engine])
        self.certain[engine].append(frozen)
        if queue >= 0:
            certain = list(frozen)
            certain[engine] = position + 1
            self.certain[queue].append(tuple(certain))
        return position

    def record(
        self,
        channel: int,
        position: int,
        reads: Iterable[tuple[Region, Box]],
        writes: Iterable[tuple[Region, Box]],
    ) -> None:
        """Record the accesses of the work at `position` of `channel`."""
        for region, box in reads:
            records = region.reads
            records[(box, channel)] = position
            if len(records) > _MAX_RECORDS:
                _merge(records)
        for region, box in writes:
            _forget_covered(region.writes, box)
            if region.reads:
                _forget_covered(region.reads, box)
            region.writes[(box, channel)] = position
            if len(region.writes) > _MAX_RECORDS:
                _merge(region.writes)


def _need_prior(region: Region, own: int, known: list[int], needs: dict[int, int]) -> None:
    # Work of `own` counts too, as it may have written the bytes that are read or written now.
    for channel, count in region.prior.items():
        if count > known[channel] and count > needs.get(channel, 0):
            needs[channel] = count
    region.settled.add(own)


def _need(
    records: dict[tuple[Box, int], int], box: Box, known: list[int], needs: dict[int, int], skip: int
) -> None:
    p0, p1, b0, b1 = box
    for (other, channel), position in records.items():
        if (
            position >= known[channel]
            and channel != skip
            and other[2] < b1
            and b0 < other[3]
            and other[0] < p1
            and p0 < other[1]
            and position >= needs.get(channel, 0)
        ):
            needs[channel] = position + 1


def _forget_covered(records: dict[tuple[Box, int], int], box: Box) -> None:
    p0, p1, b0, b1 = box
    covered = [
        key for key in records if b0 <= key[0][2] and key[0][3] <= b1 and p0 <= key[0][0] and key[0][1] <= p1
    ]
    for key in covered:
        del records[key]


def _merge(records: dict[tuple[Box, int], int]) -> None:
    """Merge records to one bounding box a channel, which can only make waits longer than needed."""
    merged: dict[int, tuple[Box, int]] = {}
    for (box, channel), position in records.items():
        found = merged.get(channel)
        if found is None:
            merged[channel] = (box, position)
            continue
        old, last = found
        bounds = (min(old[0], box[0]), max(old[1], box[1]), min(old[2], box[2]), max(old[3], box[3]))
        merged[channel] = (bounds, max(last, position))
    records.clear()
    for channel, (box, position) in merged.items():
        records[(box, channel)] = position
