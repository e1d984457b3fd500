"""Enumerations of nki.isa that both generations have."""

from enum import Enum, IntEnum


class engine(IntEnum):
    """Engines."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6


class reduce_cmd(IntEnum):
    """Commands of the accumulators."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4


class dge_mode_first(IntEnum):
    """How descriptors are made, generation 1."""

    none = 0
    swdge = 1
    hwdge = 2
    unknown = 3


class dge_mode_second(IntEnum):
    """How descriptors are made, generation 2."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3


class oob_mode(IntEnum):
    """What happens beyond a tensor's end."""

    error = 0
    skip = 1


class matmul_perf_mode(Enum):
    """Faster kinds of products."""

    none = "none"
    double_row = "double_row"


class nc_version(IntEnum):
    """Generations of the core."""

    gen2 = 2
    gen3 = 3
    gen4 = 4


class dma_engine(IntEnum):
    """Who moves."""

    dma = 1
    gpsimd_dma = 2
