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
from npuviz.targets.neuroncore.nki.record.guarding import guard as _guard
from npuviz.targets.neuroncore.nki.rules import names as _names

__all__ = [
    "ReplicaGroup", "all_gather", "all_gather_v", "all_reduce", "all_to_all", "all_to_all_v",
    "collective_permute", "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id", "collective_permute_implicit_reduce", "rank_id",
    "reduce_scatter",
]  # fmt: skip
__getattr__ = _names.keep_public(globals(), "nki.collectives", tuple(__all__), (), 2)

_guard(globals(), "nki.collectives")
