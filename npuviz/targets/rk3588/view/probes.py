"""Reads the probes of an RK3588 machine by name; none can be written."""

from collections.abc import Callable
from typing import Any

import numpy as np

from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.state_words import QUEUES_PER_CORE
from npuviz.targets.rk3588.view.description import STREAM_NAMES
from npuviz.targets.rk3588.view.observe import Observer

_CORE = {"task": sk.CORE.task, "group": sk.CORE.group, "atomic": sk.CORE.atom}
_HEADER = {
    "job": sk.CHIP.job,
    "DDR.read": sk.CHIP.read_bytes,
    "DDR.written": sk.CHIP.write_bytes,
    "DDR.busy": sk.CHIP.bus_busy,
}


class ProbeTable:
    """Probe name -> how to read it."""

    def __init__(self, engine: Engine, observer: Observer) -> None:
        readers: dict[str, Callable[[], Any]] = {}
        for core in range(engine.spec.cores):
            name = f"Core[{core}]"
            for number, queue in enumerate(("tasks", "accumulator")):
                place = core * QUEUES_PER_CORE + number
                readers[f"{name}.{queue}.occupancy"] = lambda q=place: observer.queue_length(q)
            for label, word in _CORE.items():
                readers[f"{name}.{label}"] = lambda c=core, w=word: int(observer.core(c)[w])
            for stream, label in enumerate(STREAM_NAMES):
                readers[f"{name}.{label}.bytes"] = lambda c=core, n=stream: int(observer.stream(c, n).done)
        for label, word in _HEADER.items():
            readers[label] = lambda w=word: int(engine.state[w])
        self._readers = readers

    def read(self, probe: str) -> Any:
        """Value of a probe. Raises KeyError for an unknown one."""
        return self._readers[probe]()

    def write(self, probe: str, value: Any) -> None:
        """Raises KeyError for an unknown probe, ValueError for every other."""
        if probe not in self._readers:
            raise KeyError(probe)
        raise ValueError(f"probe {probe} cannot be written ({np.asarray(value).shape} value)")
