"""Describe a NeuronCore machine to the panels: units, memories, queues, links, tracks, kinds, limits."""

from dataclasses import dataclass

import numpy as np

from npuviz.sim.description import ClockDomain, Link, MachineDescription, Memory, Queue, Unit
from npuviz.targets.neuroncore.ids import dma_unit, hbm_memory, host_unit, space_bytes, unit_of
from npuviz.targets.neuroncore.isa import (
    ENGINE_NAMES,
    NUM_ENGINES,
    NUM_PARTITIONS,
    PRODUCT_NAMES,
    Engine,
    Opcode,
    Space,
)
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.program_words import Numbering
from npuviz.targets.neuroncore.machine.state_words import first_engine
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.view.floorplan import make_floorplan
from npuviz.trace.schema import Kind, Role, Track

ENGINE_DOCS = (
    "Tensor engine: 128 x 128 array of multipliers; reads SBUF, writes PSUM",
    "Scalar engine: one function of scale * x + bias per element, with accumulators",
    "GpSimd engine: eight processors; integers, patterns, gathers",
    "Vector engine: element by element, reductions along the free dimensions",
    "Sync engine: a sequencer only; triggers DMA",
    "runs what the engines cannot; its durations are assumptions",
)
_CONTROL = frozenset(range(Opcode.NOP, Opcode.DMA_TRIGGER))
_WAITS: tuple[tuple[int, str, Role, str], ...] = (
    (sk.KIND_WAIT_SEMAPHORE, "waits for a semaphore", "wait-dependency", "work elsewhere is not done yet"),
    (
        sk.KIND_WAIT_PORT,
        "waits for a port",
        "wait-conflict",
        "another engine uses a memory port or PSUM bank that cannot be shared, or the pipeline is full",
    ),
    (sk.KIND_WAIT_QUEUE, "waits for a queue", "wait-queue", "the queue set is full of transfers"),
    (sk.KIND_WAIT_BARRIER, "waits for the other core", "wait-dependency", "a core barrier"),
)
_LATENCIES: tuple[tuple[int, str, Role, str], ...] = (
    (sk.KIND_DMA_START, "start of a DMA", "wait-dependency", "from its trigger to its first element"),
    (sk.KIND_PIPELINE, "pipeline", "wait-dependency", "the last results are on their way"),
)
"""Kinds of latencies on the critical path; the timeline has no intervals of them."""


@dataclass(frozen=True, slots=True)
class UsedSemaphore:
    """A semaphore or event that the program uses: its global index, core, name and purpose."""

    index: int
    core: int
    name: str
    use: str


def used_semaphores(spec: NeuronSpec, tables: Tables) -> tuple[UsedSemaphore, ...]:
    """Return the semaphores and events that instructions or transfers wait for or change, by global index."""
    from npuviz.targets.neuroncore.machine.synchronization import link

    links = link(spec, tables)
    numbers = set(links.waits[:, sk.WAIT.semaphore].tolist())
    numbers |= set(links.updates[:, sk.UPDATE.semaphore].tolist())
    numbers |= set(links.transfer_semaphore.tolist()) | set(links.transfer_event.tolist())
    numbers |= set(links.remotes.tolist())
    found: list[UsedSemaphore] = []
    for index in sorted(numbers - {-1}):
        core, number = divmod(index, spec.num_semaphores + spec.num_events)
        is_event = number >= spec.num_semaphores
        label = f"E[{number - spec.num_semaphores}]" if is_event else f"S[{number}]"
        use = "" if is_event else tables.semaphore_uses.get((core, number), "")
        found.append(UsedSemaphore(index, core, f"Core[{core}].{label}", use))
    return tuple(found)


def numbering(spec: NeuronSpec, tables: Tables, used: tuple[UsedSemaphore, ...]) -> Numbering:
    """Number the tracks: sequencers, DMA engines, pending transfers by queue set, semaphores in use."""
    engines = len(tables.sequencers)
    pending = engines + tables.num_cores * spec.num_dma_engines
    table = np.full(tables.num_cores * (spec.num_semaphores + spec.num_events), -1, dtype=np.int64)
    for place, semaphore in enumerate(used):
        table[semaphore.index] = pending + len(tables.queue_sets) + place
    return Numbering(engines, pending, table)


