"""The probes of an RK3588 machine; none can be written."""

from npuviz.sim.probe import ProbeTable
from npuviz.targets.rk3588.kernels import records as sk
from npuviz.targets.rk3588.machine.engine import Engine
from npuviz.targets.rk3588.machine.state_words import QUEUES_PER_CORE
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


def make_probes(engine: Engine, observer: Observer) -> ProbeTable:
    """Queues, progress and streams of every core, and totals of the chip."""
    found = ProbeTable()
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
    return found
