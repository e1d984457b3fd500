"""Reads and writes the probes of a systolic machine by name."""

from collections.abc import Callable
from typing import Any

import numpy as np

from npuviz.sim.network import simple_kernels as ik
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.view.observe import Observer

MAX_LATENCY = 1_000_000
"""Largest DRAM latency that can be set, in DRAM cycles."""


class ProbeTable:
    """Probe name -> how to read it; the DRAM's latency may be written."""

    def __init__(self, engine: Engine, observer: Observer) -> None:
        self._engine = engine
        found: dict[str, Callable[[], Any]] = {}
        queues = {
            "LD": sk.QUEUE_LD,
            "EX": sk.QUEUE_EX,
            "VEC": sk.QUEUE_VEC,
            "ST": sk.QUEUE_ST,
            "requests": sk.QUEUE_REQUESTS,
        }
        for core in range(engine.spec.num_cores):
            name = f"Core[{core}]"
            for queue, number in queues.items():
                found[f"{name}.{queue}.occupancy"] = lambda c=core, n=number: observer.queue_length(c, n)
            found[f"{name}.SPAD.used"] = lambda c=core: int(
                observer.core(c)[sk.CORE.used : sk.CORE.used + 2].sum()
            )
            found[f"{name}.ACC.used"] = lambda c=core: int(
                observer.core(c)[sk.CORE.used + 2 : sk.CORE.used + 4].sum()
            )
            found[f"{name}.tiles"] = lambda c=core: int(observer.core(c)[sk.CORE.tiles])
            found[f"{name}.macs"] = lambda c=core: int(observer.core(c)[sk.CORE.macs])
        header = {
            "Scheduler.layer": sk.CHIP.layer,
            "Scheduler.tiles_done": sk.CHIP.tiles_done,
            "DRAM.reads_sent": sk.CHIP.reads,
            "DRAM.writes_sent": sk.CHIP.writes,
            "GEMM.instructions": sk.CHIP.gemm_count,
            "GEMM.preloads": sk.CHIP.preload_count,
        }
        for name, word in header.items():
            found[name] = lambda w=word: int(engine.state[w])
        state = engine
        found["NoC.waiting"] = lambda: int(state.state[int(state.state[sk.CHIP.noc]) + ik.NOC_WAITING])
        if engine.spec.device is None:
            found["DRAM.latency"] = lambda: state.dram_latency
        found.update(observer.dram.readers())
        self._readers = found

    def read(self, probe: str) -> Any:
        """Value of a probe. Raises KeyError for an unknown one."""
        return self._readers[probe]()

    def write(self, probe: str, value: Any) -> None:
        """Set `DRAM.latency`; other probes are read-only (ValueError), unknown ones a KeyError."""
        if probe not in self._readers:
            raise KeyError(probe)
        if probe != "DRAM.latency":
            raise ValueError(f"probe {probe} cannot be written; DRAM.latency of the simple DRAM can")
        number = np.asarray(value)
        if number.shape != () or number.dtype.kind not in "iu" or not 0 <= int(number) <= MAX_LATENCY:
            raise ValueError(f"probe {probe}: expected a whole number from 0 to {MAX_LATENCY}")
        self._engine.set_dram_latency(int(number))