def describe(
    spec: NeuronSpec, tables: Tables, used: tuple[UsedSemaphore, ...], is_estimated: bool
) -> MachineDescription:
    """Describe the machine with one program."""
    has_host = _has_host(tables)
    clocks = [ClockDomain("PE", float(spec.pe_hz))]
    clocks += [
        ClockDomain(ENGINE_NAMES[e], float(spec.clocks_hz[e])) for e in (Engine.DVE, Engine.ACTIVATION)
    ]
    cores = f"{tables.num_cores} x " if tables.num_cores > 1 else ""
    return MachineDescription(
        target="neuroncore",
        title=f"{cores}NeuronCore-v{spec.version} ({spec.arch})",
        clocks=tuple(clocks),
        units=_units(spec, tables, is_estimated),
        memories=_memories(spec, tables),
        queues=_queues(tables),
        links=_links(spec, tables),
        tracks=_tracks(spec, tables, used),
        kinds=_kinds(),
        floorplan=make_floorplan(spec, tables),
        features={
            "semaphores": {"count": len(used)},
            "DMA queues": {"sets": len(tables.queue_sets)},
            "partitions": {"count": NUM_PARTITIONS, "PSUM banks": spec.num_psum_banks},
            "host": has_host,
            "estimated": is_estimated,
        },
        limits=_limits(is_estimated),
    )


def _has_host(tables: Tables) -> bool:
    first, end = tables.sequencers[-1].tolist()
    return end > first


def _units(spec: NeuronSpec, tables: Tables, is_estimated: bool) -> tuple[Unit, ...]:
    found = [
        Unit(
            unit_of(core, engine),
            f"Core[{core}].{ENGINE_NAMES[engine]}",
            f"Core[{core}]",
            ENGINE_DOCS[engine],
            estimated=is_estimated,
        )
        for core in range(tables.num_cores)
        for engine in range(NUM_ENGINES)
    ]
    found.append(Unit(host_unit(spec), "Host", "", ENGINE_DOCS[Engine.HOST], estimated=True))
    found += [
        Unit(
            dma_unit(spec, core, number),
            f"Core[{core}].DMA[{number}]",
            f"Core[{core}].DMA",
            "DMA engine: serves one ring of each queue set, element by element",
            estimated=is_estimated,
        )
        for core in range(tables.num_cores)
        for number in range(spec.num_dma_engines)
    ]
    return tuple(found)


