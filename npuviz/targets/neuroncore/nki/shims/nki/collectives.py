"""Stand-in for nki.collectives."""

from npuviz.targets.neuroncore.nki.calls.collectives import (
    ReplicaGroup,
    all_gather,
    all_reduce,
    all_to_all,
    collective_permute,
    rank_id,
    reduce_scatter,
)
from npuviz.targets.neuroncore.nki.calls.collectives_at_run_time import (
    all_gather_v,
    all_to_all_v,
    collective_permute_implicit,
    collective_permute_implicit_current_processing_rank_id,
    collective_permute_implicit_reduce,
)

__all__ = [
    "ReplicaGroup", "all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v",
    "collective_permute", "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id", "collective_permute_implicit_reduce", "rank_id",
    "reduce_scatter",
]  # fmt: skip


def __getattr__(name: str) -> object:
    raise AttributeError(f"nki.collectives.{name} is not in the public documentation")
