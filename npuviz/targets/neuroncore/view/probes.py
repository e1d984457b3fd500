"""Reads and writes the probes of a NeuronCore machine by name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from npuviz.targets.neuroncore.isa import NUM_REGISTERS
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.engine import Engine
from npuviz.targets.neuroncore.view.description import UsedSemaphore, sequencer_name
from npuviz.targets.neuroncore.view.observe import Observer

_TOTALS = {
    "instructions": sk.CHIP.completed,
    "transfers": sk.CHIP.transfers,
    "dma.bytes": sk.CHIP.bytes,
    "macs": sk.CHIP.macs,
}


class ProbeTable:
    """Probe name -> how to read it, and for a few how to write it."""

    def __init__(
        self,
        engine: Engine,
        observer: Observer,
        used: tuple[UsedSemaphore, ...],
        accumulators: Callable[[int], np.ndarray],
    ) -> None:
        self._engine = engine
        self._observer = observer
        self._semaphores = {semaphore.name: semaphore.index for semaphore in used}
        self._registers: dict[str, int] = {}
        self._readers: dict[str, Callable[[], Any]] = {}
        self._fill(accumulators)

    def _fill(self, accumulators: Callable[[int], np.ndarray]) -> None:
        readers, observer, tables = self._readers, self._observer, self._engine.tables
        for queue in tables.queue_sets:
            name = f"Core[{queue.core}].{queue.name}.pending"
            readers[name] = lambda q=queue.id: observer.queue_length(q)
        for number in range(len(tables.sequencers)):
            name = sequencer_name(tables, number)
            queue = len(tables.queue_sets) + number
            readers[f"{name}.pipeline.occupancy"] = lambda q=queue: observer.queue_length(q)
            readers[f"{name}.pc"] = lambda n=number: int(observer.sequencer(n).pc)
            readers[f"{name}.busy"] = lambda n=number: observer.busy(n)
            readers[f"{name}.waited"] = lambda n=number: observer.waited(n)
            readers[f"{name}.registers"] = lambda n=number: self._register_words(n).copy()
            self._registers[f"{name}.registers"] = number
        for name, index in self._semaphores.items():
            readers[name] = lambda i=index: int(observer.semaphore(i).value)
        for core in range(tables.num_cores):
            readers[f"Core[{core}].accumulators"] = lambda c=core: accumulators(c)
        for name, word in _TOTALS.items():
            readers[name] = lambda w=word: int(self._engine.state[w])

    def _register_words(self, number: int) -> np.ndarray:
        return self._observer.sequencer(number).registers

    def read(self, probe: str) -> Any:
        """Value of a probe. Raises KeyError for an unknown one."""
        return self._readers[probe]()

    def write(self, probe: str, value: Any) -> None:
        """Set a semaphore or registers. Raises KeyError (unknown) or ValueError (read-only, bad value)."""
        if probe not in self._readers:
            raise KeyError(probe)
        number = np.asarray(value)
        if probe in self._semaphores:
            if (
                number.shape != ()
                or number.dtype.kind not in "iu"
                or not 0 <= int(number) <= sk.MAX_SEMAPHORE
            ):
                raise ValueError(f"probe {probe}: expected a whole number from 0 to {sk.MAX_SEMAPHORE}")
            self._set_semaphore(self._semaphores[probe], int(number))
        elif probe in self._registers:
            limit = 1 << 31
            if number.shape != (NUM_REGISTERS,) or number.dtype.kind not in "iu":
                raise ValueError(f"probe {probe}: expected {NUM_REGISTERS} whole numbers")
            if (number < -limit).any() or (number >= limit).any():
                raise ValueError(f"probe {probe}: registers have 32 bits")
            self._register_words(self._registers[probe])[:] = number
        else:
            raise ValueError(f"probe {probe} cannot be written; semaphores and registers can")

    def _set_semaphore(self, index: int, value: int) -> None:
        chip, semaphore = sk.CHIP(self._engine.state), self._observer.semaphore(index)
        if semaphore.value == value:
            return
        semaphore.value = value
        # Whoever waits for it looks again in the next cycle.
        chip.again = min(chip.again, chip.cycle)
        if chip.status == sk.STATUS_DEADLOCK:
            chip.status = sk.STATUS_RUNNING
