"""nki.collectives among the instances of a kernel: a rank is the last coordinate of the grid.

Where the grid has more axes, instances that differ in the last one only exchange with each other: core 0 of
each rank with core 0 of the others.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from npuviz.targets.neuroncore.nki.calls.exchange import reduced
from npuviz.targets.neuroncore.nki.calls.instances import meeting
from npuviz.targets.neuroncore.nki.record.errors import KernelError
from npuviz.targets.neuroncore.nki.record.names import name_of
from npuviz.targets.neuroncore.nki.record.recording import current
from npuviz.targets.neuroncore.nki.record.tensors import HBM, Tensor

_REDUCTIONS = frozenset(("add", "minimum", "maximum", "max", "min"))
_NOTE = (
    "collectives: instances of the kernel are ranks on one core, what they exchange moves by DMA (assumed)"
)


class Posted(NamedTuple):
    """What a rank brings to a meeting: sources, results, and whatever the collective wants to know."""

    sources: Sequence[Tensor]
    results: Sequence[Tensor]
    more: Any = None


Meeting = dict[int, Posted]


class ReplicaGroup:
    """Ranks that exchange: lists of ranks, each with its own exchange."""

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self.groups = [[int(rank) for rank in group] for group in groups]

    def ranks_of(self, rank: int) -> list[int]:
        """The list that a rank is in. Raises KernelError."""
        for group in self.groups:
            if rank in group:
                return group
        raise KernelError(f"rank {rank} is in none of the groups {self.groups}")


def rank_id(name: Any = None) -> int:
    """The rank that runs: its instance of the grid."""
    program = current().program
    return program[-1] if program else 0


def exchange(
    what: str,
    srcs: object,
    dsts: object,
    ranks: Sequence[int],
    then: Callable[[Meeting, Sequence[int]], None],
    more: object = None,
) -> None:
    """Do `then` when all ranks are here, with what each of them brings. Raises KernelError."""
    given, wanted = _tensors(srcs, what), _tensors(dsts, what)
    if len(given) != len(wanted):
        raise KernelError(f"{what}: {len(given)} sources and {len(wanted)} results")
    recording = current()
    recording.note(_NOTE)
    own = rank_id()
    if len(ranks) == 1:
        then({own: Posted(given, wanted, more)}, ranks)
        return
    there = recording.grid[-1] if recording.grid else 1
    if max(ranks) >= there:
        has = "one instance" if there == 1 else f"{there} instances"
        needed = max(ranks) + 1
        raise KernelError(
            f"{what} among ranks {list(ranks)}: the kernel has {has}; run it with --grid {needed}"
        )
    members = [_instance(rank) for rank in ranks]

    def together(posted: dict[int, Posted]) -> None:
        then({rank: posted[number] for rank, number in zip(ranks, members, strict=True)}, ranks)

    meeting(what, members, Posted(given, wanted, more), together)


def _instance(rank: int) -> int:
    """The number of the instance that is a rank, with the other coordinates of the one that runs."""
    recording = current()
    number = 0
    for size, at in zip(recording.grid, (*recording.program[:-1], rank), strict=True):
        number = number * size + at
    return number


def _tensors(values: object, what: str) -> list[Tensor]:
    given: list[object] = list(values) if isinstance(values, list | tuple) else [values]
    found = [each for each in given if isinstance(each, Tensor)]
    if len(found) != len(given):
        raise KernelError(f"{what}: expected lists of tensors, found {values!r}")
    return found


def held(source: Tensor) -> Tensor:
    """A copy in HBM, so that results may overwrite what others still need."""
    made = current().new(source.shape, source.dtype, HBM, "exchanged")
    current().move(made, source)
    return made


def all_reduce(
    srcs: Any, dsts: Any, replica_group: ReplicaGroup, op: Any, priority: Any = None, name: Any = None
) -> None:
    """Each dst = the reduction of the ranks' sources."""
    check_reduction(op, "all_reduce")

    def then(posted: Meeting, ranks: Sequence[int]) -> None:
        for at in range(len(posted[ranks[0]].sources)):
            total = reduction([posted[rank].sources[at] for rank in ranks], op)
            for rank in ranks:
                current().move(posted[rank].results[at], total)

    exchange("all_reduce", srcs, dsts, replica_group.ranks_of(rank_id()), then)


