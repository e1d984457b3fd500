"""Collectives whose counts or partners are known only when the program runs.

What decides is read while the kernel is recorded, as other values of the chip: the program is the one for it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from npuviz.targets.neuroncore.nki.calls.collectives import (
    Meeting,
    ReplicaGroup,
    check_reduction,
    exchange,
    held,
    rank_id,
    reduction,
)
from npuviz.targets.neuroncore.nki.calls.dynamic import VirtualRegister
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.index import whole
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import Tensor


class _Sizes(NamedTuple):
    """What a rank says about its part of an exchange, for each rank of the group in the group's order.

    table   where that was read, and where counts are written to; None if they are not
    counts, starts  elements that it sends, and where they begin
    places  where it puts what it receives
    """

    table: Tensor | None
    counts: Sequence[int]
    starts: Sequence[int]
    places: Sequence[int]


def all_gather_v(
    srcs: Any,
    dsts: Any,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: Any = None,
    name: Any = None,
) -> None:
    """Each dst = the ranks' sources, of each the part that its rank says."""
    sizes = _sizes("all_gather_v", dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls)
    counts, starts = ([row[0]] * len(row) for row in (sizes.counts, sizes.starts))
    _counted("all_gather_v", srcs, dsts, replica_group, sizes._replace(counts=counts, starts=starts))


def all_to_all_v(
    srcs: Any,
    dsts: Any,
    replica_group: ReplicaGroup,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: Any = None,
    name: Any = None,
) -> None:
    """Parts of each source, as its rank says, go to the ranks of the group."""
    sizes = _sizes("all_to_all_v", dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls)
    _counted("all_to_all_v", srcs, dsts, replica_group, sizes)


def _sizes(
    what: str, dsts: Any, group: ReplicaGroup, metadata: Any, is_known: bool, has_places: bool
) -> _Sizes:
    """The values of a table of 3 or 4 rows with a column for each rank. Raises KernelError."""
    ranks, rows = len(group.ranks_of(rank_id())), 4 if has_places else 3
    if not isinstance(metadata, Tensor) or metadata.dtype != np.uint32 or metadata.size != rows * ranks:
        raise KernelError(f"{what}: metadata {metadata!r} is no uint32 tensor of {rows} x {ranks}")
    target = _only(dsts, what)
    found = current().observed(metadata).reshape(rows, ranks).astype(int).tolist()
    places = found[3] if has_places else [target.size // ranks * at for at in range(ranks)]
    return _Sizes(None if is_known else metadata, found[0], found[1], places)


def _only(tensors: Any, what: str) -> Tensor:
    if isinstance(tensors, list | tuple) and len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return tensors[0]
    raise KernelError(f"{what}: expected a list of one tensor, found {tensors!r}")


def _counted(what: str, srcs: Any, dsts: Any, group: ReplicaGroup, sizes: _Sizes) -> None:
    _only(srcs, what)

    def then(posted: Meeting, ranks: Sequence[int]) -> None:
        given = {rank: posted[rank].more for rank in ranks}
        sources = {rank: held(posted[rank].sources[0]).reshape(-1) for rank in ranks}
        for column, rank in enumerate(ranks):
            target = posted[rank].results[0].reshape(-1)
            for at, sender in enumerate(ranks):
                start, count = given[sender].starts[column], given[sender].counts[column]
                place = given[rank].places[at]
                source = sources[sender]
                if start + count > source.size or place + count > target.size:
                    raise KernelError(
                        f"{what}: {count} elements from {start} of rank {sender} to {place} of rank {rank}: "
                        f"source and result have {source.size} and {target.size}"
                    )
                if count:
                    current().move(target[place : place + count], source[start : start + count])
            _say_counts(given[rank].table, [given[sender].counts[column] for sender in ranks])

    exchange(what, srcs, dsts, group.ranks_of(rank_id()), then, sizes)


def _say_counts(table: Tensor | None, counts: Sequence[int]) -> None:
    """Write how many elements came from each rank to row 2 of a rank's table, if it wants to know."""
    if table is None:
        return
    rows = table.reshape(1, -1, len(counts)) if table.is_on_chip else table.reshape(-1, len(counts))
    row = rows[:, 2, :] if table.is_on_chip else rows[2:3, :]
    current().move(row, current().constant(np.array([counts], np.uint32), "counts"))


def collective_permute_implicit(
    srcs_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: ReplicaGroup,
    channel_ids: Sequence[int] = (0,),
    priority: Any = None,
    name: Any = None,
) -> None:
    """Each source goes to the next rank of a ring."""
    what = "collective_permute_implicit"
    _to_next(
        what, _by_channel(srcs_by_channel, channel_ids, what), dsts_by_channel, replica_group, channel_ids
    )


def collective_permute_implicit_reduce(
    srcs0_by_channel: Any,
    srcs1_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: ReplicaGroup,
    op: Any,
    channel_ids: Sequence[int] = (0,),
    priority: Any = None,
    name: Any = None,
) -> None:
    """Two sources are combined, which goes to the next rank of a ring."""
    what = "collective_permute_implicit_reduce"
    check_reduction(op, what)
    pairs = zip(
        _by_channel(srcs0_by_channel, channel_ids, what),
        _by_channel(srcs1_by_channel, channel_ids, what),
        strict=True,
    )
    _to_next(what, [reduction(pair, op) for pair in pairs], dsts_by_channel, replica_group, channel_ids)


def _by_channel(tensors: Any, channels: Sequence[int], what: str) -> list[Tensor]:
    """The only tensor of each channel. Raises KernelError."""
    if list(channels) != list(range(len(channels))) or not 1 <= len(channels) <= 4:
        raise KernelError(f"{what}: channels {list(channels)} count from 0, at most 4")
    if not isinstance(tensors, list | tuple) or len(tensors) != len(channels):
        raise KernelError(f"{what}: expected a list of one tensor for each of {len(channels)} channels")
    return [_only(each, what) for each in tensors]


def _to_next(
    what: str, sources: Sequence[Tensor], results: Any, group: ReplicaGroup, channels: Sequence[int]
) -> None:
    current().note("a ring of ranks goes in the order of its replica group, on all channels (assumed)")

    def then(posted: Meeting, ranks: Sequence[int]) -> None:
        for at in range(len(sources)):
            sent = [held(posted[rank].sources[at]) for rank in ranks]
            for place, source in enumerate(sent):
                current().move(posted[ranks[(place + 1) % len(ranks)]].results[at], source)

    exchange(what, list(sources), _by_channel(results, channels, what), group.ranks_of(rank_id()), then)


def collective_permute_implicit_current_processing_rank_id(
    iteration_id: Any, replica_group: ReplicaGroup, channel_id: int = 0, name: Any = None
) -> VirtualRegister:
    """The rank whose data a rank has after so many steps of a ring: its own at first."""
    ranks = replica_group.ranks_of(rank_id())
    return VirtualRegister(ranks[(ranks.index(rank_id()) - whole(iteration_id)) % len(ranks)])
