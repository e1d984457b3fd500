"""Divide transfers into contiguous elements, and these among the rings of the queue set; compute costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.neuroncore.isa import NUM_PARTITIONS
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.latencies import transfer_factors
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Tables

COMPUTING = ("add", "fma", "min", "max")
COST_UNIT = 1024
"""Units of `element_cost` in a cycle."""


@dataclass(frozen=True, slots=True)
class RingParts:
    """Parts (equal elements of one descriptor) of all transfers, by ring.

    offsets    (transfers, MAX_RINGS + 1) int64: parts of ring r are rows offsets[t, r]..offsets[t, r+1]-1
    rows       (m, PART.num_words) int64
    num_bytes  (transfers,) int64
    """

    offsets: np.ndarray
    rows: np.ndarray
    num_bytes: np.ndarray


class Move(NamedTuple):
    """Elements of a descriptor: their number, cost (base cycles / 1024) and bytes of each, number by ring.

    shares  None: the elements are divided equally among the rings
    """

    number: int
    cost: int
    size: int
    shares: tuple[int, ...] | None


def contiguous_run(access: Access, partition_bytes: int) -> int:
    """Return the bytes of the pattern's contiguous runs; a run never leaves an SBUF partition."""
    if not access.sizes or access.steps[0] != 1:
        return 1
    run = access.sizes[0]
    for size, step in zip(access.sizes[1:], access.steps[1:], strict=True):
        if step != run:
            break
        run *= size
    return gcd(run, partition_bytes) if access.variable == SBUF and run > partition_bytes else run


def elements_of(descriptor: Descriptor, spec: NeuronSpec) -> tuple[int, int]:
    """Return (number of elements, bytes of each) that DMA engines move for a descriptor.

    An element is contiguous on both sides and has at most dma_max_element_bytes. Ref: DMA-O.
    """
    pitch = spec.sbuf_partition_bytes
    to, source = descriptor.to, descriptor.sources[0]
    total = to.num_bytes
    run = contiguous_run(to, pitch)
    if descriptor.op == "copy":
        run = gcd(run, contiguous_run(source, pitch))
    elif descriptor.op != "transpose":
        # Sides of different types: runs are compared in elements of the types.
        mine, other = numpy_dtype(to.dtype).itemsize, numpy_dtype(source.dtype).itemsize
        run = max(gcd(run // mine, contiguous_run(source, pitch) // other), 1) * mine
    while run > spec.dma_max_element_bytes:
        run = run // 2 if run % 2 == 0 else gcd(run, spec.dma_max_element_bytes)
    run = max(run, 1)
    return max(1, total // run), run


def engine_shares(descriptor: Descriptor, rings: int, spec: NeuronSpec) -> tuple[int, ...] | None:
    """Return the number of elements that each ring of a queue set moves; None if SBUF does not decide that.

    Ref: DMA-O: each DMA engine moves the data of 8 partitions (128 by 16 engines), 4 rows take one engine.
    """
    access = next((each for each in (descriptor.to, descriptor.sources[0]) if each.variable == SBUF), None)
    if access is None or rings < 2:
        return None
    count, _ = elements_of(descriptor, spec)
    return _shares_of(access.steps, access.sizes, access.offset, spec.sbuf_partition_bytes, rings, count)


@lru_cache(maxsize=1 << 14)
def _shares_of(
    steps: tuple[int, ...], sizes: tuple[int, ...], offset: int, pitch: int, rings: int, count: int
) -> tuple[int, ...] | None:
    """Return the elements by ring of a pattern in SBUF; None if it crosses from one partition to the next."""
    partitions, reach = np.array([offset // pitch]), offset % pitch
    for step, size in zip(steps, sizes, strict=True):
        if step % pitch == 0 and size > 1:
            partitions = np.add.outer(partitions, np.arange(size) * (step // pitch)).ravel()
        else:
            reach += (size - 1) * max(step, 0)
    low, high = int(partitions.min()), int(partitions.max())
    if reach >= pitch or count % len(partitions) or low < 0 or high >= NUM_PARTITIONS:
        return None
    shares = np.bincount(partitions * rings // NUM_PARTITIONS, minlength=rings) * (count // len(partitions))
    return tuple(shares.tolist())


def element_cost(descriptor: Descriptor, num_bytes: int, spec: NeuronSpec) -> int:
    """Return the cost of one element in base cycles / COST_UNIT."""
    rate = spec.dma_peak_bytes_per_ns
    if descriptor.op in COMPUTING:
        rate *= spec.dma_compute_rate
        num_bytes *= len(descriptor.sources)
    elif descriptor.op == "transpose":
        rate *= spec.dma_transpose_rate
    return max(1, round(spec.element_ns(num_bytes, rate) * spec.base_hz * COST_UNIT / 1e9))


def engine_cycles(descriptors: Sequence[Descriptor], rings: int, spec: NeuronSpec) -> float:
    """Return the base cycles of a transfer on the busiest ring of its queue set."""
    busy = np.zeros(rings)
    for descriptor in descriptors:
        count, size = elements_of(descriptor, spec)
        shares = engine_shares(descriptor, rings, spec)
        busy += element_cost(descriptor, size, spec) * (
            np.full(rings, count / rings) if shares is None else np.array(shares)
        )
    return float(busy.max()) / COST_UNIT


def ring_parts(spec: NeuronSpec, tables: Tables) -> RingParts:
    """Build the parts of every transfer, by ring of its queue set."""
    known: dict[tuple[object, ...], int] = {}
    patterns: list[list[int]] = []
    rows: list[tuple[int, int, int]] = []
    chosen = np.zeros(len(tables.transfers), dtype=np.int64)
    num_bytes = np.zeros(len(tables.transfers), dtype=np.int64)
    factors = transfer_factors(spec, tables).tolist()
    for number, transfer in enumerate(tables.transfers):
        rings = 1 if transfer.first_queue else tables.queue_sets[transfer.queue].num_queues
        moves: list[Move] = []
        for descriptor in transfer.descriptors:
            count, size = elements_of(descriptor, spec)
            cost = max(1, round(element_cost(descriptor, size, spec) * factors[number]))
            moves.append(Move(count, cost, size, engine_shares(descriptor, rings, spec)))
            num_bytes[number] += prod(descriptor.to.sizes)
        key = (rings, *moves)
        if key not in known:
            known[key] = len(patterns)
            patterns.append(_share_out(moves, rings, rows))
        chosen[number] = known[key]
    offsets = np.array(patterns, dtype=np.int64).reshape(len(patterns), sk.MAX_RINGS + 1)
    return RingParts(
        offsets[chosen] if len(patterns) else offsets,
        np.array(rows, dtype=np.int64).reshape(len(rows), sk.PART.num_words),
        num_bytes,
    )


def _share_out(moves: list[Move], rings: int, rows: list[tuple[int, int, int]]) -> list[int]:
    """Append one transfer's parts to `rows`, ring by ring; return the first row of each ring, and the end.

    Moves with `shares` are divided by partitions of SBUF, others equally.
    """
    total = sum(move.number for move in moves if move.shares is None)
    offsets: list[int] = []
    for ring in range(sk.MAX_RINGS):
        offsets.append(len(rows))
        if ring >= rings:
            continue
        low, high = total * ring // rings, total * (ring + 1) // rings
        place = 0
        for move in moves:
            if move.shares is not None:
                mine = move.shares[ring]
            else:
                mine = min(high, place + move.number) - max(low, place)
                place += move.number
            if mine > 0:
                rows.append((mine, move.cost, move.size))
    offsets.append(len(rows))
    return offsets
