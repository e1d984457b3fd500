"""Follow what a unit waits for, through threads, colors and PEs, to a line not reached or a task not
activated."""

from dataclasses import dataclass

from npuviz.sim.machine import WaitLink
from npuviz.targets.wavelet.explain.places import Places
from npuviz.targets.wavelet.explain.senders import Senders
from npuviz.targets.wavelet.explain.waits import NUM_PORTS, Waits, held_ports, why_held
from npuviz.targets.wavelet.kernels import isa as k
from npuviz.targets.wavelet.kernels import program_records as pk
from npuviz.targets.wavelet.kernels import records as sk
from npuviz.targets.wavelet.machine.engine import Engine
from npuviz.targets.wavelet.view.description import ROUTER as ROUTER_PART
from npuviz.targets.wavelet.view.description import Numbering
from npuviz.targets.wavelet.view.main_threads import operation_name
from npuviz.targets.wavelet.view.observe import Observer
from npuviz.targets.wavelet.wafer import PeProgram

MOST_LINKS = 16
SHOWN = 3
IDLE, ROUTER = -1, 100
"""Used in place of a thread number: the idle main thread, and the router."""

_UNIT_PARTS = {IDLE: -1, sk.MAIN: -1, ROUTER: ROUTER_PART}


@dataclass(frozen=True, slots=True)
class _Step:
    """A place in a chain of waits: a thread of a node (or IDLE, ROUTER), and the color it is about."""

    node: int
    part: int
    color: int = -1


