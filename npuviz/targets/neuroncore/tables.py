"""The tables of a decoded NeuronCore program, from which machine, values and listing are made.

The compiler makes them from an ONNX graph (`compiler/`), the loader from a NEFF (`neff/`); both give
equal tables for the same program.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Literal

import numpy as np

SBUF = -1
"""`Access.variable` of the on-chip state buffer of the core that owns the queue."""

VariableKind = Literal["input", "output", "constant", "scratch"]
DescriptorOp = Literal["copy", "cast", "add", "fma", "min", "max", "transpose"]
TriggerKind = Literal["static", "hardware DGE", "software DGE"]


@dataclass(frozen=True)
class Variable:
    """A buffer in HBM, row-major.

    id       index in `Tables.variables`; address  byte address in HBM, aligned to 64
    dtype    name of npuviz.program.dtypes; shape  of the data, () for a scalar
    data     initial contents of a constant as an array of `shape` and `dtype` (may have zero steps),
             else None
    tensor   graph tensor it holds, -1 if none; input and output variables of one tensor share its id
    """

    id: int
    name: str
    kind: VariableKind
    address: int
    size_bytes: int
    dtype: str
    shape: tuple[int, ...]
    data: np.ndarray | None = None
    tensor: int = -1


@dataclass(frozen=True, slots=True)
class Access:
    """A byte pattern of a variable, as NEFF descriptors have it. Ref: NEFFDOC.

    variable  index in `Tables.variables`, or SBUF
    offset    byte offset; in SBUF partition * partition_bytes + offset in the partition
    steps, sizes  innermost first; steps in bytes, the first size in bytes, the others counts
    dtype     name of npuviz.program.dtypes, for computing descriptors
    """

    variable: int
    offset: int
    steps: tuple[int, ...]
    sizes: tuple[int, ...]
    dtype: str = "uint8"

    @property
    def num_bytes(self) -> int:
        """Accessed bytes: the product of the sizes."""
        return prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One DMA movement. Ref: NEFFDOC.

    sources   one access for copy, cast and transpose; up to 16 for add, fma, min, max
    scales    by source, for fma; constant  initial value of min and max, or None
    transpose_shape, element_size  of a transpose
    """

    op: DescriptorOp
    to: Access
    sources: tuple[Access, ...]
    scales: tuple[float, ...] = ()
    constant: float | None = None
    transpose_shape: tuple[int, ...] = ()
    element_size: int = 0


@dataclass(frozen=True, slots=True)
class QueueSet:
    """Hardware queues that serve the transfers of one purpose, in order.

    num_queues  number of rings, each on a different DMA engine (1..16)
    semaphore   semaphore of the core to which a finished transfer adds num_queues, -1 if none
    """

    id: int
    name: str
    core: int
    owner: int
    num_queues: int
    semaphore: int = -1


@dataclass(frozen=True, slots=True)
class Transfer:
    """The descriptors that one trigger starts on a queue set.

    id          number of the trigger, unique in its core (static: `id` of NEFF)
    first_queue whether it uses the first queue of the set only (section_start_desc)
    semaphore   incremented by num_queues at the end, -1 if none;  event  set at the end, -1 if none
    remote_semaphores  semaphores of the other core (LNC 2), incremented likewise
    """

    id: int
    core: int
    queue: int
    descriptors: tuple[Descriptor, ...]
    trigger: TriggerKind = "static"
    semaphore: int = -1
    event: int = -1
    remote_semaphores: tuple[int, ...] = ()
    first_queue: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements of a graph tensor that lie in SBUF or PSUM right after an instruction has completed.

    operand   position of the instruction's operand that holds them (isa.DST ...)
    base, partition_step, steps  flat element index in the tensor of operand element (p, i0..i3) is
              base + p * partition_step + sum(i_k * steps[k])
    """

    tensor: int
    instruction: int
    operand: int
    base: int
    partition_step: int
    steps: tuple[int, int, int, int]


ALLOCATION_DTYPE = np.dtype(
    [
        ("core", np.int32),
        ("space", np.int32),
        ("address", np.int64),
        ("size_bytes", np.int64),
        ("partitions", np.int32),
        ("tensor", np.int32),
        ("first", np.int64),
        ("last", np.int64),
    ]
)
"""The lifetime of a tile in SBUF or PSUM (isa.Space): bytes address..address+size_bytes of partitions
0..partitions-1, from the issue of instruction `first` to the completion of `last` (or of the transfer
that it triggers). `tensor` is the graph tensor it holds, -1 if none."""


@dataclass(frozen=True)
class Tables:
    """A program. Instructions of a sequencer are consecutive and in program order; the sequencers are
    in the order core 0 PE, Activation, Pool, DVE, SP, core 1 PE ..., Host.

    instructions  (n,) isa.INSTRUCTION_DTYPE
    sequencers    (5 * num_cores + 1, 2) int64: half-open instruction ranges
    nodes, tiles  (n,) int32: graph node and tile of each instruction, -1 if none
    transfer_of   (n,) int32: index in `transfers` that an instruction triggers, -1 if none
    pieces        parts of tensors that never reach HBM, for the check; may be empty
    allocations   (k,) ALLOCATION_DTYPE; may be empty (other tools' NEFFs do not have them)
    tile_names    names of the allocations in the program's text, "" for unnamed ones; may be empty
    tile_aliases  further names of each allocation there; may be empty
    tile_bytes    bytes a partition of the allocations of such a text, without what rounding up to banks or
                  aligned places adds; may be empty
    outputs       graph output tensor -> variable that holds it at the end
    semaphore_uses  (core, semaphore) -> name of its updater, for display
    """

    num_cores: int
    instructions: np.ndarray
    sequencers: np.ndarray
    nodes: np.ndarray
    tiles: np.ndarray
    transfer_of: np.ndarray
    transfers: tuple[Transfer, ...]
    queue_sets: tuple[QueueSet, ...]
    variables: tuple[Variable, ...]
    pieces: tuple[Piece, ...] = ()
    allocations: np.ndarray = field(default_factory=lambda: np.zeros(0, ALLOCATION_DTYPE))
    tile_names: tuple[str, ...] = ()
    tile_aliases: tuple[tuple[str, ...], ...] = ()
    tile_bytes: tuple[int, ...] = ()
    outputs: Mapping[int, int] = field(default_factory=dict[int, int])
    semaphore_uses: Mapping[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
