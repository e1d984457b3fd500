"""Make the probes of an RK3588 machine; the times of DDR, CORE and the driver can be written."""

import numpy as np

from npuviz.sim.probe import ProbeTable, positive_number, whole_number
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.state_words import ONE, QUEUES_PER_CORE
from npuviz.targets.rk3588.view.description import STREAM_NAMES
from npuviz.targets.rk3588.view.observe import Observer

_QUEUES = (("tasks", "tasks to start", "tasks"), ("accumulator", "stripes waiting", "stripes"))
_CORE = (
    ("task", sk.CORE.task, "task", "index of the task under way, -1 if none"),
    ("group", sk.CORE.group, "kernel group", ""),
    ("atomic", sk.CORE.atom, "output position", "first of the next stripe"),
)
_CHIP = (
    ("DDR.read", sk.CHIP.read_bytes, "bytes read", "bytes"),
    ("DDR.written", sk.CHIP.write_bytes, "bytes written", "bytes"),
    ("DDR.busy", sk.CHIP.bus_busy, "bus busy", "cycles"),
)
_LATENCIES = (
    ("task_overhead", sk.CHIP.task_overhead, "between tasks", "cycles", "from the next task on"),
    ("job_driver", sk.CHIP.job_driver, "driver before a job", "cycles", "from the next job on"),
    ("backlog", sk.CHIP.backlog, "writes that the DPU may have waiting", "bytes", "from now on"),
)
MAX_LATENCY = 1_000_000_000
"""Largest latency in cycles, and largest backlog in bytes, that can be set."""
_RATES = (1e-3, 1e3)
"""Least and largest value of DDR's bytes per cycle, and of CORE's speed, that can be set."""


def make_probes(engine: Engine, observer: Observer) -> ProbeTable:
    """Return probes of queues, progress and streams of every core, and of totals of the chip."""
    found = ProbeTable("ddr_bytes_per_cycle, core_speed, task_overhead, job_driver and backlog")
    for core in range(engine.spec.cores):
        name = f"Core[{core}]"
        for number, (queue, title, measure) in enumerate(_QUEUES):
            found.add(
                f"{name}.{queue}.occupancy",
                title,
                lambda q=core * QUEUES_PER_CORE + number: observer.queue_length(q),
                measure,
                name,
            )
        for label, word, title, doc in _CORE:
            found.add(
                f"{name}.{label}", title, lambda c=core, w=word: int(observer.core(c)[w]), group=name, doc=doc
            )
        for stream, label in enumerate(STREAM_NAMES):
            found.add(
                f"{name}.{label}.bytes",
                f"{label} bytes arrived",
                lambda c=core, n=stream: int(observer.stream(c, n).done),
                "bytes",
                name,
            )
    found.add("job", "job", lambda: int(engine.state[sk.CHIP.job]), doc="running job, or the next")
    for name, word, title, measure in _CHIP:
        found.add(name, title, lambda w=word: int(engine.state[w]), measure, "DDR")
    _add_rates(found, engine)
    for name, word, title, measure, doc in _LATENCIES:
        found.add(
            name, title, lambda w=word: int(engine.state[w]), measure, "Latencies", doc,
            write=lambda value, w=word: _set_word(engine, w, value),
        )  # fmt: skip
    return found


def _add_rates(found: ProbeTable, engine: Engine) -> None:
    def set_bandwidth(value: np.ndarray) -> None:
        engine.state[sk.CHIP.bus_cost] = max(1, round(ONE / positive_number(value, *_RATES)))

    def set_speed(value: np.ndarray) -> None:
        engine.state[sk.CHIP.core_cost] = max(1, round(ONE / positive_number(value, *_RATES)))

    found.add(
        "ddr_bytes_per_cycle", "DDR bandwidth", lambda: ONE / int(engine.state[sk.CHIP.bus_cost]),
        "bytes a cycle", "Latencies", "from the next chunk on", dtype="float64", write=set_bandwidth,
    )  # fmt: skip
    found.add(
        "core_speed", "speed of CORE, 1 as specified", lambda: ONE / int(engine.state[sk.CHIP.core_cost]),
        group="Latencies", doc="from the next stripe on", dtype="float64", write=set_speed,
    )  # fmt: skip


def _set_word(engine: Engine, word: int, value: np.ndarray) -> None:
    engine.state[word] = whole_number(value, MAX_LATENCY)