class Chains:
    """Follow waits through an engine's state."""

    def __init__(
        self, engine: Engine, observer: Observer, places: Places, waits: Waits, senders: Senders
    ) -> None:
        self._engine = engine
        self._observer = observer
        self._places = places
        self._waits = waits
        self._senders = senders

    def of_unit(self, numbering: Numbering, unit: int) -> list[WaitLink]:
        """Return the chain of a unit; [] for the host and for a unit at work."""
        position = numbering.unit_pe[unit]
        if position < 0:
            return []
        part = numbering.unit_part[unit]
        node = numbering.watched[position].node
        begin = self._main_part(node) if part < 0 else ROUTER if part == ROUTER_PART else part
        step: _Step | None = _Step(node, begin)
        found: list[WaitLink] = []
        seen: set[tuple[int, int]] = set()
        units = {(numbering.watched[at].node, number): each
                 for each, (at, number) in enumerate(zip(numbering.unit_pe, numbering.unit_part, strict=True))
                 if at >= 0}  # fmt: skip
        own = unit
        while step is not None and len(found) < MOST_LINKS:
            own = units.get((step.node, _UNIT_PARTS.get(step.part, step.part)), own)
            if (step.node, step.part) in seen:
                found.append(WaitLink(own, "and so the wait is a circle", -1, False))
                break
            seen.add((step.node, step.part))
            link, step = self._link(own, step)
            if link is None:
                break
            found.append(link)
        return found

    # --- links -----------------------------------------------------------------------------------------

    def _link(self, unit: int, step: _Step) -> tuple[WaitLink | None, _Step | None]:
        if step.part == ROUTER:
            return self._router(unit, step)
        if self._observer.program_of(step.node) < 0:
            return WaitLink(unit, f"{self._places.name(step.node)} runs no program", -1, False), None
        if step.part == IDLE:
            return self._idle(unit, step)
        return self._thread(unit, step)

    def _main_part(self, node: int) -> int:
        if self._observer.program_of(node) < 0:
            return IDLE
        block = self._observer.block_row(node)
        return sk.MAIN if int(block.task) >= 0 or int(block.threads) >> sk.MAIN & 1 else IDLE

    def _thread(self, unit: int, step: _Step) -> tuple[WaitLink | None, _Step | None]:
        node, number = step.node, step.part
        block = self._observer.block_row(node)
        who = f"{self._places.name(node)} {'main thread' if number == sk.MAIN else f'microthread {number}'}"
        if not int(block.threads) >> number & 1:
            if number != sk.MAIN:
                return WaitLink(unit, f"{who} has no operation", -1, False), None
            return self._scalar(unit, step, who)
        thread = self._observer.thread(node, number)
        line = int(thread.line)
        where = f"{who} ({self._places.source(line)}) {operation_name(int(thread.op))}"
        wait = self._observer.wait(node, number)
        if wait == sk.WAIT_NONE:
            return WaitLink(unit, f"{where} is at work, {int(thread.left)} left", line, False), None
        if wait == sk.WAIT_BLOCKED:
            return WaitLink(unit, f"{where}: is blocked, and no line has unblocked it", line, False), None
        operand = next(iter(self._waits.awaited(thread, wait)), None)
        if operand is None or int(operand.kind) not in (sk.KIND_INPUT, sk.KIND_OUTPUT):
            return WaitLink(unit, f"{where}: waits for a FIFO, {int(thread.left)} left", line, True), None
        if int(operand.kind) == sk.KIND_OUTPUT:
            text = f"{where}: waits for room on color {int(operand.color)}, {int(thread.left)} left"
            return WaitLink(unit, text, line), self._blocker(node, int(operand.color))
        color = int(sk.QUEUE(self._engine.state, int(operand.record)).color)
        text = f"{where}: waits for words of color {color}, {int(thread.left)} left"
        return self._wants(unit, step, color, text, line)

    def _scalar(self, unit: int, step: _Step, who: str) -> tuple[WaitLink | None, _Step | None]:
        block, line = self._observer.block_row(step.node), int(self._observer.block_row(step.node).line)
        where = f"{who} ({self._places.source(line)})"
        cursor = int(block.map_wait)
        if cursor < 0:
            text = f"{where}: waits for the end of what microthread {sk.BUSY_THREAD - cursor} has under way"
            return WaitLink(unit, text, line), None
        if cursor == 0:
            name = self._observer.task_name(step.node)
            return WaitLink(unit, f"{where} is at work in {name}", line, False), None
        operand = sk.OPERAND(self._engine.state, cursor)
        if int(operand.kind) != sk.KIND_INPUT:
            return WaitLink(unit, f"{where}: @map waits for room", line), None
        color = int(sk.QUEUE(self._engine.state, int(operand.record)).color)
        return self._wants(unit, step, color, f"{where}: @map waits for words of color {color}", line)

    def _wants(
        self, unit: int, step: _Step, color: int, text: str, line: int
    ) -> tuple[WaitLink | None, _Step | None]:
        """Explain a wait for words: the PE that should send them, and the lines there that would."""
        sources = [node for node in self._waits.sources(step.node, color) if node != step.node] or list(
            self._waits.sources(step.node, color)
        )
        if not sources:
            return WaitLink(
                unit, f"{text}; no route brings this color from a PE with a program", line, False
            ), None
        following = max(sources, key=lambda node: self._interest(node, color))
        lines = self._senders.of_color(following, color)
        name = self._places.name(following)
        places = list(dict.fromkeys(filter(None, map(self._places.source, lines))))
        by = (
            f", sent by {' or '.join(places[:SHOWN])}"
            if places
            else ", where no line that sends it was found"
        )
        more = f" (or {len(sources) - 1} other PEs)" if len(sources) > 1 else ""
        return WaitLink(unit, f"{text} from {name}{more}{by}", line), self._toward(following, color, lines)

    def _interest(self, node: int, color: int) -> tuple[bool, bool]:
        """Return how well a source explains a missing word: whether a line of it sends the word, and whether
        it is idle."""
        return bool(self._senders.of_color(node, color)), self._main_part(node) == IDLE

    def _toward(self, node: int, color: int, lines: list[int]) -> _Step | None:
        """Find what holds back the words that a PE should send: an operation, the router, or a main thread
        not there yet."""
        block = self._observer.block_row(node)
        for number in range(sk.NUM_THREADS):
            if int(block.threads) >> number & 1:
                operand = self._observer.thread(node, number).operands[0]
                if int(operand.kind) == sk.KIND_OUTPUT and int(operand.color) == color:
                    return _Step(node, number, color)
        held = self._observer.channel(node, color)
        if held is not None and int(held.held):
            return _Step(node, ROUTER, color)
        return _Step(node, self._main_part(node), color) if lines else None

    # --- an idle PE ------------------------------------------------------------------------------------

    def _idle(self, unit: int, step: _Step) -> tuple[WaitLink | None, _Step | None]:
        node, block = step.node, self._observer.block_row(step.node)
        name = self._places.name(node)
        if int(block.halted):
            return WaitLink(unit, f"{name} has halted", -1, False), None
        program = self._engine.wafer.programs[self._observer.program_of(node)]
        blocked = int(block.active) & int(block.blocked)
        for task in program.tasks:
            if task.kind == k.ID_LOCAL and task.id < 63 and blocked >> task.id & 1:
                text = f"{name} is idle: task {task.name} is active, but blocked and nothing has unblocked it"
                return WaitLink(unit, text, self._entry(node, task.function), False), None
        functions = self._wanted(node, step.color, program)
        return self._not_begun(unit, node, program, functions)

    def _wanted(self, node: int, color: int, program: PeProgram) -> set[int]:
        """Return the functions that the chain is about: those that would send its color, or all tasks."""
        lines = self._senders.of_color(node, color) if color >= 0 else []
        found = {function for line in lines for function in self._senders.tasks_of(node, line)}
        return found or {task.function for task in program.tasks}

    def _not_begun(
        self, unit: int, node: int, program: PeProgram, functions: set[int]
    ) -> tuple[WaitLink | None, _Step | None]:
        """Explain why none of some functions runs: a task without words, one that is not activated, no
        launch."""
        name = self._places.name(node)
        block = self._observer.block_row(node)
        tasks = sorted((task for task in program.tasks if task.function in functions), key=lambda t: t.kind)
        texts: list[str] = []
        entry, following = -1, None
        for task in tasks:
            entry = self._entry(node, task.function) if entry < 0 else entry
            if task.kind == k.ID_DATA:
                color = self._color_of(node, task.id)
                sources = [n for n in self._waits.sources(node, color) if n != node]
                is_blocked = task.id < 63 and int(block.blocked) >> task.id & 1
                state = "is blocked" if is_blocked else f"gets no word of color {color}"
                texts.append(f"data task {task.name} {state}")
                if sources and following is None and not is_blocked:
                    source = max(sources, key=lambda each: self._interest(each, color))
                    following = self._toward(source, color, self._senders.of_color(source, color))
            elif task.kind == k.ID_LOCAL:
                text, thread = self._not_activated(node, task.id)
                texts.append(f"task {task.name} is not active: {text}")
                following = following or thread
            else:
                texts.append(f"control task {task.name} gets no control wavelet")
        for export in program.exports:
            if export.function in functions and all(task.function != export.function for task in tasks):
                texts.append(f"{export.name} is not running: the host launches it")
                entry = self._entry(node, export.function) if entry < 0 else entry
        more = f"; {len(texts) - SHOWN} tasks more" if len(texts) > SHOWN else ""
        text = f"{name} is idle: {'; '.join(texts[:SHOWN]) or 'its program has no task'}{more}"
        return WaitLink(unit, text, entry, following is not None), following

    def _not_activated(self, node: int, task: int) -> tuple[str, _Step | None]:
        """Say what would activate a local task, with the thread that does so when it ends."""
        block = self._observer.block_row(node)
        for number in range(sk.NUM_THREADS):
            if int(block.threads) >> number & 1:
                thread = self._observer.thread(node, number)
                if int(thread.activate) == task:
                    return f"the end of microthread {number} activates it", _Step(node, number)
        lines = self._senders.of_task(node, task)
        places = list(dict.fromkeys(filter(None, map(self._places.source, lines))))
        if not places:
            return "no line of this PE was found that activates it", None
        return f"{' or '.join(places[:SHOWN])} would activate it", None

    def _entry(self, node: int, function: int) -> int:
        code = pk.CODE(self._engine.words, int(self._observer.layout(node).code))
        program = self._engine.wafer.programs[self._observer.program_of(node)]
        return int(code.first) + program.functions[function].entry

    def _color_of(self, node: int, identity: int) -> int:
        """Return the color whose words a data task takes."""
        for number, place in enumerate(self._observer.layout(node).queue.tolist()):
            queue = self._observer.queue(node, number) if place else None
            if queue is not None and int(queue.id) == identity:
                return int(queue.color)
        return identity

    # --- words that cannot continue --------------------------------------------------------------------

    def _blocker(self, node: int, color: int) -> _Step | None:
        found = self._waits.blockers(node, color)
        return _Step(found[0], ROUTER, color) if found else None

    def _router(self, unit: int, step: _Step) -> tuple[WaitLink | None, _Step | None]:
        node, name = step.node, self._places.name(step.node)
        held = [(color, channel) for color, channel in self._observer.channels(node) if channel.held]
        held = [each for each in held if step.color in (-1, each[0])] or held
        if not held:
            channel = self._observer.channel(node, step.color) if step.color >= 0 else None
            if channel is None or not int(channel.queue) >= 0:
                return WaitLink(unit, f"{name} router holds no words", -1, False), None
            return self._taker(
                unit, node, step.color, channel, f"{name} takes no words of color {step.color}"
            )
        color, channel = held[0]
        source = self._places.route_source(self._observer.program_of(node), node, color)
        where = f"{name} router{f' ({source})' if source else ''} holds words of color {color}"
        reason, routes = why_held(channel), int(channel.positions[int(channel.position)])
        is_open = any(routes >> port & 1 for port in held_ports(channel)) and not int(channel.closed)
        if not is_open or not int(channel.routed):
            return WaitLink(unit, f"{where}: {reason}", -1, False), None
        if routes >> 8 & 1:
            if int(channel.queue) < 0:
                return WaitLink(unit, f"{where}: {reason}", -1, False), None
            queue = self._observer.queue(node, int(channel.queue))
            if int(queue.count) >= int(queue.room) - 1:
                return self._taker(
                    unit, node, color, channel, f"{where}: input queue {int(channel.queue)} is full"
                )
        following = [n for n in self._waits.blockers(node, color) if n != node]
        ways = [port for port in range(1, NUM_PORTS) if routes >> 8 + port & 1]
        if following and ways:
            return WaitLink(unit, f"{where}: {reason}"), _Step(following[0], ROUTER, color)
        return WaitLink(unit, f"{where}: they are on their way", -1, False), None

    def _taker(
        self, unit: int, node: int, color: int, channel: object, text: str
    ) -> tuple[WaitLink | None, _Step | None]:
        """Explain a full queue of a PE: which operation or task should take its words."""
        block = self._observer.block_row(node)
        queue = self._observer.queue(node, int(channel.queue))  # type: ignore[attr-defined]
        reader = int(queue.thread)
        if reader >= 0:
            return WaitLink(unit, f"{text}, and an operation takes its words"), _Step(node, reader)
        program = self._engine.wafer.programs[self._observer.program_of(node)]
        identity = int(queue.id)
        task = next((t for t in program.tasks if t.kind == k.ID_DATA and t.id == identity), None)
        if task is None:
            return WaitLink(unit, f"{text}, and no operation or data task takes its words", -1, False), None
        entry = self._entry(node, task.function)
        if 0 <= identity < 63 and int(block.blocked) >> identity & 1:
            return WaitLink(unit, f"{text}, and data task {task.name} is blocked", entry, False), None
        main = self._main_part(node)
        text = f"{text}, and data task {task.name} has not taken its words"
        return WaitLink(unit, text, entry, main != IDLE), _Step(node, main) if main != IDLE else None
