"""Make the probes of a wafer machine; latencies, the pace of a PE's datapath and the depth of queues can be
written."""

from collections.abc import Mapping

import numpy as np

from npuviz.sim.probe import ProbeTable, positive_number, whole_number
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
_LATENCIES: Mapping[str, tuple[int, int, int, str, str]] = {
    "hop": (sk.WAFER.hop, 1, 30, "from router to router", "from the next word on"),
    "turn": (sk.WAFER.turn, 0, 10_000, "more where a word changes its direction", "from the next word on"),
    "ramp": (sk.WAFER.ramp, 1, 30, "between router and processor", "from the next word on"),
    "task_start": (sk.WAFER.task_start, 1, 30, "from the choice of a task to its begin", "from now on"),
    "host_setup": (sk.WAFER.host_setup, 1, 1_000_000, "before the first word of a command",
                   "from the next command on"),
    "host_word": (sk.WAFER.host_word, 1, 1000, "of a word of the host", "from the next word or copy on"),
    "host_launch": (sk.WAFER.host_launch, 1, 1000, "of a launch", "from the next launch on"),
}  # fmt: skip
"""Name of the setting -> its word, least and largest cycles, title, and from when a change applies."""
_INTERVAL = (1.0, 64.0)
_MOST_STRETCH = 1000
"""Largest slowdown of a PE's datapath that can be set."""


def make_probes(engine: Engine, observer: Observer, numbering: Numbering) -> ProbeTable:
    """Return the probes of the wafer's counters, and of watched PEs and their queues."""
    found = ProbeTable(
        f"{', '.join(_LATENCIES)}, link_interval, the slowdown of a PE and the depth of a queue"
    )
    for name, (word, title, measure) in COUNTERS.items():
        found.add(f"fabric.{name}", title, lambda w=word: engine.counter(w), measure, "fabric")
    found.add("host.done", COMMANDS_TITLE, lambda: int(observer.wafer.done), "commands", "host")
    _add_latencies(found, engine)
    for position in numbering.memory_of:
        pe = numbering.watched[position]
        for name, (word, title) in _PE_WORDS.items():
            found.add(
                f"{pe.name}.{name}",
                title,
                lambda n=pe.node, w=word: int(observer.block_row(n)[w]),
                group=pe.name,
            )
        found.add(
            f"{pe.name}.slowdown",
            "cycles that the datapath takes for the work of one, 1 as specified",
            lambda n=pe.node: int(observer.block_row(n).stretch),
            group=pe.name,
            doc="from the next instruction or step on",
            write=lambda value, n=pe.node: _set_slowdown(engine, observer, n, value),
        )
    for queue, (position, number) in enumerate(numbering.queues):
        pe = numbering.watched[position]
        name = f"{pe.name}.{queue_name(number)}"
        found.add(
            f"{name}.occupancy",
            "words in the queue",
            lambda q=queue: observer.queue_length(q),
            "entries",
            pe.name,
        )
        found.add(
            f"{name}.depth",
            "words that the queue takes",
            lambda n=pe.node, k=number: _depth(observer, n, k),
            "entries",
            pe.name,
            "from the next word on; at most as specified",
            write=lambda value, n=pe.node, k=number: _set_depth(engine, observer, n, k, value),
        )
    return found


def _add_latencies(found: ProbeTable, engine: Engine) -> None:
    def set_cycles(value: np.ndarray, word: int, least: int, largest: int) -> None:
        engine.state[word] = _within(value, least, largest)

    def set_interval(value: np.ndarray) -> None:
        engine.state[sk.WAFER.link] = round(1000 * positive_number(value, *_INTERVAL))

    for name, (word, least, largest, title, doc) in _LATENCIES.items():
        found.add(
            name, title, lambda w=word: int(engine.state[w]), "cycles", "Latencies", doc,
            write=lambda value, w=word, low=least, high=largest: set_cycles(value, w, low, high),
        )  # fmt: skip
    found.add(
        "link_interval", "a word and link", lambda: int(engine.state[sk.WAFER.link]) / 1000, "cycles",
        "Latencies", "from the next word on", dtype="float64", write=set_interval,
    )  # fmt: skip


def _within(value: np.ndarray, least: int, largest: int) -> int:
    """Return the whole number from `least` to `largest` that a probe is set to. Raises ValueError."""
    number = whole_number(value, largest)
    if number < least:
        raise ValueError(f"expected a whole number from {least} to {largest}")
    return number


def _set_slowdown(engine: Engine, observer: Observer, node: int, value: np.ndarray) -> None:
    stretch = _within(value, 1, _MOST_STRETCH)
    if stretch != int(observer.block_row(node).stretch):
        engine.make_block(node)
        observer.block_row(node).stretch = stretch


def _depth(observer: Observer, node: int, number: int) -> int:
    queue = observer.queue(node, number)
    return int(queue.room) - (int(queue.limit) - int(queue.length))


def _set_depth(engine: Engine, observer: Observer, node: int, number: int, value: np.ndarray) -> None:
    queue = observer.queue(node, number)
    depth = _within(value, 1, int(queue.length))
    if depth != _depth(observer, node, number):
        engine.make_block(node, wakes=True)
        queue = observer.queue(node, number)
        queue.room = int(queue.limit) - int(queue.length) + depth
