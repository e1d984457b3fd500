"""Find what a byte was made from and who uses it,
through all memories of a run as far as it was simulated."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from npuviz.base.errors import UsageError
from npuviz.debug.explain import last_writer
from npuviz.debug.session import Session
from npuviz.debug.stretches import recorded_accesses
from npuviz.program.instruction import Instruction
from npuviz.program.memory import Allocation
from npuviz.program.source import line_of
from npuviz.sim.access_order import READS, WRITES, AccessTable, HasAccessOrder, RecordsAccesses
from npuviz.sim.description import Memory
from npuviz.sim.replay.uses import CONSUMER, LINK, NOBODY, PRODUCER, ROW, SURE, Uses, uses_of

MOST_NAMED = 64
"""Most beginnings of one step that are named."""
_COMPUTED = ("activation", "output")
"""Kinds of tensors that have no values until they are computed."""


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of work of the run. Its place is its position in the order in which contents changed.

    unit, operator, line  names; "" if the program has none
    cycle  cycle in which it read or wrote
    """

    place: int
    instruction: Instruction
    unit: str
    operator: str
    line: str
    cycle: int


@dataclass(frozen=True, slots=True)
class Origin:
    """One thing that a step used: the result of another step, or what the run began with (`name`).

    through  the place where the step read it, for people
    """

    step: Step | None
    name: str
    through: str


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of a byte that is in a memory now.

    writer       the step that wrote it, None if it was there at the beginning
    steps        steps that read it, or will, in the order of the run, before it is overwritten
    overwritten  the step that overwrites it, None if none does as far as the run is known
    outputs      outputs of the model that depend on it, directly or not; None while the run has
                 not ended. doubtful  outputs that may depend on it: too many ranges with gaps lie between
    """

    writer: Step | None
    steps: tuple[Step, ...]
    overwritten: Step | None
    outputs: tuple[str, ...] | None
    doubtful: tuple[str, ...] = ()


class Provenance:
    """The uses of a session's run; answers hold for its present cycle.

    until     cycle up to which the run was simulated; nothing later is known
    is_whole  whether the program has ended by then
    begin     cycle from which the run was followed
    """

    def __init__(
        self, session: Session, uses: Uses, now: int, until: int, is_whole: bool, begin: int = 0
    ) -> None:
        self._session, self._uses, self._now = session, uses, now
        self.until, self.is_whole, self.begin = until, is_whole, begin

    @property
    def left_out(self) -> tuple[str, ...]:
        """What the machine does not record, in words."""
        table = self._uses.table
        earlier = (f"what was before cycle {self.begin}",) if self.begin else ()
        return earlier if len(table.links) else (*table.left_out, *earlier)

    def step(self, place: int) -> Step:
        """Return the step at a place."""
        session, names = self._session, self._uses.table.names
        if names is not None:
            found, unit = names.work(int(self._uses.order[place, 0]))
            line = line_of(session.program.listing, found.index) if found.index >= 0 else ""
            return Step(place, found, unit, "", line, int(self._uses.order[place, 2]))
        found = session.program.listing.describe(self._uses.instruction(place))
        nodes = session.program.graph.nodes
        operator = (nodes[found.node].name or nodes[found.node].op_type) if found.node >= 0 else ""
        line = line_of(session.program.listing, found.index)
        unit = session.description.units[found.unit].name if found.unit >= 0 else ""
        return Step(place, found, unit, operator, line, int(self._uses.order[place, 2]))

    def writer(self, memory: Memory, address: int) -> Step | None:
        """Return the step that wrote a byte last, up to now; None if none has.
        Raises ValueError outside the memory."""
        if not 0 <= address < memory.size_bytes:
            raise ValueError(
                f"{address:#x}: expected an address below {memory.size_bytes:#x} of {memory.name}"
            )
        found = -1
        for place, phase in self._uses.accesses(memory.id, address, memory.bank_bytes):
            if place >= self._now:
                break
            if phase == WRITES:
                found = place
        if found >= 0:
            return self.step(found)
        if self._uses.table.names is not None:
            return None
        if self._uses.tells_of(memory.id):
            return None
        # Data on the chip may have no rows: ask the trace.
        known = last_writer(self._session, memory, address)
        places = self._uses.places_of(known.instruction.index) if known is not None else np.zeros(0, np.int64)
        places = places[places < self._now]
        return self.step(int(places[-1])) if len(places) else None

    def last_of(self, instruction: int) -> Step | None:
        """Return the last time up to now that an instruction ran; None if it has not."""
        places = self._uses.places_of(instruction)
        places = places[places < self._now]
        return self.step(int(places[-1])) if len(places) else None

    def origins(self, place: int) -> tuple[Origin, ...]:
        """Return what the step at a place used: steps first, the latest first;
        then what the run began with."""
        uses = self._uses.sources(place)
        is_made = uses[:, PRODUCER] != NOBODY
        made = uses[is_made][::-1].tolist()
        found = [Origin(self.step(use[PRODUCER]), "", self._through(use[ROW])) for use in made]
        begun = dict.fromkeys(self._beginnings(uses[~is_made]))
        return (*found, *(Origin(None, name, through) for name, through in begun))

    def users(self, place: int) -> tuple[Step, ...]:
        """Return the steps that use what the step at a place made, in the order of the run."""
        places = np.unique(self._uses.users(place)[:, CONSUMER])
        return tuple(self.step(int(each)) for each in places if each < self._uses.num_steps)

    def reached(self, places: Sequence[int]) -> np.ndarray:
        """Return a bool for each place, whether it depends on the steps at some places; these count, too."""
        return self._uses.reached(places)

    def readers_of(self, step: Step) -> Readers:
        """Return the readers of what a step made."""
        outputs, doubtful = self._ends_of([step.place])
        known = tuple(outputs) if self.is_whole else None
        return Readers(step, self.users(step.place), None, known, tuple(doubtful))

    def readers(self, memory: Memory, address: int) -> Readers:
        """Return the readers of a byte that is there now. Raises ValueError outside the memory."""
        writer = self.writer(memory, address)
        begin = writer.place if writer is not None else -1
        found: list[int] = []
        overwritten = -1
        for place, phase in self._uses.accesses(memory.id, address, memory.bank_bytes):
            if place <= begin and not (place == begin and phase == READS):
                continue
            if phase == WRITES:
                overwritten = place
                break
            if place > begin:
                found.append(place)
        if not found and writer is not None:  # data on the chip has only links
            found = [step.place for step in self.users(writer.place)]
        outputs, doubtful = self._ends_of(found)
        if overwritten < 0:
            outputs |= dict.fromkeys(self._ends_at(memory, address))
        return Readers(
            writer,
            tuple(self.step(place) for place in found),
            self.step(overwritten) if overwritten >= 0 else None,
            tuple(outputs) if self.is_whole else None,
            tuple(name for name in doubtful if name not in outputs),
        )

    # ---- inside

    def _ends_of(self, places: Sequence[int]) -> tuple[dict[str, None], dict[str, None]]:
        """Return the outputs that depend on the steps at some places, and those that may depend on them."""
        names = self._uses.table.names
        if names is not None and places:
            entries = self._uses.order[np.flatnonzero(self.reached(places)), 0].tolist()
            return dict.fromkeys(filter(None, map(names.output, entries))), {}
        surely, may = self._uses.ends_reached(*places) if places else ((), ())
        return dict.fromkeys(surely), dict.fromkeys(may)

    def _ends_at(self, memory: Memory, address: int) -> Iterable[str]:
        """Yield the outputs of the model that lie at an address."""
        graph = self._session.program.graph
        for each in self._session.program.memory_map.allocations:
            is_there = each.memory == memory.id and 0 <= address - each.address < each.size_bytes
            if is_there and each.tensor in graph.outputs:
                yield graph.tensors[each.tensor].name

    def _through(self, row: int) -> str:
        if row == LINK:
            return "on the chip"
        memory, _, bank, banks, low, high, _ = self._uses.table.rows[row].tolist()
        if self._uses.table.names is not None:
            return self._uses.table.names.place(memory, low, high)
        name, size = self._memories[memory].name, self._memories[memory].bank_bytes
        tensor = self._tensor_at(memory, bank * size + low)
        if tensor:
            return tensor
        if banks > 1:
            return f"{name} {low:#x}..{high - 1:#x} of banks {bank}..{bank + banks - 1}"
        return f"{name} {bank * size + low:#x}..{bank * size + high - 1:#x}"

    @cached_property
    def _kinds(self) -> dict[str, str]:
        """Kinds of tensors by name."""
        return {each.name: each.kind for each in self._session.program.graph.tensors}

    def _beginnings(self, uses: np.ndarray) -> Iterable[tuple[str, str]]:
        """Yield names and places of what a step read that nobody had written:
        tensors, variables, or unwritten bytes.

        A read not sure to have met unwritten bytes counts only if these have a name, as they may be gaps.
        """
        names = self._uses.table.names
        for row, is_sure in uses[:MOST_NAMED, [ROW, SURE]].tolist():
            memory, _, bank, _, low, high, _ = self._uses.table.rows[row].tolist()
            if names is not None:
                begun = names.beginning(memory, low)
                if begun:
                    yield begun, names.place(memory, low, high)
                continue
            address = bank * self._memories[memory].bank_bytes + low
            tensor = self._tensor_at(memory, address)
            label = tensor or self._label_at(memory, address)
            kind = self._kinds.get(label, "") if tensor else ""
            is_given = bool(label) and kind not in _COMPUTED
            if is_given:
                yield f"{kind} {label}".strip(), self._memories[memory].name
            elif is_sure:
                name = f"{label}, which nobody has written" if label else "nobody has written it"
                yield name, self._through(row)

    @cached_property
    def _memories(self) -> dict[int, Memory]:
        return {memory.id: memory for memory in self._session.description.memories}

    @cached_property
    def _allocations(self) -> dict[int, tuple[list[int], list[Allocation]]]:
        found: dict[int, tuple[list[int], list[Allocation]]] = {}
        for each in sorted(self._session.program.memory_map.allocations, key=lambda a: a.address):
            addresses, mine = found.setdefault(each.memory, ([], []))
            addresses.append(each.address)
            mine.append(each)
        return found

    def _tensor_at(self, memory: int, address: int) -> str:
        addresses, mine = self._allocations.get(memory, ([], []))
        at = bisect_right(addresses, address) - 1
        if at < 0 or not address < mine[at].address + mine[at].size_bytes:
            return ""
        return self._session.program.graph.tensors[mine[at].tensor].name

    def _label_at(self, memory: int, address: int) -> str:
        size = self._memories[memory].bank_bytes
        regions = self._regions.setdefault(memory, self._session.machine.regions(memory))
        return next((region.label for region in regions if region.holds(address, size)), "")

    @cached_property
    def _regions(self) -> dict[int, Sequence]:
        return {}


@dataclass(frozen=True, slots=True)
class _Followed:
    """Uses of a session's run, kept for further questions.

    key         version of the history, and the cycle up to which the run was known
    begin, end  first and last cycle that were followed; questions at cycles between can be answered
    """

    key: tuple[int, int]
    begin: int
    end: int
    uses: Uses


_known: WeakKeyDictionary[Session, _Followed] = WeakKeyDictionary()


def is_followed(session: Session) -> bool:
    """Whether `provenance_of` can answer at once; if not, it may move the machine for a moment."""
    return _known_now(session) is not None


def _known_now(session: Session) -> _Followed | None:
    """Return the uses that were followed last, if they hold for the present cycle."""
    known = _known.get(session)
    if known is None or known.key != _key(session):
        return None
    return known if known.begin <= session.cycle <= known.end else None


def _key(session: Session) -> tuple[int, int]:
    """Return the version of the history, and the cycle up to which the run is known."""
    if isinstance(session.machine, RecordsAccesses):
        return session.version, session.known_to
    horizon = session.recorder.horizon if session.recorder is not None else 0
    return session.version, max(session.cycle, horizon)


def provenance_of(session: Session) -> Provenance:
    """Follow who made what in the run so far, and beyond the present cycle as far as it is recorded.

    Raises UsageError if the machine does not tell what its work reads and writes, TargetError for a run
    that is too large, Cancelled when interrupted.
    """
    machine = session.machine
    if isinstance(machine, RecordsAccesses):
        return _recorded_provenance(session, machine)
    if not isinstance(machine, HasAccessOrder):
        raise UsageError(
            "this machine does not tell which bytes its work reads and writes; `who` finds a writer"
        )
    table = machine.access_table()
    if table.needs_trace and session.trace is None:
        raise UsageError("nothing is recorded, and only the trace of this machine tells what was read")
    key = _key(session)
    until = key[1]
    is_whole = session.end_cycle is not None and until >= session.end_cycle
    known = _known_now(session)
    if known is None:
        order = _order(session, machine, table, until)
        uses = uses_of(table, order, _ends(session) if is_whole else {})
        known = _known[session] = _Followed(key, 0, until, uses)
    uses = known.uses
    if table.needs_trace:
        now = int(np.searchsorted(uses.order[: uses.num_steps, 2], session.cycle, side="right"))
    else:
        now = len(machine.access_order(session.trace))
    return Provenance(session, uses, now, until, is_whole)


def _recorded_provenance(session: Session, machine: RecordsAccesses) -> Provenance:
    known = _known_now(session)
    if known is None:
        key = _key(session)
        found = recorded_accesses(session, machine, key[1])
        known = _Followed(key, found.begin, found.end, uses_of(found.table, found.order, {}))
        _known[session] = known
    uses = known.uses
    now = int(np.searchsorted(uses.order[:, 2], session.cycle, side="left"))
    is_whole = session.end_cycle is not None and known.end >= session.end_cycle
    return Provenance(session, uses, now, known.end, is_whole, known.begin)


def _order(session: Session, machine: HasAccessOrder, table: AccessTable, until: int) -> np.ndarray:
    if table.needs_trace or until == session.cycle:
        return machine.access_order(session.trace)
    return session.at_cycle(until, lambda: machine.access_order(session.trace))


def _ends(session: Session) -> dict[str, np.ndarray]:
    """Return, for each output that lies in a large memory, its name and the row of its bytes at the end."""
    program = session.program
    memories = {memory.id: memory for memory in session.description.memories}
    found: dict[str, np.ndarray] = {}
    for tensor in program.graph.outputs:
        place = program.memory_map.of_tensor(tensor)
        if place is not None:
            bank, low = divmod(place.address, memories[place.memory].bank_bytes)
            row = (place.memory, 0, bank, 1, low, low + place.size_bytes, 0)
            found[program.graph.tensors[tensor].name] = np.array([row], np.int64)
    return found
