"""Explain the state of a wafer in sentences: faults, deadlocks with what waits for what, logged hazards."""

from npuviz.program.instruction import DetailTable
from npuviz.sim.fabric import PORT_NAMES
from npuviz.sim.machine import Hazard, WaitLink
from npuviz.targets.wavelet.explain.chains import Chains
from npuviz.targets.wavelet.explain.hazards import Hazards
from npuviz.targets.wavelet.explain.places import Places
from npuviz.targets.wavelet.explain.senders import Senders
from npuviz.targets.wavelet.explain.waits import IDLE, Waits
from npuviz.targets.wavelet.kernels import faults
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.description import Numbering
from npuviz.targets.wavelet.view.listing import WaveletListing
from npuviz.targets.wavelet.view.observe import Observer
from npuviz.targets.wavelet.wafer import HOST_LAUNCH

SHOWN = 8
"""Most waits that a deadlock report names."""
_FAULTS = {
    int(code): text
    for code, text in {
        faults.FAULT_ADDRESS: "memory access at {value:#x}, outside the PE's memory in use",
        faults.FAULT_STACK: "the stack would end at {value:#x}, beyond the PE's memory",
        faults.FAULT_REGISTERS: "calls nest too deeply",
        faults.FAULT_OPCODE: "no instruction {value}",
        faults.FAULT_UNROUTED: (
            "a word of color {low} arrives from {port}: this PE has no route for the color"
        ),
        faults.FAULT_QUEUE: "input queue {value} has no color: it was not initialised",
        faults.FAULT_FIFO: "FIFO {value} met empty or full, with the action fault",
        faults.FAULT_FUNCTION: "no function {value}",
        faults.FAULT_COLOR: "color or output queue {value} is not set up on this PE",
        faults.FAULT_DSR: "no DSR {value}",
        faults.FAULT_SHAPE: "no shape {value}",
        faults.FAULT_OPERAND: "operand {value:#x} is no descriptor",
        faults.FAULT_EMPTY: "input queue {value} is empty: two operands of an operation take its words",
        faults.FAULT_ROOM: "color {value} has no room for the second word of a step",
        faults.FAULT_SOURCE: "dfilt has no source in the fabric",
        faults.FAULT_REGISTER: "configuration register {value:#x} is not simulated",
        faults.FAULT_FILTER: "no color of this PE has filter {value}",
        faults.FAULT_MASK: "mask {value:#x} of control_transform is not simulated: no page says whether it "
        "changes words that come or that go",
        faults.FAULT_ARGUMENTS: "function {value} takes fewer arguments than the call gives",
    }.items()
}


