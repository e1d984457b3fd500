"""Waits become semaphore values: one counting semaphore an engine and a queue set.

An engine's semaphore is incremented by those of its instructions that somebody waits for; a queue set's
grows by num_queues with each finished transfer. Neither ever falls, so a wait is "at least".
"""

from dataclasses import dataclass

import numpy as np

from npuviz.base.errors import DoesNotFit
from npuviz.targets.neuroncore.isa import ENGINE_NAMES, MAX_WAITS, NUM_ENGINES, Condition, Update, When
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import QueueSet

FIRST_SEMAPHORE = 3
"""Semaphores below are the runtime's. Ref: runtime_semaphore_count of a real NEFF."""


@dataclass(frozen=True, slots=True)
class Waits:
    """All waits of a program: (n,) int64 arrays.

    instruction  final index of the waiting instruction, rising
    core         of the waiting instruction (the host: 0)
    source       channel waited for;  done  its work up to here must be complete
    """

    instruction: np.ndarray
    core: np.ndarray
    source: np.ndarray
    done: np.ndarray


class SemaphorePlan:
    """Which semaphore counts which channel.

    number  channel -> semaphore of the core that the channel belongs to
    uses    (core, semaphore) -> who updates it
    """

    def __init__(self, spec: NeuronSpec, queue_sets: list[QueueSet], used_channels: list[int]) -> None:
        self.number: dict[int, int] = {}
        self.uses: dict[tuple[int, int], str] = {}
        host = spec.num_cores * NUM_ENGINES
        following = [FIRST_SEMAPHORE] * spec.num_cores
        for channel in used_channels:
            if channel > host:
                queue = queue_sets[channel - host - 1]
                core, name = queue.core, queue.name
            elif channel == host:
                core, name = 0, ENGINE_NAMES[-1]
            else:
                core, name = channel // NUM_ENGINES, ENGINE_NAMES[channel % NUM_ENGINES]
            if following[core] >= spec.num_semaphores:
                raise DoesNotFit(
                    f"the program needs more than the {spec.num_semaphores} semaphores of a core"
                )
            self.number[channel] = following[core]
            self.uses[(core, following[core])] = name
            following[core] += 1


def write_waits(
    instructions: np.ndarray,
    waits: Waits,
    plan: SemaphorePlan,
    final_of: dict[int, np.ndarray],
    queue_counts: dict[int, int],
) -> None:
    """Fill in the waits, and the updates of the instructions waited for.

    final_of      engine channel -> final index of its instruction at each position
    queue_counts  queue channel -> num_queues
    """
    values = np.zeros(len(waits.done), np.int64)
    numbers = np.zeros(len(waits.done), np.int64)
    for channel in np.unique(waits.source).tolist():
        chosen = waits.source == channel
        numbers[chosen] = plan.number[channel]
        if channel in queue_counts:
            values[chosen] = waits.done[chosen] * queue_counts[channel]
            continue
        awaited, place = np.unique(waits.done[chosen], return_inverse=True)
        values[chosen] = place + 1
        _mark_updates(instructions, final_of[channel][awaited - 1], plan.number[channel])
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
    """Position of each element within its run of equal values; runs are at most MAX_WAITS long."""
    if not len(groups):
        return groups
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    rank = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    assert int(rank.max()) < MAX_WAITS
    return rank