def _memories(spec: NeuronSpec, tables: Tables) -> tuple[Memory, ...]:
    found: list[Memory] = []
    for core in range(tables.num_cores):
        found.append(
            Memory(
                2 * core, f"Core[{core}].SBUF", "scratchpad", space_bytes(spec, Space.SBUF), NUM_PARTITIONS,
                spec.dtype, "state buffer; a bank is a partition",
            )
        )  # fmt: skip
        found.append(
            Memory(
                2 * core + 1, f"Core[{core}].PSUM", "accumulator", space_bytes(spec, Space.PSUM),
                NUM_PARTITIONS, "float32",
                f"partial sums; a bank here is a partition, of {spec.num_psum_banks} PSUM banks of "
                f"{spec.psum_bank_bytes} bytes",
            )
        )  # fmt: skip
    end = max((v.address + v.size_bytes for v in tables.variables), default=0)
    size = max(spec.hbm_bytes, -(-end // 4096) * 4096)
    found.append(Memory(hbm_memory(spec), "HBM", "dram", size, 1, spec.dtype, "shared by all cores"))
    return tuple(found)


def _queues(tables: Tables) -> tuple[Queue, ...]:
    found: list[Queue] = []
    for queue in tables.queue_sets:
        name = f"Core[{queue.core}].{queue.name}"
        doc = f"transfers triggered and not finished; {queue.num_queues} rings"
        unit = unit_of(queue.core, queue.owner)
        found.append(Queue(queue.id, name, unit, sk.FIFO_TRANSFERS, f"{name}.pending", doc))
    for number in range(len(tables.sequencers)):
        name = sequencer_name(tables, number)
        found.append(
            Queue(
                len(tables.queue_sets) + number, f"{name}.pipeline", number, sk.FLIGHTS,
                f"{name}.pipeline.occupancy", "instructions issued and not completed",
            )
        )  # fmt: skip
    return tuple(found)


def sequencer_name(tables: Tables, number: int) -> str:
    """Return the name of a sequencer's unit."""
    if number == NUM_ENGINES * tables.num_cores:
        return "Host"
    core, engine = divmod(number, NUM_ENGINES)
    return f"Core[{core}].{ENGINE_NAMES[engine]}"


def _links(spec: NeuronSpec, tables: Tables) -> tuple[Link, ...]:
    found: list[Link] = []
    for queue in tables.queue_sets:
        owner = unit_of(queue.core, queue.owner)
        first = first_engine(spec, queue)
        for ring in range(min(queue.num_queues, spec.num_dma_engines)):
            engine = (first + ring) % spec.num_dma_engines
            found.append(Link(owner, dma_unit(spec, queue.core, engine), queue.name))
    for core in range(tables.num_cores):
        pe = unit_of(core, Engine.PE)
        found += [Link(pe, unit_of(core, engine)) for engine in (Engine.ACTIVATION, Engine.DVE)]
    return tuple(found)


def _tracks(spec: NeuronSpec, tables: Tables, used: tuple[UsedSemaphore, ...]) -> tuple[Track, ...]:
    found: list[Track] = []
    for number in range(len(tables.sequencers)):
        engine = Engine.HOST if number == len(tables.sequencers) - 1 else number % NUM_ENGINES
        doc = f"{PRODUCT_NAMES[engine]}: {ENGINE_DOCS[engine]}"
        found.append(Track(number, sequencer_name(tables, number), "interval", number, doc=doc))
    for core in range(tables.num_cores):
        for engine in range(spec.num_dma_engines):
            unit = dma_unit(spec, core, engine)
            found.append(Track(len(found), f"Core[{core}].DMA[{engine}]", "interval", unit, doc="transfers"))
    for queue in tables.queue_sets:
        name, unit = f"Core[{queue.core}].{queue.name}", unit_of(queue.core, queue.owner)
        found.append(
            Track(len(found), name, "counter", unit, "transfers", sk.FIFO_TRANSFERS, "transfers pending")
        )
    for semaphore in used:
        doc = f"updated by {semaphore.use}" if semaphore.use else "value"
        found.append(
            Track(len(found), semaphore.name, "counter", unit_of(semaphore.core, Engine.SP), "", 0, doc)
        )
    return tuple(found)


def _kinds() -> tuple[Kind, ...]:
    found = [Kind(code, code.name.lower(), _role(code), "") for code in Opcode]
    found += [Kind(*row) for row in _WAITS]
    found += [Kind(*row) for row in _LATENCIES]
    found.append(Kind(sk.KIND_TRANSFER, "dma", "move-in", "elements of a transfer"))
    return tuple(found)


def _role(code: int) -> Role:
    if code == Opcode.HOST_CALL:
        return "host"
    if code in (Opcode.DMA_TRIGGER, Opcode.DMA_COPY):
        return "move-in"
    return "control" if code in _CONTROL or code == Opcode.TABLE_LOAD else "compute"


def _limits(is_estimated: bool) -> tuple[str, ...]:
    found = [
        "An instruction's effect on memory is applied at once when it completes, a transfer's when all of "
        "its rings are done.",
        "HBM has no banks; DMA engines are limited by their own rate only.",
        "Semaphore updates arrive at once; the way through the fabric takes no time.",
        "Activation functions are computed exactly in fp32, not by the chip's piecewise polynomials.",
    ]
    if is_estimated:
        found.insert(0, "The engines' binaries are proprietary: durations are assumed, values unknown.")
    return tuple(found)
