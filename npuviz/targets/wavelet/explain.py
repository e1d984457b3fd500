"""Why a wafer cannot go on, in sentences: faults, deadlocks with who waits for whom, logged hazards."""

from collections.abc import Iterator

import numpy as np

from npuviz.sim.fabric import PORT_NAMES
from npuviz.sim.machine import Hazard
from npuviz.targets.wavelet import state_kernels as sk
from npuviz.targets.wavelet.engine import Engine
from npuviz.targets.wavelet.listing import WaveletListing
from npuviz.targets.wavelet.observe import WAITS, Observer, operation_name
from npuviz.targets.wavelet.tables import HOST_LAUNCH

SHOWN = 8
"""PEs that a deadlock report names."""
_FAULTS = {
    sk.FAULT_ADDRESS: "memory access at {value:#x}, outside the PE's memory in use",
    sk.FAULT_STACK: "the stack would end at {value:#x}, beyond the PE's memory",
    sk.FAULT_REGISTERS: "calls nest too deeply",
    sk.FAULT_OPCODE: "no instruction {value}",
    sk.FAULT_EDGE: "a word of color {low} leaves the fabric by {port}",
    sk.FAULT_UNROUTED: "a word of color {low} arrives from {port}, where this PE has no route for the color",
    sk.FAULT_QUEUE: "input queue {value} has no color: it was not initialised",
    sk.FAULT_THREAD: "microthread {value} has a live operation already",
    sk.FAULT_FIFO: "FIFO {value} met empty or full, with the action fault",
    sk.FAULT_FUNCTION: "no function {value}",
    sk.FAULT_COLOR: "color or output queue {value} is not set up on this PE",
    sk.FAULT_DSR: "no DSR {value}",
    sk.FAULT_SHAPE: "no shape {value}",
    sk.FAULT_OPERAND: "operand {value:#x} is no descriptor",
}
_HAZARDS = {
    sk.LOG_CONTROL_UNBOUND: (
        "control-unbound",
        "a control word names task id {value}, which has no task: dropped",
    ),
    sk.LOG_THREAD_BUSY: (
        "thread-busy",
        "microthread {value} still has an operation: the start waits for its end",
    ),
    sk.LOG_LENGTHS: ("lengths", "operands of an operation have different lengths; one has {value}"),
    sk.LOG_ABSORBED: (
        "activation-absorbed",
        "task {value} was active already: this activation has no effect",
    ),
    sk.LOG_NO_INDEX: ("missing-index", "an operand with wavelet_index_offset in an operation without .index"),
    sk.LOG_TWO_ARRIVALS: (
        "two-arrivals",
        "two words of color {value} arrived in one cycle from different ports",
    ),
    sk.LOG_QUEUE_BUSY: ("queue-busy", "input queue {value} is read by two operations"),
    sk.LOG_NO_ADVANCE: ("switch-stays", "SWITCH_ADV on color {value} at its last position: no effect"),
    sk.LOG_UNBOUND_TASK: ("task-unbound", "id {value} was activated and has no local task"),
}


