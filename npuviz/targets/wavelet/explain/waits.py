"""Find what waits for what on a wafer: threads, idle PEs, held words, the PEs they need, and cycles among
them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuviz.program.instruction import DetailTable
from npuviz.sim.fabric import PORT_NAMES
from npuviz.targets.wavelet.explain.places import Places
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.main_threads import operation_name
from npuviz.targets.wavelet.view.observe import Observer, held_words

MOST_ROWS = 1000
"""Most waits that are collected: a wafer may have a million."""
NUM_PORTS = 5
IDLE = "idle"
"""`Waiting.who` of a PE that has ended a launched function without releasing the host."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A thread, an idle PE or a color that cannot continue.

    who      "main thread", "microthread 2", "@map", IDLE, "color 3"
    what     what it waits for, as the end of a sentence
    awaited  nodes that could bring that or make room, () unknown
    """

    node: int
    who: str
    what: str
    instruction: int = -1
    awaited: tuple[int, ...] = ()


class Waits:
    """Read the waits out of an engine's state."""

    def __init__(self, engine: Engine, observer: Observer, places: Places) -> None:
        self._engine = engine
        self._observer = observer
        self._places = places

    def all(self) -> list[Waiting]:
        """Return everything that waits now, by node, until there are `MOST_ROWS`."""
        found: list[Waiting] = []
        nodes = np.arange(len(self._engine.program.nodes.x))
        s = self._engine.state
        for node in nodes[s[int(self._observer.wafer.nodes) + nodes] > 0].tolist():
            found += self._of_node(node)
            if len(found) >= MOST_ROWS:
                break
        return found

    def cycle(self, waits: Sequence[Waiting]) -> list[Waiting]:
        """Return a cycle of waits: each needs the PE of the next, the last one that of the first; [] without
        one."""
        of_node: dict[int, list[Waiting]] = {}
        for wait in waits:
            if wait.awaited and not wait.who.startswith("color"):
                of_node.setdefault(wait.node, []).append(wait)
        done: set[int] = set()
        for start in of_node:
            path: list[Waiting] = []
            pending = [iter(of_node[start])] if start not in done else []
            steps: list[Iterator[int]] = []
            while pending:
                if len(steps) < len(pending):
                    wait = next(pending[-1], None)
                    if wait is None:
                        pending.pop()
                        continue
                    path.append(wait)
                    steps.append(iter(wait.awaited))
                following = next(steps[-1], None)
                if following is None:
                    steps.pop()
                    done.add(path.pop().node)
                    continue
                if following == path[-1].node:
                    continue
                where = next((i for i, wait in enumerate(path) if wait.node == following), -1)
                if where >= 0:
                    return path[where:]
                if following in of_node and following not in done:
                    pending.append(iter(of_node[following]))
        return []

    def sentence(self, wait: Waiting) -> str:
        """Return a wait as a sentence: "PE(1,0) main thread (pe.csl:12) waits for words of color 1 from
        PE(0,0)"."""
        source = self._places.source(wait.instruction)
        where = f" ({source})" if source else ""
        return f"{self._places.name(wait.node)} {wait.who}{where} {wait.what}"

    def table(self, waits: Sequence[Waiting]) -> DetailTable:
        """Return the waits as a report."""
        in_cycle = {id(wait) for wait in self.cycle(waits)}
        rows = tuple(
            (
                self._places.name(wait.node),
                wait.who,
                wait.what,
                self._places.source(wait.instruction),
                "in the cycle" if id(wait) in in_cycle else "",
            )
            for wait in waits
        )
        return DetailTable("Who waits for whom", ("PE", "Who", "Waits", "Source", "Cycle"), rows)

    # --- one node ----------------------------------------------------------------------------------------

    def _of_node(self, node: int) -> Iterator[Waiting]:
        if self._observer.program_of(node) >= 0:
            yield from self._threads(node)
            yield from self._tasks(node)
        for color, channel in self._observer.channels(node):
            if channel.held:
                yield self._held(node, color, channel)

    def _threads(self, node: int) -> Iterator[Waiting]:
        block = self._observer.block_row(node)
        for number in range(sk.NUM_THREADS):
            if int(block.threads) >> number & 1:
                thread = self._observer.thread(node, number)
                who = "main thread" if number == sk.MAIN else f"microthread {number}"
                what, awaited = self._operation(node, number)
                yield Waiting(node, who, what, int(thread.line), awaited)
        cursor = int(block.map_wait)
        if cursor > 0:
            what, awaited = self._operand(node, sk.OPERAND(self._engine.state, cursor))
            yield Waiting(node, "@map", what, int(block.line), awaited)
        elif cursor < 0:
            what = f"waits for the end of the operation that microthread {sk.BUSY_THREAD - cursor} still has"
            yield Waiting(node, "main thread", what, int(block.line))

    def _operation(self, node: int, number: int) -> tuple[str, tuple[int, ...]]:
        thread = self._observer.thread(node, number)
        name, left = operation_name(int(thread.op)), int(thread.left)
        wait = self._observer.wait(node, number)
        prefix = f"in {name}, {left} left, "
        if wait == sk.WAIT_BLOCKED:
            return prefix + "is blocked and nothing unblocks it", ()
        texts = [self._operand(node, operand) for operand in self.awaited(thread, wait)]
        awaited = tuple(dict.fromkeys(source for _, sources in texts for source in sources))
        return prefix + (" and ".join(what for what, _ in texts) or "waits"), awaited

    def awaited(self, thread: Any, wait: int) -> list[Any]:
        """Return the operands that an operation waits for: of several streams only those without words."""
        wanted = {sk.WAIT_INPUT: sk.KIND_INPUT, sk.WAIT_OUTPUT: sk.KIND_OUTPUT}.get(wait, sk.KIND_FIFO)
        operands = [thread.operands[place] for place in range(4)]
        found = [operand for operand in operands if int(operand.kind) == wanted]
        if wanted != sk.KIND_INPUT:
            return found
        empty = [one for one in found if not int(sk.QUEUE(self._engine.state, int(one.record)).count)]
        return empty or found

    def _operand(self, node: int, operand: Any) -> tuple[str, tuple[int, ...]]:
        kind = int(operand.kind)
        if kind == sk.KIND_INPUT:
            color = int(sk.QUEUE(self._engine.state, int(operand.record)).color)
            sources = self.sources(node, color)
            return f"waits for words of color {color}{self._names(' from ', sources)}", sources
        if kind == sk.KIND_OUTPUT:
            color = int(operand.color)
            takers = self.blockers(node, color)
            return f"waits for room on color {color}{self._names(' behind ', takers)}", takers
        return f"waits for FIFO {int(operand.queue)}", ()

    def _tasks(self, node: int) -> Iterator[Waiting]:
        block = self._observer.block_row(node)
        program = self._engine.wafer.programs[self._observer.program_of(node)]
        active = int(block.active) & int(block.blocked)
        names = {task.id: task.name for task in program.tasks}
        for number in range(63):
            if active >> number & 1:
                yield Waiting(node, f"task {names.get(number, number)}", "is active but blocked")
        is_idle = int(block.task) < 0 and not int(block.threads)
        if not is_idle or int(block.launch_command) < 0:
            return
        colors = [int(q.color) for q in self._queues(node) if not int(q.count)]
        colors = sorted({color for color in colors if color >= 0})
        sources = tuple(sorted({n for color in colors for n in self.sources(node, color)} - {node}))
        what = "has not called unblock_cmd_stream() and runs nothing"
        if sources:
            listed = ", ".join(map(str, colors[:4]))
            what += f"; it could get words of color {listed}{self._names(' from ', sources)}"
        yield Waiting(node, IDLE, what, -1, sources)

    def _queues(self, node: int) -> Iterator[Any]:
        places = self._observer.layout(node).queue
        return (self._observer.queue(node, number) for number in range(pk.NUM_QUEUES) if places[number])

    def _held(self, node: int, color: int, channel: Any) -> Waiting:
        ports = held_ports(channel)
        names = "+".join(PORT_NAMES[port] for port in ports)
        count = held_words(channel)
        reason = why_held(channel)
        text = f"holds {count} word{'s' if count != 1 else ''} that came by {names}: {reason}"
        return Waiting(node, f"color {color}", text, -1, self.blockers(node, color))

    def _names(self, word: str, nodes: Sequence[int]) -> str:
        if not nodes:
            return ""
        more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
        return word + ", ".join(map(self._places.name, nodes[:3])) + more

    # --- routes ------------------------------------------------------------------------------------------

    def sources(self, node: int, color: int) -> tuple[int, ...]:
        """Return the PEs whose words of a color can reach the processor of a node, by the routes of all
        switch positions."""

        def visit(here: int) -> tuple[bool, int]:
            channel = self._observer.channel(here, color)
            receive = 0
            for word in () if channel is None else map(int, channel.positions[:4]):
                receive |= word & 0x1F if word >> 16 else 0
            return bool(receive & 1) and self._observer.program_of(here) >= 0, receive

        return self._walk(node, visit)

    def _walk(self, node: int, visit: Callable[[int], tuple[bool, int]]) -> tuple[int, ...]:
        """Return the nodes found from one on; `visit` returns whether a node counts, and a mask of ports to
        follow."""
        found: set[int] = set()
        todo, seen = [node], {node}
        while todo:
            here = todo.pop()
            counts, ports = visit(here)
            if counts:
                found.add(here)
            for port in range(1, NUM_PORTS):
                neighbour = self.neighbour(here, port)
                if ports >> port & 1 and neighbour >= 0 and neighbour not in seen:
                    seen.add(neighbour)
                    todo.append(neighbour)
        return tuple(sorted(found))

    def blockers(self, node: int, color: int) -> tuple[int, ...]:
        """Return the nodes at which words of a color that leave a node are held in the end."""

        def visit(here: int) -> tuple[bool, int]:
            channel = self._observer.channel(here, color)
            if channel is None or int(channel.closed) or not int(channel.routed):
                return True, 0
            routes = int(channel.positions[int(channel.position)])
            if int(channel.held) and not any(routes >> port & 1 for port in held_ports(channel)):
                return True, 0
            return bool(routes >> 8 & 1) and self._is_queue_full(here, int(channel.queue)), routes >> 8

        return self._walk(node, visit)

    def _is_queue_full(self, node: int, number: int) -> bool:
        if number < 0 or self._observer.program_of(node) < 0:
            return True
        queue = self._observer.queue(node, number)
        return int(queue.count) >= int(queue.room) - 1

    def neighbour(self, node: int, port: int) -> int:
        """Return the node behind a port, below 0 without one."""
        words = self._engine.words
        return int(pk.NODE(words, int(pk.PROGRAM(words).nodes), node).neighbour[port])


