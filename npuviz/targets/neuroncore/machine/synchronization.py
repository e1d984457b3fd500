"""Build the kernel's rows of waits and updates, and find which instruction satisfies each wait."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from npuviz.targets.neuroncore.isa import Condition, Update
from npuviz.targets.neuroncore.kernels import records as sk
from npuviz.targets.neuroncore.machine.accesses import instruction_cores
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import Tables

WAIT_EVENT = 2


@dataclass(frozen=True, slots=True)
class Links:
    """Waits and updates; semaphores have global indices (core by core, events last).

    waits    (m, WAIT.num_words), wait_first and wait_count by instruction
    updates  (k, UPDATE.num_words), update_first and update_count by instruction
    remotes  list of semaphores, remote_first and remote_count by transfer
    transfer_semaphore, transfer_event  by transfer, -1 for none
    """

    waits: np.ndarray
    wait_first: np.ndarray
    wait_count: np.ndarray
    updates: np.ndarray
    update_first: np.ndarray
    update_count: np.ndarray
    transfer_semaphore: np.ndarray
    transfer_event: np.ndarray
    remotes: np.ndarray
    remote_first: np.ndarray
    remote_count: np.ndarray


def link(spec: NeuronSpec, tables: Tables) -> Links:
    """Build the rows, with global numbers of semaphores and the producer of each wait."""
    per_core = spec.num_semaphores + spec.num_events
    cores = instruction_cores(spec, tables)
    waits, wait_first, wait_count = _waits(spec, tables, cores * per_core)
    updates, update_first, update_count, owners = _updates(spec, tables, cores * per_core)
    semaphores = np.full(len(tables.transfers), -1, dtype=np.int64)
    events = semaphores.copy()
    remotes: list[int] = []
    remote_first, remote_count = semaphores.copy(), np.zeros(len(tables.transfers), dtype=np.int64)
    for n, transfer in enumerate(tables.transfers):
        base = transfer.core * per_core
        if transfer.semaphore >= 0:
            semaphores[n] = base + transfer.semaphore
        if transfer.event >= 0:
            events[n] = base + spec.num_semaphores + transfer.event
        remote_first[n] = len(remotes)
        remote_count[n] = len(transfer.remote_semaphores)
        other = (1 - transfer.core) * per_core
        remotes += [other + semaphore for semaphore in transfer.remote_semaphores]
    found = Links(
        waits, wait_first, wait_count, updates, update_first, update_count,
        semaphores, events, np.array(remotes, dtype=np.int64), remote_first, remote_count,
    )  # fmt: skip
    _find_producers(tables, found, owners)
    return found


def _waits(spec: NeuronSpec, tables: Tables, base: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = tables.instructions["waits"]
    used = found["used"] > 0
    count = used.sum(axis=1)
    rows = np.full((int(count.sum()), sk.WAIT.num_words), -1, dtype=np.int64)
    is_event = found["used"] == WAIT_EVENT
    semaphore = base[:, None] + found["semaphore"] + np.where(is_event, spec.num_semaphores, 0)
    rows[:, sk.WAIT.semaphore] = semaphore[used]
    rows[:, sk.WAIT.condition] = found["condition"][used]
    rows[:, sk.WAIT.value] = found["value"][used]
    return rows, np.cumsum(count) - count, count


def _updates(
    spec: NeuronSpec, tables: Tables, base: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    found = tables.instructions["updates"]
    used = found["kind"] != Update.NONE
    count = used.sum(axis=1)
    rows = np.zeros((int(count.sum()), sk.UPDATE.num_words), dtype=np.int64)
    is_event = (found["kind"] == Update.EVENT_SET) | (found["kind"] == Update.EVENT_CLEAR)
    semaphore = base[:, None] + found["semaphore"] + np.where(is_event, spec.num_semaphores, 0)
    rows[:, sk.UPDATE.kind] = found["kind"][used]
    rows[:, sk.UPDATE.when] = found["when"][used]
    rows[:, sk.UPDATE.semaphore] = semaphore[used]
    rows[:, sk.UPDATE.value] = found["value"][used]
    return rows, np.cumsum(count) - count, count, np.nonzero(used)[0]


def _find_producers(tables: Tables, links: Links, owners: np.ndarray) -> None:
    """Set the producer of waits whose semaphore only one sequencer counts up, so that it is known."""
    sources: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    unclear: set[int] = set()
    for owner, row in zip(owners.tolist(), links.updates.tolist(), strict=True):
        kind, semaphore = row[sk.UPDATE.kind], row[sk.UPDATE.semaphore]
        if kind in (Update.SEM_INC, Update.SEM_ADD):
            sources[semaphore].append((owner, row[sk.UPDATE.value] if kind == Update.SEM_ADD else 1))
        elif kind == Update.EVENT_SET:
            sources[semaphore].append((owner, 1))
        else:
            unclear.add(semaphore)
    for index in np.flatnonzero(tables.transfer_of >= 0).tolist():
        n = int(tables.transfer_of[index])
        amount = tables.queue_sets[tables.transfers[n].queue].num_queues
        first = int(links.remote_first[n])
        remotes = links.remotes[first : first + int(links.remote_count[n])].tolist()
        for semaphore in (int(links.transfer_semaphore[n]), *remotes):
            if semaphore >= 0:
                sources[semaphore].append((index, amount))
        if links.transfer_event[n] >= 0:
            sources[int(links.transfer_event[n])].append((index, 1))
    sequencer = np.searchsorted(tables.sequencers[:, 1], np.arange(len(tables.instructions)), side="right")
    for semaphore, found in sources.items():
        found.sort()
        if len({int(sequencer[owner]) for owner, _ in found}) > 1:
            unclear.add(semaphore)
    for semaphore in sorted(sources):
        if semaphore in unclear:
            continue
        mine = (links.waits[:, sk.WAIT.semaphore] == semaphore) & (
            links.waits[:, sk.WAIT.condition] == Condition.GE
        )
        reached = np.cumsum([amount for _, amount in sources[semaphore]])
        place = np.searchsorted(reached, links.waits[mine, sk.WAIT.value])
        makers = np.array([owner for owner, _ in sources[semaphore]] + [-1], dtype=np.int64)
        links.waits[mine, sk.WAIT.producer] = makers[np.minimum(place, len(makers) - 1)]
