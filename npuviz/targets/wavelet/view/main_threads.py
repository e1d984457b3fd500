"""Find out what the main threads of many nodes do now, reading them all at once."""

from typing import NamedTuple

import numpy as np

from npuviz.sim.machine import UnitState
from npuviz.targets.wavelet import isa
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine

WAITS = {
    sk.WAIT_INPUT: ("waits for words", "wait-empty"),
    sk.WAIT_OUTPUT: ("held back", "wait-queue"),
    sk.WAIT_FIFO_EMPTY: ("FIFO empty", "wait-empty"),
    sk.WAIT_FIFO_FULL: ("FIFO full", "wait-queue"),
    sk.WAIT_BLOCKED: ("blocked", "wait-dependency"),
}
"""WAIT_ code -> (its text, the role of its colour)."""
_ID_WORDS = {k.ID_LOCAL: "local task", k.ID_DATA: "data task", k.ID_CONTROL: "control task",
             k.ID_COLOR: "teardown of color", k.ID_OUTPUT_QUEUE: "empty queue"}  # fmt: skip


class MainThread(NamedTuple):
    """What a main thread does: the fields of `UnitState`, and the name of its task, "" if there is none."""

    status: str
    role: str
    detail: str = ""
    instruction: int = -1
    since: int = -1
    task: str = ""

    def state_of(self, unit: int) -> UnitState:
        """Return this as the state of a unit."""
        return UnitState(unit, self.status, self.role, self.detail, self.instruction, self.since)


def operation_name(number: int) -> str:
    """Return the name of a DSD operation."""
    return isa.name_of("D_", number)


def operation_text(operation: int, wait: int, left: int) -> tuple[str, str]:
    """Return what a DSD operation does, in words and as the role of a colour.

    wait  a WAIT_ code
    left  elements left
    """
    name, why = operation_name(operation), WAITS.get(wait)
    if why is not None:
        return f"{name}: {why[0]}", why[1] if why[1] == "wait-empty" else "control"
    return f"{name}, {left} left", "compute"


def main_threads(engine: Engine, nodes: np.ndarray, blocks: np.ndarray, cycle: int) -> list[MainThread]:
    """Return what the main threads of nodes do at `cycle`.

    nodes, blocks  (n,) int: nodes, and the words of their blocks; 0 where nothing has happened
    """
    s, words = engine.state, engine.words
    program = pk.PROGRAM(words)
    layouts = words[int(program.nodes) + nodes * pk.NODE.num_words + pk.NODE.layout]
    # Word 0 stands for blocks that do not exist: their rows are not used.
    has_block = blocks > 0
    outermost = np.where(has_block, blocks + words[layouts + pk.LAYOUT.registers], 0)
    thread = np.where(
        has_block, blocks + words[layouts + pk.LAYOUT.threads] + sk.MAIN * sk.THREAD.num_words, 0
    )
    codes = (words[layouts + pk.LAYOUT.code] - int(program.codes)) // pk.CODE.num_words
    stalled = s[blocks + sk.BLOCK.stalled]
    is_held = (stalled | stalled >> sk.STALLED_OUTPUT | s[blocks + sk.BLOCK.tested]) >> sk.MAIN & 1 > 0
    is_held |= s[blocks + sk.BLOCK.next + sk.MAIN] > cycle
    columns = (
        codes,
        s[outermost + sk.FRAME.function],
        *(s[blocks + word] for word in _BLOCK_WORDS),
        *(s[thread + word] for word in (sk.THREAD.op, sk.THREAD.left)),
        np.where(is_held, s[thread + sk.THREAD.wait], sk.WAIT_NONE),
    )
    programs = engine.wafer.programs
    found: list[MainThread] = []
    for is_there, code, function, *row in zip(
        has_block.tolist(), *(each.tolist() for each in columns), strict=True
    ):
        task = row[1]
        name = programs[code].functions[function].name if is_there and task >= 0 else ""
        found.append(_main_thread(name, *row) if is_there else _IDLE)
    return found


_BLOCK_WORDS = (
    sk.BLOCK.halted,
    sk.BLOCK.task,
    sk.BLOCK.threads,
    sk.BLOCK.map_wait,
    sk.BLOCK.line,
    sk.BLOCK.task_start,
)
_IDLE = MainThread("idle", "idle")


def _main_thread(name: str, halted: int, task: int, threads: int, map_wait: int, line: int, start: int,
                 operation: int, left: int, wait: int) -> MainThread:  # fmt: skip
    if halted:
        return MainThread("halted", "control", "the program stopped this PE", task=name)
    if not name:
        return _IDLE
    if threads >> sk.MAIN & 1:
        return MainThread(*operation_text(operation, wait, left), name, line, start, name)
    if map_wait > 0:
        return MainThread("@map waits", "wait-empty", name, line, start, name)
    what = f"{_ID_WORDS.get(task >> 16, 'launched')} {task & 0xFFFF}"
    return MainThread(name, "control", what, line, start, name)
