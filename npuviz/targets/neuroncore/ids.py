"""The target's id, and the numbers of memories and units in description, accesses and listing."""

from npuviz.targets.neuroncore.isa import NUM_ENGINES, NUM_PARTITIONS, Space
from npuviz.targets.neuroncore.spec import NeuronSpec

TARGET_ID = "neuroncore"
MEMORIES_PER_CORE = 2


def memory_of_space(core: int, space: int) -> int:
    """Return the memory id of a core's SBUF or PSUM (isa.Space)."""
    return core * MEMORIES_PER_CORE + (space - Space.SBUF)


def hbm_memory(spec: NeuronSpec) -> int:
    """Return the memory id of HBM, which all cores share."""
    return spec.num_cores * MEMORIES_PER_CORE


def partition_bytes(spec: NeuronSpec, space: int) -> int:
    """Return the bytes of a partition of SBUF or PSUM."""
    return spec.sbuf_partition_bytes if space == Space.SBUF else spec.psum_partition_bytes


def space_bytes(spec: NeuronSpec, space: int) -> int:
    """Return the bytes of a core's SBUF or PSUM."""
    return NUM_PARTITIONS * partition_bytes(spec, space)


def unit_of(core: int, engine: int) -> int:
    """Return the unit id of an engine, which is the number of its sequencer."""
    return core * NUM_ENGINES + engine


def host_unit(spec: NeuronSpec) -> int:
    """Return the unit id of the Host, which is the last sequencer."""
    return spec.num_cores * NUM_ENGINES


def dma_unit(spec: NeuronSpec, core: int, engine: int) -> int:
    """Return the unit id of a DMA engine."""
    return host_unit(spec) + 1 + core * spec.num_dma_engines + engine