class Explainer:
    """Turns the state of a machine into sentences."""

    def __init__(self, engine: Engine, observer: Observer, listing: WaveletListing) -> None:
        self._engine = engine
        self._observer = observer
        self._listing = listing

    def place_name(self, node: int) -> str:
        """Name of a node, as PE(x,y) in coordinates of the rectangle."""
        nodes = self._engine.program.nodes
        return f"PE({int(nodes.x[node])},{int(nodes.y[node])})" if node >= 0 else ""

    def source(self, instruction: int) -> str:
        """ "file.csl:12: " of an instruction, "" if unknown."""
        if not 0 <= instruction < len(self._listing):
            return ""
        place = self._listing.place_of(instruction)
        if place is None or place.file >= len(self._listing.sources):
            return ""
        return f"{self._listing.sources[place.file].name}:{place.line}: "

    def fault(self) -> tuple[str, str]:
        """(place, sentence) of the fault that stopped the machine."""
        s = self._engine.state
        code, node, value = int(s[sk.H_FAULT]), int(s[sk.H_FAULT_NODE]), int(s[sk.H_FAULT_VALUE])
        if code == sk.FAULT_ASSERT:
            program = self._engine.wafer.programs[self._observer.program_of(node)]
            message = program.messages[value] if 0 <= value < len(program.messages) else ""
            text = f"assertion failed{': ' + message if message else ''}"
        else:
            port = PORT_NAMES[value >> 8 & 7] if value >> 8 & 7 < len(PORT_NAMES) else ""
            text = _FAULTS.get(code, "fault {value}").format(value=value, low=value & 0xFF, port=port)
        return self.place_name(node), self.source(int(s[sk.H_FAULT_INSTRUCTION])) + text

    def deadlock(self) -> tuple[str, str]:
        """(place, sentence): which command waits, and what PEs wait for."""
        engine, s = self._engine, self._engine.state
        parts: list[str] = []
        for index in range(int(s[sk.H_OLDEST]), int(s[sk.H_NEXT])):
            state, left, _, _ = engine.command_state(index)
            if state == 1:
                command = engine.commands[index]
                what = "launch of" if command.kind == HOST_LAUNCH else "transfer of"
                why = (
                    "PEs have not unblocked the command stream" if command.kind == HOST_LAUNCH else "PEs left"
                )
                parts.append(f"host command {index} ({what} {command.subject}): {left} {why}")
        waits = list(self._waits())
        first = waits[0][0] if waits else -1
        parts += [text for _, text in waits[:SHOWN]]
        if len(waits) > SHOWN:
            parts.append(f"{len(waits) - SHOWN} more wait")
        return self.place_name(first), "nothing can happen any more: " + "; ".join(parts)

    def _waits(self) -> Iterator[tuple[int, str]]:
        for node in range(len(self._engine.program.nodes.x)):
            if not self._observer.block(node):
                continue
            yield from self._thread_waits(node)
            yield from self._channel_waits(node)

    def _thread_waits(self, node: int) -> Iterator[tuple[int, str]]:
        block = self._observer.block_words(node)
        for number in range(sk.NUM_THREADS):
            if not int(block[sk.B_THREADS]) >> number & 1:
                continue
            thread = self._observer.thread(node, number)
            name = "main thread" if number == sk.MAIN else f"microthread {number}"
            wait = WAITS.get(int(thread[sk.T_WAIT]), ("waits", ""))[0]
            what = self._queue_of(node, thread)
            source = self.source(int(thread[sk.T_LINE])).rstrip(": ")
            left = int(thread[sk.T_LEFT])
            operation = operation_name(int(thread[sk.T_OP]))
            yield node, f"{self.place_name(node)} {name} ({operation}, {left} left, {source}) {wait}{what}"
        active = int(block[sk.B_ACTIVE]) & int(block[sk.B_BLOCKED])
        for number in range(63):
            if active >> number & 1:
                yield node, f"{self.place_name(node)} task {number} is active but blocked"

    def _queue_of(self, node: int, thread: np.ndarray) -> str:
        block = self._observer.block(node)
        for place in range(4):
            a = sk.T_OPERANDS + place * sk.OPERAND_WORDS
            kind = int(thread[a + sk.A_KIND])
            wait = int(thread[sk.T_WAIT])
            if kind == sk.KIND_INPUT and wait == sk.WAIT_INPUT:
                return f" of color {int(self._engine.state[int(thread[a + sk.A_RECORD])])}"
            if kind == sk.KIND_OUTPUT and wait == sk.WAIT_OUTPUT and block:
                return f" on color {int(thread[a + sk.A_COLOR])}"
        return ""

    def _channel_waits(self, node: int) -> Iterator[tuple[int, str]]:
        for color, words in self._observer.channels(node):
            if not int(words[sk.C_TOTAL]):
                continue
            routes = int(words[sk.C_POSITIONS + int(words[sk.C_POSITION])])
            ports = [
                PORT_NAMES[port]
                for port in range(5)
                if int(words[sk.C_PORTS + port * sk.PORT_WORDS + sk.R_COUNT])
            ]
            reason = "held back"
            if int(words[sk.C_CLOSED]):
                reason = "the color is in teardown"
            elif not int(words[sk.C_ROUTED]):
                reason = "the color has no route here and no host transfer takes it"
            elif not any(routes >> PORT_NAMES.index(port) & 1 for port in ports):
                reason = f"the route does not accept {' or '.join(ports)} now"
            elif routes >> 8 & 1 and int(words[sk.C_QUEUE]) < 0:
                reason = "no queue takes it on this PE"
            count = int(words[sk.C_TOTAL])
            yield (
                node,
                f"{self.place_name(node)} {count} words of color {color} from {'+'.join(ports)}: {reason}",
            )

    def hazards(self) -> list[Hazard]:
        """What was logged so far, by cycle; equal ones of one place and instruction are named once."""
        seen: set[tuple[int, int, int, int]] = set()
        found: list[Hazard] = []
        for cycle, node, kind, value, instruction in self._engine.log_rows():
            if kind not in _HAZARDS or (node, kind, value, instruction) in seen:
                continue
            seen.add((node, kind, value, instruction))
            word, text = _HAZARDS[kind]
            sentence = self.source(instruction) + text.format(value=value)
            found.append(Hazard(cycle, self.place_name(node), instruction, word, sentence))
        return found
