"""Make the probes of a NeuronCore; semaphores, registers, speeds and the DMA start latency can be written."""

from collections.abc import Callable

import numpy as np

from npuviz.sim.probe import ProbeTable, positive_number, whole_number
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, NUM_PARTITIONS, NUM_REGISTERS
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.view.description import UsedSemaphore, sequencer_name
from npuviz.targets.neuroncore.view.observe import Observer

_TOTALS = (
    ("instructions", sk.CHIP.completed, "instructions completed", "instructions"),
    ("transfers", sk.CHIP.transfers, "transfers completed", "transfers"),
    ("dma.bytes", sk.CHIP.bytes, "bytes moved by DMA", "bytes"),
    ("macs", sk.CHIP.macs, "multiply-accumulates completed", "MACs"),
)


SPEEDS = (1e-3, 1e3)
"""Lowest and highest relative speed of an engine that can be set; 1 is the specified speed."""
MAX_LATENCY = 1_000_000_000
"""Longest start latency of DMA transfers that can be set, in base cycles."""


def make_probes(
    engine: Engine,
    observer: Observer,
    used: tuple[UsedSemaphore, ...],
    accumulators: Callable[[int], np.ndarray],
) -> ProbeTable:
    """Make the probes of queue sets, sequencers, semaphores, accumulators and totals."""
    found = ProbeTable("semaphores, registers, speeds and dma.start")
    tables = engine.tables
    for queue in tables.queue_sets:
        name = f"Core[{queue.core}].{queue.name}"
        found.add(
            f"{name}.pending",
            "transfers pending",
            lambda q=queue.id: observer.queue_length(q),
            "transfers",
            name,
        )
    for number in range(len(tables.sequencers)):
        _add_sequencer(found, observer, sequencer_name(tables, number), number, len(tables.queue_sets))
    for semaphore in used:
        found.add(
            semaphore.name,
            semaphore.use or "semaphore",
            lambda i=semaphore.index: int(observer.semaphore(i).value),
            group=f"Core[{semaphore.core}]",
            doc="value now",
            write=lambda value, i=semaphore.index: _set_semaphore(engine, observer, i, value),
        )
    for core in range(tables.num_cores):
        found.add(
            f"Core[{core}].accumulators",
            "activation accumulators",
            lambda c=core: accumulators(c),
            group=f"Core[{core}]",
            shape=(NUM_PARTITIONS,),
            dtype="float32",
        )
    for name, word, title, measure in _TOTALS:
        found.add(name, title, lambda w=word: int(engine.state[w]), measure)
    _add_dma(found, engine)
    return found


def _add_dma(found: ProbeTable, engine: Engine) -> None:
    def set_start(value: np.ndarray) -> None:
        sk.CHIP(engine.state).dma_start = whole_number(value, MAX_LATENCY)

    def set_speed(value: np.ndarray) -> None:
        sk.CHIP(engine.state).dma_cost = _cost(value)

    found.add(
        "dma.start", "from a trigger to the first element", lambda: int(sk.CHIP(engine.state).dma_start),
        "cycles", doc="from the next trigger on", write=set_start,
    )  # fmt: skip
    found.add(
        "dma.speed", "speed of the DMA engines, 1 as specified",
        lambda: sk.ONE / int(sk.CHIP(engine.state).dma_cost), doc="from the next elements on",
        dtype="float64", write=set_speed,
    )  # fmt: skip


def _cost(value: np.ndarray) -> int:
    return max(1, round(sk.ONE / positive_number(value, *SPEEDS)))


def _add_sequencer(found: ProbeTable, observer: Observer, name: str, number: int, num_queues: int) -> None:
    def registers() -> np.ndarray:
        return observer.sequencer(number).registers

    def set_registers(value: np.ndarray) -> None:
        limit = 1 << 31
        if value.shape != (NUM_REGISTERS,) or value.dtype.kind not in "iu":
            raise ValueError(f"expected {NUM_REGISTERS} whole numbers")
        if (value < -limit).any() or (value >= limit).any():
            raise ValueError("registers have 32 bits")
        registers()[:] = value

    def set_speed(value: np.ndarray) -> None:
        observer.sequencer(number).cost = _cost(value)

    found.add(
        f"{name}.speed", "speed, 1 as specified", lambda: sk.ONE / int(observer.sequencer(number).cost),
        group=name, doc="from the next instruction on", dtype="float64", write=set_speed,
    )  # fmt: skip
    found.add(
        f"{name}.pipeline.occupancy",
        "in flight",
        lambda: observer.queue_length(num_queues + number),
        "instructions",
        name,
    )
    found.add(
        f"{name}.pc",
        "program counter",
        lambda: int(observer.sequencer(number).pc),
        group=name,
        doc="index of its next instruction",
    )
    found.add(f"{name}.busy", "busy", lambda: observer.busy(number), "cycles", name)
    found.add(f"{name}.waited", "waited", lambda: observer.waited(number), "cycles", name)
    if name.endswith(f".{ENGINE_NAMES[0]}"):
        found.add(f"{name}.limited", "slower after pauses", lambda: observer.limited(number), "cycles", name)
    found.add(
        f"{name}.registers",
        "registers",
        lambda: registers().copy(),
        group=name,
        shape=(NUM_REGISTERS,),
        write=set_registers,
    )


def _set_semaphore(engine: Engine, observer: Observer, index: int, value: np.ndarray) -> None:
    number = whole_number(value, sk.MAX_SEMAPHORE)
    chip, semaphore = sk.CHIP(engine.state), observer.semaphore(index)
    if semaphore.value == number:
        return
    semaphore.value = number
    # Sequencers that wait for it test it again in the next cycle.
    chip.again = min(chip.again, chip.cycle)
    if chip.status == sk.STATUS_DEADLOCK:
        chip.status = sk.STATUS_RUNNING
