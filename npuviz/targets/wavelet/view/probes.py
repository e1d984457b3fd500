"""The probes of a wafer machine; none can be written."""

from npuviz.sim.probe import ProbeTable
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.description import COMMANDS_TITLE, COUNTERS, Numbering, queue_name
from npuviz.targets.wavelet.view.observe import Observer

_PE_WORDS = {
    "task": (sk.BLOCK.task, "running task: kind << 16 | id, -1 none"),
    "active": (sk.BLOCK.active, "mask of active local tasks"),
    "blocked": (sk.BLOCK.blocked, "mask of blocked ids"),
    "threads": (sk.BLOCK.threads, "mask of threads with an operation; bit 8 is the main thread"),
    "busy": (sk.BLOCK.busy, "cycles in which the datapath worked"),
}


def make_probes(engine: Engine, observer: Observer, numbering: Numbering) -> ProbeTable:
    """Counters of the wafer, and what watched PEs and their queues do."""
    found = ProbeTable()
    for name, (word, title, measure) in COUNTERS.items():
        found.add(f"fabric.{name}", title, lambda w=word: engine.counter(w), measure, "fabric")
    found.add("host.done", COMMANDS_TITLE, lambda: int(observer.wafer.done), "commands", "host")
    for position in numbering.memory_of:
        pe = numbering.watched[position]
        for name, (word, title) in _PE_WORDS.items():
            found.add(
                f"{pe.name}.{name}",
                title,
                lambda n=pe.node, w=word: int(observer.block_row(n)[w]),
                group=pe.name,
            )
    for queue, (position, number) in enumerate(numbering.queues):
        pe = numbering.watched[position]
        found.add(
            f"{pe.name}.{queue_name(number)}.occupancy",
            "words in the queue",
            lambda q=queue: observer.queue_length(q),
            "entries",
            pe.name,
        )
    return found