def held_ports(channel: Any) -> list[int]:
    """Return the ports of a CHANNEL whose buffers hold words."""
    return [port for port in range(NUM_PORTS) if int(channel.ports[port].count)]


def why_held(channel: Any) -> str:
    """Say why the words of a channel do not move, given that nothing moves any more."""
    routes = int(channel.positions[int(channel.position)])
    ports = held_ports(channel)
    if int(channel.closed):
        return "the color is in teardown and nothing leaves it"
    if not int(channel.routed):
        return "the color has no route here and no host transfer takes it"
    if not any(routes >> port & 1 for port in ports):
        names = " or ".join(PORT_NAMES[port] for port in ports)
        return f"the route does not accept words from {names} (rx) now{_other_position(channel, ports)}"
    if routes >> 8 & 1 and int(channel.queue) < 0:
        return "the route leads to RAMP and no queue of the PE takes the color"
    return "held back from ahead"


def _other_position(channel: Any, ports: Sequence[int]) -> str:
    """Say which position of a switch would accept the words, and what would bring the switch there."""
    at = int(channel.position)
    accepting = [
        number
        for number in range(len(channel.positions))
        if int(channel.positions[number]) >> 16 & 1
        and any(int(channel.positions[number]) >> port & 1 for port in ports)
    ]
    if not accepting or accepting == [at]:
        return ""
    number = accepting[0]
    way = (
        "a SWITCH_ADV would lead there" if number > at or int(channel.is_ring) else "no SWITCH_ADV leads back"
    )
    return f": its switch is at position {at}, position {number} would accept them; {way}"
