"""Turn waits into semaphore values: one counting semaphore for each engine and queue set.

An engine's semaphore is incremented by its instructions that others wait for, a queue set's by
num_queues with each finished transfer. Neither ever decreases, so every wait is "at least".
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import DoesNotFit, SimulationError
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, MAX_WAITS, NUM_ENGINES, Condition, Update, When
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet

FIRST_SEMAPHORE = 3
"""Lower semaphores belong to the runtime. Ref: runtime_semaphore_count of a real NEFF."""


@dataclass(frozen=True, slots=True)
class Waits:
    """All waits of a program: (n,) int64 arrays.

    instruction  final index of the waiting instruction, rising
    core         core of the waiting instruction (Host: 0)
    source       channel waited for;  done  position up to which its work must be complete
    """

    instruction: np.ndarray
    core: np.ndarray
    source: np.ndarray
    done: np.ndarray


class SemaphorePlan:
    """The assignment of semaphores to channels.

    number  (channel, core) -> semaphore of `core` that counts the channel. A queue set of the other core
            counts there too (remote semaphore); an engine counts on its own core only
    uses    (core, semaphore) -> name of its updater
    """

    def __init__(
        self, spec: NeuronSpec, queue_sets: list[QueueSet], needed: Iterable[tuple[int, int]]
    ) -> None:
        self.number: dict[tuple[int, int], int] = {}
        self.uses: dict[tuple[int, int], str] = {}
        host = spec.num_cores * NUM_ENGINES
        first_queue = host + 1 + len(queue_sets)
        following = [FIRST_SEMAPHORE] * spec.num_cores
        for channel, core in needed:
            if channel >= first_queue:
                queue = queue_sets[channel - first_queue]
                own, name = queue.core, queue.name
            elif channel == host:
                own, name = 0, ENGINE_NAMES[-1]
            else:
                own, name = channel // NUM_ENGINES, ENGINE_NAMES[channel % NUM_ENGINES]
            if own != core and channel <= host:
                raise SimulationError(
                    f"core {core} waits for {name} of core {own}: only transfers can tell it"
                )
            if following[core] >= spec.num_semaphores:
                raise DoesNotFit(
                    f"the program needs more than the {spec.num_semaphores} semaphores of a core"
                )
            self.number[channel, core] = following[core]
            self.uses[core, following[core]] = name if own == core else f"Core[{own}].{name}"
            following[core] += 1

    def remote(self, channel: int, core: int) -> tuple[int, ...]:
        """Return the semaphores of the other core that a queue set of `core` increments."""
        other = self.number.get((channel, 1 - core))
        return () if other is None else (other,)


def write_waits(
    instructions: np.ndarray,
    waits: Waits,
    plan: SemaphorePlan,
    final_of: dict[int, np.ndarray],
    queue_counts: dict[int, int],
) -> None:
    """Write the waits, and the updates of the instructions waited for, into the instructions.

    final_of      engine channel -> final index of its instruction at each position
    queue_counts  queue channel -> num_queues
    """
    values = np.zeros(len(waits.done), np.int64)
    numbers = np.zeros(len(waits.done), np.int64)
    for channel in np.unique(waits.source).tolist():
        chosen = waits.source == channel
        for core in np.unique(waits.core[chosen]).tolist():
            numbers[chosen & (waits.core == core)] = plan.number[channel, core]
        if channel in queue_counts:
            values[chosen] = waits.done[chosen] * queue_counts[channel]
            continue
        awaited, place = np.unique(waits.done[chosen], return_inverse=True)
        values[chosen] = place + 1
        (number,) = {plan.number[channel, core] for core in waits.core[chosen].tolist()}
        _mark_updates(instructions, final_of[channel][awaited - 1], number)
    slot = _rank_within(waits.instruction)
    target = instructions["waits"]
    at = (waits.instruction, slot)
    target["semaphore"][at] = numbers
    target["condition"][at] = Condition.GE
    target["used"][at] = 1
    target["value"][at] = values


def _mark_updates(instructions: np.ndarray, chosen: np.ndarray, number: int) -> None:
    updates = instructions["updates"]
    updates["semaphore"][chosen, 0] = number
    updates["kind"][chosen, 0] = Update.SEM_INC
    updates["when"][chosen, 0] = When.COMPLETE
    updates["value"][chosen, 0] = 1


def _rank_within(groups: np.ndarray) -> np.ndarray:
    """Return the position of each element within its run of equal values; runs are at most MAX_WAITS long."""
    if not len(groups):
        return groups
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    rank = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    assert int(rank.max()) < MAX_WAITS
    return rank