def check_reduction(op: object, what: str) -> None:
    """Raise KernelError for an operator that does not reduce."""
    if name_of(op) not in _REDUCTIONS:
        raise KernelError(f"{what}: op {name_of(op)!r} is add, minimum or maximum")


def reduction(sources: Sequence[Tensor], op: object) -> Tensor:
    """The sources combined, in HBM."""
    made = current().new(sources[0].shape, sources[0].dtype, HBM, "reduced")
    reduced(made, sources, name_of(op))
    return made


def _part(tensor: Tensor, dim: int, at: int, count: int, what: str) -> Tensor:
    """Piece `at` of `count` of a dimension."""
    if tensor.shape[dim] % count:
        raise KernelError(f"{what}: {tensor!r} is not cut into {count} pieces in dimension {dim}")
    size = tensor.shape[dim] // count
    return tensor.slice(dim, at * size, (at + 1) * size)


def all_gather(
    srcs: Any,
    dsts: Any,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: Any = None,
    name: Any = None,
) -> None:
    """Each dst = the ranks' sources one after the other in a dimension."""

    def then(posted: Meeting, ranks: Sequence[int]) -> None:
        for at in range(len(posted[ranks[0]].sources)):
            kept = [held(posted[rank].sources[at]) for rank in ranks]
            for rank in ranks:
                for place, source in enumerate(kept):
                    target = _part(posted[rank].results[at], collective_dim, place, len(ranks), "all_gather")
                    current().move(target, source)

    exchange("all_gather", srcs, dsts, replica_group.ranks_of(rank_id()), then)


def reduce_scatter(
    srcs: Any,
    dsts: Any,
    replica_group: ReplicaGroup,
    collective_dim: int,
    op: Any,
    priority: Any = None,
    name: Any = None,
) -> None:
    """Each dst = its piece of the reduction of the ranks' sources."""
    check_reduction(op, "reduce_scatter")

    def then(posted: Meeting, ranks: Sequence[int]) -> None:
        for at in range(len(posted[ranks[0]].sources)):
            total = reduction([posted[rank].sources[at] for rank in ranks], op)
            for place, rank in enumerate(ranks):
                piece = _part(total, collective_dim, place, len(ranks), "reduce_scatter")
                current().move(posted[rank].results[at], piece)

    exchange("reduce_scatter", srcs, dsts, replica_group.ranks_of(rank_id()), then)


def all_to_all(
    srcs: Any,
    dsts: Any,
    replica_group: ReplicaGroup,
    collective_dim: int,
    priority: Any = None,
    name: Any = None,
) -> None:
    """Piece n of each source goes to rank n of the group."""

    def then(posted: Meeting, ranks: Sequence[int]) -> None:
        for at in range(len(posted[ranks[0]].sources)):
            kept = [held(posted[rank].sources[at]) for rank in ranks]
            for place, rank in enumerate(ranks):
                for sender, source in enumerate(kept):
                    target = _part(posted[rank].results[at], collective_dim, sender, len(ranks), "all_to_all")
                    current().move(target, _part(source, collective_dim, place, len(ranks), "all_to_all"))

    exchange("all_to_all", srcs, dsts, replica_group.ranks_of(rank_id()), then)


def collective_permute(
    srcs: Any, dsts: Any, source_target_pairs: Any, priority: Any = None, name: Any = None
) -> None:
    """Each source goes to the dst of the rank that it is paired with."""
    pairs = [(int(first), int(second)) for first, second in source_target_pairs]

    def then(posted: Meeting, ranks: Sequence[int]) -> None:
        for at in range(len(posted[ranks[0]].sources)):
            kept = {first: held(posted[first].sources[at]) for first, _ in pairs}
            for first, second in pairs:
                current().move(posted[second].results[at], kept[first])

    exchange("collective_permute", srcs, dsts, sorted({rank for pair in pairs for rank in pair}), then)
