"""The probes of a systolic machine; latencies of the vector units, and what DRAM keeps, can be written."""

from typing import Any

import numpy as np

from npuviz.sim.dram import simple_kernels as dk
from npuviz.sim.dram.records_kernels import DRAM
from npuviz.sim.dram.view import BUFFERS, CommandView
from npuviz.sim.network import simple_kernels as ik
from npuviz.sim.probe import ProbeTable, positive_number, whole_number
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.machine.engine import Engine
from npuviz.targets.systolic.machine.latencies import LATENCIES
from npuviz.targets.systolic.view.observe import Observer

MAX_LATENCY = 1_000_000
"""Largest latency that can be set, of DRAM in DRAM cycles, of a vector unit in core cycles."""
CLOCKS = (1.0, 5000.0)
"""Clocks of the DRAM that can be set, in MHz."""
PS_A_MICROSECOND = 1_000_000

_QUEUES = (
    ("LD", sk.QUEUE_LD),
    ("EX", sk.QUEUE_EX),
    ("VEC", sk.QUEUE_VEC),
    ("ST", sk.QUEUE_ST),
    ("requests", sk.QUEUE_REQUESTS),
)
_SCHEDULER = (
    ("Scheduler.layer", sk.CHIP.layer, "running layer", "", "-1 when none runs"),
    ("Scheduler.tiles_done", sk.CHIP.tiles_done, "tiles reported", "tiles", ""),
)
_TOTALS = (
    ("DRAM.reads_sent", sk.CHIP.reads, "reads sent by the cores", "requests"),
    ("DRAM.writes_sent", sk.CHIP.writes, "writes sent by the cores", "requests"),
    ("GEMM.instructions", sk.CHIP.gemm_count, "GEMM instructions started", "instructions"),
    ("GEMM.preloads", sk.CHIP.preload_count, "of these with weight load", "instructions"),
)
_CHANNELS = {
    "reads": ("reads taken, per channel", "requests"),
    "writes": ("writes taken, per channel", "requests"),
    "row_hits": ("requests that found their row open", "requests"),
    "row_misses": ("requests that found their bank closed", "requests"),
    "row_conflicts": ("requests that found another row open", "requests"),
    "refreshes": ("refreshes done", "refreshes"),
    "forwarded": ("reads answered by the write buffer", "requests"),
    "read_queue": ("read buffer, requests now", "requests"),
    "write_queue": ("write buffer, requests now", "requests"),
    "front_queue": ("requests in front of both buffers", "requests"),
    "write_mode": ("1: the channel writes", ""),
}
_BANKS = (
    ("open_rows", CommandView.open_rows, "open row per channel and bank, -1: closed", "row"),
    ("activations", CommandView.activations, "activations per channel and bank", "commands"),
    ("accesses", CommandView.accesses, "reads and writes per channel and bank", "commands"),
)


