"""Words of the run-time schedulers: consumers of each layer, partitions, and the initial state."""

import numpy as np

from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.kernels import records as sk
from npuviz.targets.systolic.spec import SystolicSpec
from npuviz.targets.systolic.tables import SystolicTables

KINDS = {
    "time_multiplex": sk.SCHED_MULTIPLEX,
    "partition_cpu": sk.SCHED_PARTITION,
    "spatial_split": sk.SCHED_SPATIAL,
}
"""Scheduler of a hardware file -> number in the state."""

OPERATOR_LANES = 8
"""Most layers with separate tracks at the same time; further ones are not shown on the operator tracks."""


def operator_lanes(spec: SystolicSpec) -> int:
    """Return the number of tracks for operators: one under `simple`, where one layer runs at a time."""
    return 1 if spec.config.scheduler == "simple" else OPERATOR_LANES


def layer_edges(tables: SystolicTables) -> np.ndarray:
    """Return (n, 2) int64 pairs of a layer and one that waits for it; launches without edges are chains."""
    parts = [tables.edges]
    has_edges = np.zeros(len(tables.layers) + 1, dtype=bool)
    has_edges[tables.edges.reshape(-1)] = True
    for launch in tables.launches:
        first, count = int(launch[tk.LAUNCH.first_layer]), int(launch[tk.LAUNCH.num_layers])
        if count > 1 and not has_edges[first : first + count].any():
            chain = np.arange(first, first + count, dtype=np.int64)
            parts.append(np.stack([chain[:-1], chain[1:]], axis=1))
    edges = np.concatenate(parts)
    return edges[np.argsort(edges[:, 0], kind="stable")]


def consumer_lists(tables: SystolicTables) -> tuple[np.ndarray, np.ndarray]:
    """Return the first edge per layer (layers + 1,), and the consumers of all layers, one list after the
    other."""
    edges = layer_edges(tables)
    return np.searchsorted(edges[:, 0], np.arange(len(tables.layers) + 1)), edges[:, 1]


def partition_of(spec: SystolicSpec, core: int) -> int:
    """Return the partition id of a core; a file without partitions has one, number 0."""
    return spec.config.partition.get(core, 0)


def partition_words(spec: SystolicSpec) -> np.ndarray:
    """Build the table at `PROGRAM.partition`: a PARTITION row per core, then the cores of each partition."""
    members: dict[int, list[int]] = {}
    for core in range(spec.num_cores):
        members.setdefault(partition_of(spec, core), []).append(core)
    words: list[list[int]] = []
    at: dict[int, int] = {}
    place = spec.num_cores * sk.PARTITION.num_words
    for partition, cores in members.items():
        at[partition] = place
        place += len(cores)
    for core in range(spec.num_cores):
        own = partition_of(spec, core)
        words.append([own, members[own].index(core), len(members[own]), at[own]])
    lists = [core for cores in members.values() for core in cores]
    return np.array([word for row in words for word in row] + lists, dtype=np.int64)


def _sizes(spec: SystolicSpec, tables: SystolicTables) -> dict[int, int]:
    """Return the size in words of each table of the block, by the header word that names it, in storage
    order."""
    return {
        sk.SCHEDULER.queue: len(tables.launches),
        sk.SCHEDULER.requests: len(tables.launches) * sk.REQUEST.num_words,
        sk.SCHEDULER.layers: len(tables.layers) * sk.RUN_LAYER.num_words,
        sk.SCHEDULER.next: len(tables.tiles),
        sk.SCHEDULER.tails: spec.num_cores,
        sk.SCHEDULER.own: spec.num_cores,
        sk.SCHEDULER.lanes: operator_lanes(spec),
    }


def schedule_words(spec: SystolicSpec, tables: SystolicTables) -> int:
    """Return the size of the scheduler's block in words, 0 under `simple`."""
    if spec.config.scheduler == "simple":
        return 0
    return sk.SCHEDULER.num_words + sum(_sizes(spec, tables).values())


def write_schedule(s: np.ndarray, spec: SystolicSpec, tables: SystolicTables, at: int) -> None:
    """Fill the block that begins at word `at` for cycle 0."""
    block = s[at:]
    block[sk.SCHEDULER.kind] = KINDS[spec.config.scheduler]
    block[sk.SCHEDULER.polled] = -1
    block[sk.SCHEDULER.num_lanes] = operator_lanes(spec)
    place = at + sk.SCHEDULER.num_words
    for word, size in _sizes(spec, tables).items():
        block[word] = place
        place += size
    lanes = int(block[sk.SCHEDULER.lanes])
    s[lanes : lanes + operator_lanes(spec)] = -1
    first = int(block[sk.SCHEDULER.requests])
    requests = s[first : first + len(tables.launches) * sk.REQUEST.num_words].reshape(
        -1, sk.REQUEST.num_words
    )
    requests[:, [sk.REQUEST.ready_head, sk.REQUEST.tile_head]] = -1
    first = int(block[sk.SCHEDULER.layers])
    layers = s[first : first + len(tables.layers) * sk.RUN_LAYER.num_words].reshape(
        -1, sk.RUN_LAYER.num_words
    )
    consumers = layer_edges(tables)[:, 1]
    layers[:, sk.RUN_LAYER.missing] = np.bincount(consumers, minlength=len(tables.layers))
