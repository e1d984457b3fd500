"""Read the words on the links and in the routers of many nodes at once."""

from typing import NamedTuple

import numpy as np

from npuviz.sim.fabric import INJECT, NUM_PORTS, PORT_STEPS, WORD_DTYPE
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.observe import Observer

_STEPS = np.array(PORT_STEPS, np.int64)
_LOWEST_PORT = np.array([next((p for p in range(NUM_PORTS) if mask >> p & 1), 0) for mask in range(32)])


class _Rings(NamedTuple):
    """Rings of words: (n,) int64 each.

    owner   index of the node among those asked for
    at      word of the CHANNEL or QUEUE
    number  color of the channel, or number of the queue
    port    port of the channel, 0 for queues
    first   word of the first entry
    head, filled, size  in entries
    """

    owner: np.ndarray
    at: np.ndarray
    number: np.ndarray
    port: np.ndarray
    first: np.ndarray
    head: np.ndarray
    filled: np.ndarray
    size: np.ndarray


def words_of(
    engine: Engine, observer: Observer, nodes: np.ndarray, columns: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return rows of `WORD_DTYPE`, those of one node together; `columns` and `rows` are places in the
    fabric."""
    cycle = int(observer.wafer.cycle)
    held, queued = np.flatnonzero(observer.held_at(nodes)), np.flatnonzero(observer.queued_at(nodes))
    owner, rings, entries = _entries(engine, _channels(engine, observer, nodes, held))
    found = _in_routers(engine, observer, rings, entries, cycle)
    queue_owner, rings, entries = _entries(engine, _queues(engine, observer, nodes, queued))
    on_ramp = engine.state[entries + sk.ENTRY.ready] > cycle
    rings, entries = _Rings(*(each[on_ramp] for each in rings)), entries[on_ramp]
    found = np.concatenate([found, _on_ramps(engine, observer, rings, entries)])
    owner = np.concatenate([owner, queue_owner[on_ramp]])
    found["column"] += columns[owner].astype(np.int32)
    found["row"] += rows[owner].astype(np.int32)
    return found[np.argsort(owner, kind="stable")]


def _channels(engine: Engine, observer: Observer, nodes: np.ndarray, chosen: np.ndarray) -> _Rings:
    """Return the rings of the ports of all channels that hold words."""
    s = engine.state
    at = observer.places_of(nodes[chosen], pk.LAYOUT.channel, pk.NUM_COLORS)
    which, color = np.nonzero((at > 0) & (s[at + sk.CHANNEL.held] != 0))
    at = at[which, color]
    ports = at[:, None] + sk.CHANNEL.ports + np.arange(NUM_PORTS) * sk.PORT.num_words
    slots, ramp = s[at + sk.CHANNEL.slots][:, None], s[at + sk.CHANNEL.limit_ramp][:, None]
    port = np.broadcast_to(np.arange(NUM_PORTS), ports.shape)
    first = np.where(port == 0, 4 * slots, (port - 1) * slots)

    def each(values: np.ndarray) -> np.ndarray:
        return np.broadcast_to(values[:, None], ports.shape).ravel()

    return _Rings(
        each(chosen[which]), each(at), each(color), port.ravel(),
        (at[:, None] + sk.CHANNEL.num_words + first * sk.ENTRY.num_words).ravel(),
        s[ports + sk.PORT.head].ravel(), s[ports + sk.PORT.count].ravel(),
        np.where(port == 0, ramp, slots).ravel(),
    )  # fmt: skip


def _queues(engine: Engine, observer: Observer, nodes: np.ndarray, chosen: np.ndarray) -> _Rings:
    """Return the rings of all input queues that hold words."""
    s = engine.state
    at = observer.places_of(nodes[chosen], pk.LAYOUT.queue, pk.NUM_QUEUES)
    which, number = np.nonzero((at > 0) & (s[at + sk.QUEUE.count] != 0))
    at = at[which, number]
    head, filled, size = (s[at + word] for word in (sk.QUEUE.head, sk.QUEUE.count, sk.QUEUE.limit))
    return _Rings(chosen[which], at, number, np.zeros_like(at), at + sk.QUEUE.ring, head, filled, size)


def _entries(engine: Engine, rings: _Rings) -> tuple[np.ndarray, _Rings, np.ndarray]:
    """Return (owners, rings, words of the ENTRY) of every word in rings, head first."""
    ring = np.repeat(np.arange(len(rings.filled)), rings.filled)
    place = np.arange(len(ring)) - np.repeat(np.cumsum(rings.filled) - rings.filled, rings.filled)
    each = _Rings(*(column[ring] for column in rings))
    entry = (each.head + place) % np.maximum(each.size, 1)
    return each.owner, each, each.first + entry * sk.ENTRY.num_words


def _in_routers(
    engine: Engine, observer: Observer, rings: _Rings, entries: np.ndarray, cycle: int
) -> np.ndarray:
    """Return the words in the rings of ports, with `column` and `row` counted from the node."""
    s, wafer = engine.state, observer.wafer
    found = _named(engine, entries, rings.number)
    ready, port = s[entries + sk.ENTRY.ready], rings.port
    waits = ready < cycle
    position = s[rings.at + sk.CHANNEL.position]
    outputs = s[rings.at + sk.CHANNEL.positions + position] >> 8 & 0x1F
    comes = np.where(port > 0, (port + 1 & 3) + 1, INJECT)
    found["waits"], found["port"] = waits, np.where(waits, _LOWEST_PORT[outputs], comes)
    found["start"] = np.where(waits, ready, ready - np.where(port == 0, int(wafer.ramp), int(wafer.hop)))
    found["arrival"] = np.where(waits, -1, ready)
    step = np.where((~waits & (port > 0))[:, None], _STEPS[port], 0)
    found["column"], found["row"] = step[:, 0], step[:, 1]
    return found


def _on_ramps(engine: Engine, observer: Observer, rings: _Rings, entries: np.ndarray) -> np.ndarray:
    """Return the words between a router and its processor."""
    s = engine.state
    found = _named(engine, entries, s[rings.at + sk.QUEUE.color])
    found["arrival"] = s[entries + sk.ENTRY.ready]
    found["start"] = found["arrival"] - int(observer.wafer.ramp)
    return found


def _named(engine: Engine, entries: np.ndarray, colors: np.ndarray) -> np.ndarray:
    """Return rows with the fields that do not depend on the place of a word; all others are 0."""
    s, nodes, (left, top) = engine.state, engine.program.nodes, engine.wafer.offset
    found = np.zeros(len(entries), WORD_DTYPE)
    payload, identity = s[entries + sk.ENTRY.payload], s[entries + sk.ENTRY.identity]
    found["id"], found["color"] = identity, colors
    found["control"], found["data"] = payload & sk.MARK_CONTROL != 0, payload & 0xFFFF_FFFF
    sender = identity >> 32
    is_known = sender < len(nodes.x)
    sender = np.where(is_known, sender, 0)
    found["source_column"] = np.where(is_known, nodes.x[sender] + left, -1)
    found["source_row"] = np.where(is_known, nodes.y[sender] + top, -1)
    return found
