"""Collectives on grids with cores and ranks."""

import numpy as np
import pytest

from npuviz.targets.neuroncore.nki.record.errors import KernelError
from tests.targets.neuroncore.nki.running import SECOND, loaded, ran, random

_GATHER = """
@nki.jit
def kernel(x):
    core, rank = nl.program_id(0), ncc.rank_id()
    out = nl.ndarray((2, 3, 8, 12), dtype=x.dtype, buffer=nl.shared_hbm)
    own = nl.ndarray((8, 4), dtype=x.dtype, buffer=nl.sbuf)
    everything = nl.ndarray((8, 12), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=own, src=x[core, rank])
    ncc.all_gather(srcs=[own], dsts=[everything], replica_group=ncc.ReplicaGroup(GROUPS), collective_dim=1)
    nisa.dma_copy(dst=out[core, rank], src=everything)
    return out
"""


def test_each_core_of_a_rank_gathers_from_the_same_core_of_the_others(tmp_path) -> None:
    x = random(2, 3, 8, 4)
    found = ran(tmp_path, _text("[[0, 1, 2]]"), {"x": x}, grid="2x3")
    for core in range(2):
        for rank in range(3):
            assert np.array_equal(found[core, rank], np.concatenate(list(x[core]), axis=1))


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("2x3", r"all_gather among ranks \[0, 1, 3\]: the kernel has 3 instances; run it with --grid 4"),
        ("2x1", r"all_gather among ranks \[0, 1, 3\]: the kernel has one instance; run it with --grid 4"),
    ],
)
def test_ranks_that_the_grid_has_not_are_told(tmp_path, grid, message) -> None:
    with pytest.raises(KernelError, match=message):
        loaded(tmp_path, _text("[[0, 1, 3]]"), {"x": random(2, 3, 8, 4)}, grid=grid)


def _text(groups: str) -> str:
    return "import nki.collectives as ncc\n" + SECOND + _GATHER.replace("GROUPS", groups)