def make_probes(engine: Engine, observer: Observer) -> ProbeTable:
    """Make probes of queues and memories of every core, the scheduler, the network, the DRAM, and totals."""
    found = ProbeTable("latencies of Core[...].VEC, DRAM.clock, and DRAM.latency of the simple DRAM")
    for core in range(engine.spec.num_cores):
        _add_core(found, observer, core)
    for name, word, title, measure, doc in _SCHEDULER:
        found.add(name, title, lambda w=word: int(engine.state[w]), measure, "Scheduler", doc)
    found.add(
        "NoC.waiting",
        "packets in the network",
        lambda: int(ik.NOC(engine.state, engine.state[sk.CHIP.noc]).waiting),
        "packets",
        "NoC",
    )
    found.add(
        "DRAM.clock",
        "clock of the DRAM",
        lambda: PS_A_MICROSECOND / int(engine.state[sk.CHIP.dram_period]),
        "MHz",
        "DRAM",
        "may be set: from its next cycle on",
        dtype="float64",
        write=lambda value: engine.set_dram_period(int(PS_A_MICROSECOND // positive_number(value, *CLOCKS))),
    )
    view = observer.dram.view
    if view is None:
        _add_simple_dram(found, engine, observer)
    else:
        _add_command_dram(found, engine, view)
    for name, word, title, measure in _TOTALS:
        found.add(name, title, lambda w=word: int(engine.state[w]), measure, name.split(".")[0])
    return found


def _add_core(found: ProbeTable, observer: Observer, core: int) -> None:
    name = f"Core[{core}]"

    def used(half: int) -> int:
        return int(observer.core(core)[sk.CORE.used + half : sk.CORE.used + half + 2].sum())

    for queue, number in _QUEUES:
        found.add(
            f"{name}.{queue}.occupancy",
            f"{queue} queue",
            lambda n=number: observer.queue_length(core, n),
            "entries",
            name,
            "entries now",
        )
    found.add(f"{name}.SPAD.used", "scratchpad in use", lambda: used(0), "bytes", name)
    found.add(f"{name}.ACC.used", "accumulator in use", lambda: used(2), "bytes", name)
    for label, word, title, measure in (
        ("tiles", sk.CORE.tiles, "resident tiles", "tiles"),
        ("macs", sk.CORE.macs, "multiply-accumulates retired", "MACs"),
    ):
        found.add(f"{name}.{label}", title, lambda w=word: int(observer.core(core)[w]), measure, name)
    for place, label in enumerate(LATENCIES):
        _add_latency(found, observer, core, (sk.CORE.latency + place, label))


def _add_latency(found: ProbeTable, observer: Observer, core: int, what: tuple[int, str]) -> None:
    word, label = what

    def set_latency(value: np.ndarray) -> None:
        observer.core(core)[word] = whole_number(value, MAX_LATENCY)

    found.add(
        f"Core[{core}].VEC.{label}",
        f"{label.replace('_', ' ')} of the vector unit",
        lambda: int(observer.core(core)[word]),
        "cycles",
        f"Core[{core}]",
        "from the next vector instruction on",
        write=set_latency,
    )


def _add_simple_dram(found: ProbeTable, engine: Engine, observer: Observer) -> None:
    channels = engine.spec.config.dram_channels
    found.add(
        "DRAM.latency",
        "cycles a request stays at least",
        lambda: engine.dram_latency,
        "DRAM cycles",
        "DRAM",
        "may be set: requests that arrive later take it",
        write=lambda value: engine.set_dram_latency(whole_number(value, MAX_LATENCY)),
    )

    def counts(word: int) -> np.ndarray:
        return np.array([observer.dram.simple_channel(i)[word] for i in range(channels)], dtype=np.int64)

    for name, word in (("reads", dk.SIMPLE_CHANNEL.reads), ("writes", dk.SIMPLE_CHANNEL.writes)):
        title, measure = _CHANNELS[name]
        found.add(f"DRAM.{name}", title, lambda w=word: counts(w), measure, "DRAM", shape=(channels,))


def _add_command_dram(found: ProbeTable, engine: Engine, view: CommandView) -> None:
    channels = engine.spec.config.dram_channels

    def device() -> Any:
        return DRAM(engine.state, engine.state[sk.CHIP.dram])

    def set_depth(value: np.ndarray) -> None:
        device().depth = whole_number(value, view.queue_depth)

    found.add(
        "DRAM.queue_depth",
        "requests a buffer of a channel holds at most",
        lambda: int(device().depth),
        "requests",
        "DRAM",
        "may be set, up to the setting dram_queue_depth",
        write=set_depth,
    )
    for name, read, title, measure in _BANKS:
        found.add(
            f"DRAM.{name}",
            title,
            lambda r=read: r(view, engine.state),
            measure,
            "DRAM",
            shape=(channels, view.num_banks),
        )
    for channel in range(channels):
        for buffer, counter in zip(BUFFERS, ("read_queue", "write_queue"), strict=True):
            found.add(
                f"DRAM[{channel}].{buffer}.occupancy",
                f"{buffer} waiting",
                lambda c=channel, n=counter: int(view.counter(engine.state, n)[c]),
                "requests",
                "DRAM",
            )
    for name, (title, measure) in _CHANNELS.items():
        found.add(
            f"DRAM.{name}",
            title,
            lambda n=name: view.counter(engine.state, n),
            measure,
            "DRAM",
            shape=(channels,),
        )
