"""Measure how well transfers use the DMA engines: element sizes, and time against the peak rate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from npuviz.base.units import format_count, format_share
from npuviz.targets.neuroncore.machine.dma_elements import COST_UNIT, element_cost, elements_of, engine_cycles
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Descriptor, QueueSet, Transfer

SMALL_BYTES = 512
"""Smaller elements are marked. Assumed: DMA-B has below 256 bound by overhead, 2 KiB near the peak rate."""


@dataclass(frozen=True, slots=True)
class DmaShape:
    """The work that one transfer, or several together, give the DMA engines.

    descriptors  number of elements: contiguous bytes on both sides, which the engines move one by one
    small        number of elements below SMALL_BYTES
    least, most  bytes of the smallest and the largest element
    num_bytes    bytes of all elements
    cycles       engine cycles of all elements; ideal  at the peak rate, without overhead of each element
    held         cycles until the last engine of the queue set is done, times its engines (idle ones too)
    """

    descriptors: int = 0
    small: int = 0
    least: int = 0
    most: int = 0
    num_bytes: int = 0
    cycles: float = 0.0
    ideal: float = 0.0
    held: float = 0.0

    def __add__(self, other: "DmaShape") -> "DmaShape":
        if not self.descriptors or not other.descriptors:
            return self if self.descriptors else other
        return DmaShape(
            self.descriptors + other.descriptors,
            self.small + other.small,
            min(self.least, other.least),
            max(self.most, other.most),
            self.num_bytes + other.num_bytes,
            self.cycles + other.cycles,
            self.ideal + other.ideal,
            self.held + other.held,
        )

    def times(self, count: int) -> "DmaShape":
        """Return the shape of `count` such transfers together."""
        return replace(
            self,
            descriptors=self.descriptors * count,
            small=self.small * count,
            num_bytes=self.num_bytes * count,
            cycles=self.cycles * count,
            ideal=self.ideal * count,
            held=self.held * count,
        )

    @property
    def efficiency(self) -> float:
        """Achieved share of the peak rate of the queue set's engines, 0 to 1."""
        return self.ideal / self.held if self.held else 0.0

    @property
    def size_text(self) -> str:
        """Bytes of an element as text, with the number of elements that are too small."""
        size = str(self.most) if self.least == self.most else f"{self.least} to {self.most}"
        if not self.small:
            return size
        which = "" if self.small == self.descriptors else f"{self.small} of them "
        return f"{size} ({which}below {SMALL_BYTES})"


class DmaShapes:
    """Measures transfers; equal descriptors once."""

    def __init__(self, spec: NeuronSpec, queue_sets: Sequence[QueueSet]) -> None:
        self._spec = spec
        self._queue_sets = queue_sets
        self._known: dict[tuple[object, ...], DmaShape] = {}
        self._held: dict[tuple[object, ...], float] = {}

    def of(self, transfer: Transfer) -> DmaShape:
        """Return the shape of a transfer."""
        found = DmaShape()
        for descriptor in transfer.descriptors:
            found += self._of_descriptor(descriptor)
        rings = 1 if transfer.first_queue else self._queue_sets[transfer.queue].num_queues
        key = (rings, *((_key(each), *self._partitions(each)) for each in transfer.descriptors))
        if key not in self._held:
            self._held[key] = rings * engine_cycles(transfer.descriptors, rings, self._spec)
        return replace(found, held=self._held[key])

    def _partitions(self, descriptor: Descriptor) -> tuple[int, ...]:
        """Return the first partition of target and first source; -1 outside of SBUF."""
        pitch = self._spec.sbuf_partition_bytes
        sides = (descriptor.to, descriptor.sources[0])
        return tuple(each.offset // pitch if each.variable == SBUF else -1 for each in sides)

    def _of_descriptor(self, descriptor: Descriptor) -> DmaShape:
        key = _key(descriptor)
        if key not in self._known:
            self._known[key] = self._measured(descriptor)
        return self._known[key]

    def _measured(self, descriptor: Descriptor) -> DmaShape:
        spec = self._spec
        count, size = elements_of(descriptor, spec)
        cycles = count * element_cost(descriptor, size, spec) / COST_UNIT
        ideal = count * size / spec.dma_peak_bytes_per_ns * spec.base_hz / 1e9
        return DmaShape(
            count, count * (size < SMALL_BYTES), size, size, count * size, cycles, min(ideal, cycles)
        )


def _key(descriptor: Descriptor) -> tuple[object, ...]:
    """Return the fields that decide the elements of a descriptor and their cost."""
    to, source = descriptor.to, descriptor.sources[0]
    return (
        descriptor.op, len(descriptor.sources), to.steps, to.sizes, to.dtype, to.variable < 0,
        source.steps, source.sizes, source.dtype, source.variable < 0,
    )  # fmt: skip


def rows_by_line(
    shapes: Mapping[str, DmaShape], counts: Mapping[str, int], limit: int
) -> list[tuple[str, ...]]:
    """Return a table row for each line with transfers; first those that lose most engine time."""
    order = sorted(shapes, key=lambda name: shapes[name].ideal - shapes[name].held)
    return [
        (
            name, format_count(counts[name]), format_count(shape.num_bytes), format_count(shape.descriptors),
            shape.size_text, format_share(shape.efficiency, 0),
        )
        for name in order[:limit]
        for shape in (shapes[name],)
    ]  # fmt: skip