class Explainer:
    """Turn the state of a machine into sentences."""

    def __init__(self, engine: Engine, observer: Observer, listing: WaveletListing) -> None:
        self._engine = engine
        self._observer = observer
        self._places = Places(engine, listing)
        self._waits = Waits(engine, observer, self._places)
        self._hazards = Hazards(engine, observer, self._places)
        senders = Senders(engine, observer, listing)
        self._chains = Chains(engine, observer, self._places, self._waits, senders)

    def source(self, instruction: int) -> str:
        """Return the source line of an instruction as "pe.csl:12: ", "" if unknown."""
        text = self._places.source(instruction)
        return f"{text}: " if text else ""

    def fault(self) -> tuple[str, str]:
        """Return (place, sentence) of the fault that stopped the machine."""
        wafer = self._observer.wafer
        code, node, value = int(wafer.fault), int(wafer.fault_node), int(wafer.fault_value)
        if code == faults.FAULT_ASSERT:
            program = self._engine.wafer.programs[self._observer.program_of(node)]
            message = program.messages[value] if 0 <= value < len(program.messages) else ""
            is_named = message and not message.startswith("@assert failed at")
            text = f"assertion failed{': ' + message if is_named else ''}"
        else:
            port = PORT_NAMES[value >> 8 & 7] if value >> 8 & 7 < len(PORT_NAMES) else ""
            text = _FAULTS.get(code, "fault {value}").format(value=value, low=value & 0xFF, port=port)
        source = self._route(code, node, value) or self.source(int(wafer.fault_instruction))
        return self._places.name(node), source + text

    def _route(self, code: int, node: int, value: int) -> str:
        """Return where the route is configured that a fault is about, "" for other faults."""
        if code != faults.FAULT_UNROUTED:
            return ""
        sender = self._waits.neighbour(node, value >> 8 & 7)
        text = self._places.route_source(self._observer.program_of(sender), sender, value & 0xFF)
        return f"{text}: " if text else ""

    def deadlock(self) -> tuple[str, str]:
        """Return (place, sentence) of a deadlock: which command waits, and what waits for what."""
        engine, wafer = self._engine, self._observer.wafer
        parts: list[str] = []
        for index in range(int(wafer.oldest), int(wafer.next)):
            state, left, _, _ = engine.command_state(index)
            if state == 1:
                command = engine.commands[index]
                what, why = "transfer of", "to go"
                if command.kind == HOST_LAUNCH:
                    what, why = "launch of", "without unblock_cmd_stream()"
                pes = "1 PE" if left == 1 else f"{left} PEs"
                parts.append(f"host command {index} ({what} {command.subject}): {pes} {why}")
        waits = self._waits.all()
        cycle = self._waits.cycle(waits)
        if cycle:
            texts = [self._waits.sentence(wait) for wait in cycle[:SHOWN]]
            parts.append(f"a cyclic wait of {len(cycle)} PEs: " + ", and ".join(texts))
        others = [wait for wait in waits if all(wait is not each for each in cycle)]
        room = max(0, SHOWN - len(cycle))
        parts += [self._waits.sentence(wait) for wait in others[:room]]
        if len(others) > room:
            parts.append(f"{len(others) - room} more wait")
        first = (cycle or waits)[0].node if waits else -1
        return self._places.name(first), "nothing can happen any more: " + "; ".join(parts)

    def has_only_ended_launches(self) -> bool:
        """Return whether all waits are PEs whose launched function ended without unblock_cmd_stream()."""
        waits = self._waits.all()
        return bool(waits) and all(wait.who == IDLE for wait in waits)

    def endless(self, limit: int) -> tuple[str, str]:
        """Return (place, sentence) of a run that has reached its limit: what is at work, or what waits."""
        place, text = self.at_work()
        return place, f"the run has not ended after {limit:,} cycles (--set limit=N for more): {text}"

    def at_work(self) -> tuple[str, str]:
        """Return (place, text) of the first PEs that run a task now, with its line; if none does, of what
        waits."""
        found: list[tuple[int, str]] = []
        for node in range(len(self._engine.program.nodes.x)):
            block = self._observer.block_row(node)
            if self._observer.block(node) and int(block.task) >= 0:
                source = self._places.source(int(block.line))
                found.append(
                    (node, f"{self._places.name(node)} is in {self._observer.task_name(node)} ({source})")
                )
            if len(found) == SHOWN:
                break
        texts = [text for _, text in found] or [
            self._waits.sentence(wait) for wait in self._waits.all()[:SHOWN]
        ]
        return self._places.name(found[0][0]) if found else "", "; ".join(texts)

    def waits(self) -> DetailTable:
        """Return a report of what waits for what now."""
        return self._waits.table(self._waits.all())

    def chain(self, numbering: Numbering, unit: int) -> list[WaitLink]:
        """Follow what a unit waits for now to the reason."""
        return self._chains.of_unit(numbering, unit)

    def lost(self) -> list[Hazard]:
        """Return the hazards of words that left the rectangle and were dropped."""
        return self._hazards.lost()

    def hazards(self) -> list[Hazard]:
        """Return the hazards up to now, by cycle."""
        return self._hazards.all()
