"""Stand-in for nki.isa.constants."""

from npuviz.targets.neuroncore.nki.calls.isa.second import (
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from npuviz.targets.neuroncore.nki.rules import names as _names

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
__getattr__ = _names.keep_public(globals(), "nki.isa.constants", tuple(__all__), (), 2)
