"""Make the tasks of a program from streams with the core and job that run them."""

from collections.abc import Sequence
from dataclasses import dataclass

from npuviz.formats.rk3588.regcmd.shadow import effective_registers
from npuviz.formats.rk3588.regcmd.stream import Stream
from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.task.work import ENABLE_DPU, ENABLE_PPU, decode_work

TASK_LIMIT = 16384
"""Most tasks of a plan. Assumed: no model has more; each keeps all its registers in memory."""

FIRST_PLACE = 0x1000_0000
"""Address of streams that do not say where they lie."""

DPU_INTERRUPTS, PPU_INTERRUPTS = 0x300, 0xC00


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A stream with its core and job; mask None: interrupts follow from its enables."""

    stream: Stream
    core: int
    job: int
    node: int = -1
    interrupt_mask: int | None = None


def make_tasks(placed: Sequence[PlacedTask]) -> tuple[Task, ...]:
    """Return tasks in the order of tables, with the registers that each core's groups hold."""
    order = sorted(range(len(placed)), key=lambda n: (placed[n].job, placed[n].core))
    by_core: dict[int, list[int]] = {}
    for number in order:
        by_core.setdefault(placed[number].core, []).append(number)
    registers = {
        number: found
        for numbers in by_core.values()
        for number, found in zip(numbers, effective_registers(placed[n].stream for n in numbers), strict=True)
    }
    tasks: list[Task] = []
    for index, number in enumerate(order):
        each, held = placed[number], registers[number]
        enables = each.stream.tail.enables
        mask = each.interrupt_mask
        tasks.append(
            Task(
                index=index,
                core=each.core,
                job=each.job,
                stream=each.stream.address,
                words=each.stream.packed(),
                registers=held.values,
                changed=held.written,
                work=decode_work(held.values, enables),
                enable_mask=enables,
                interrupt_mask=interrupts_of(enables) if mask is None else mask,
                node=each.node,
            )
        )
    return tuple(tasks)


def interrupts_of(enables: int) -> int:
    """Return the interrupts that a driver waits for: those of the last block. Ref: MTX, ALLB."""
    if enables & ENABLE_PPU:
        return PPU_INTERRUPTS
    return DPU_INTERRUPTS if enables & ENABLE_DPU else 0
