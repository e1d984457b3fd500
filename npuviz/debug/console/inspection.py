"""Text commands that inspect the machine and change values; each function takes the rest of its line."""

from dataclasses import dataclass
from typing import Any

from npuviz.base.errors import UsageError
from npuviz.debug import translate
from npuviz.debug.condition.language import parse_expression
from npuviz.debug.console.answer import Answer, Shown
from npuviz.debug.console.arguments import number_of, time_of, unit_of, words_of
from npuviz.debug.console.motion import list_breakpoints
from npuviz.debug.console.places import area_of, fabric_of, labels_in
from npuviz.debug.console.variables import place_of, print_variable, variable_in, variable_named
from npuviz.debug.hazard_groups import group_hazards
from npuviz.debug.session import Session
from npuviz.debug.unit_steps import instruction_at
from npuviz.program.instruction import HasDependencies
from npuviz.sim.checks.findings import findings_of, looks
from npuviz.sim.description import Memory
from npuviz.sim.fabric import Glance, HasElements, glance_at
from npuviz.sim.machine import HasEmptyReports, HasReports, HasSemaphores, Wait

LONGEST_DUMP_BYTES = 1 << 20
SHORT_DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"} | {
    f"{short}{bits}": f"{long}{bits}"
    for short, long in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}
"""Short names of element types, as programs write them -> full names."""
SHOWN_ENTRIES = 4
MOST_ELEMENTS = 4096
"""Most elements without units that a rectangle lists."""


def print_probe(session: Session, rest: str) -> Answer:
    """Answer `print [PROBE|VARIABLE]`: the value of a probe or variable, or all probes."""
    if not rest:
        rows = tuple(
            (p.id, translate.format_value(session.read(p.id), 4), p.measure, p.title)
            for p in session.machine.probes
        )
        return Answer(columns=("probe", "value", "measure", "title"), rows=rows, name="probes")
    name = rest.strip('"')
    known = {probe.id: probe for probe in session.machine.probes}
    if name not in known:
        return print_variable(session, name)
    value = session.read(name)
    shown = translate.format_value(value)
    return Answer({"probe": name, "value": Shown(value, shown), "measure": known[name].measure or None})


def evaluate(session: Session, rest: str) -> Answer:
    """Answer `eval EXPRESSION`: the value of an expression."""
    value = session.evaluate(parse_expression(rest, session.scope))
    shown = "not known yet" if value is None else translate.format_value(value)
    return Answer({"expression": rest, "value": Shown(value, shown)})


def dump_memory(session: Session, rest: str) -> Answer:
    """Answer `mem MEMORY ADDR LEN [DTYPE]` or `mem [MEMORY] VARIABLE [LEN] [DTYPE]`: contents of a memory."""
    memory, address, size, words = _area_of(session, words_of(rest, 1, 4))
    if size is not None and not (words and words[0][0].isdigit()):
        words.insert(0, str(size))
    if not words:
        raise UsageError("expected a number of bytes behind the address")
    length = number_of(words[0], "a number of bytes")
    if length > LONGEST_DUMP_BYTES:
        raise UsageError(f"{length} bytes: expected at most {LONGEST_DUMP_BYTES}")
    data = session.machine.read_memory(memory.id, address, length)
    dtype = SHORT_DTYPES.get(words[1], words[1]) if len(words) > 1 else _dtype_at(session, memory, address)
    values = translate.numbers(data, dtype)
    per_row = max(1, 16 // values.itemsize)
    rows = tuple(
        (
            f"{address + first * values.itemsize:#x}",
            data[first * values.itemsize : (first + per_row) * values.itemsize].hex(" "),
            " ".join(translate.format_number(v) for v in values[first : first + per_row]),
        )
        # Bytes at the end that are too few for a value are shown without one.
        for first in range(0, -(-len(data) // values.itemsize), per_row)
    )
    pairs = {"memory": memory.name, "address": f"{address:#x}", "bytes": length, "dtype": dtype}
    return Answer(pairs, ("address", "bytes", "values"), rows)


def _area_of(session: Session, words: list[str]) -> tuple[Memory, int, int | None, list[str]]:
    """Return memory, address, the bytes of a variable (None for an address), and the words behind."""
    alone = variable_named(session, words[0])
    if alone is not None:
        return alone.memory, alone.address, alone.size_bytes, words[1:]
    memory, address, behind = place_of(session, words)
    variable = variable_in(session, memory, words[1])
    return memory, address, variable.size_bytes if variable is not None else None, behind


def set_probe(session: Session, rest: str) -> Answer:
    """Answer `set PROBE VALUE`: change a probe."""
    words = words_of(rest, 2, 1 << 20)
    probe = next((p for p in session.machine.probes if p.id == words[0]), None)
    if probe is None:
        raise UsageError(f"no probe {words[0]!r}; `print` alone lists them")
    session.write(probe.id, translate.parse_value(" ".join(words[1:]), probe))
    value = session.read(probe.id)
    shown = Shown(value, translate.format_value(value))
    return Answer({"probe": probe.id, "value": shown, "cycle": session.cycle})


def queues(session: Session, rest: str) -> Answer:
    """Answer `queues [C,R[..C,R]]`: what the queues hold."""
    rows: list[tuple[Any, ...]] = []
    chosen = _chosen(session, rest)
    for queue in session.description.queues:
        if chosen is not None and queue.unit not in chosen.units:
            continue
        entries = session.machine.queue_entries(queue.id)
        shown = [entry.text for entry in entries[:SHOWN_ENTRIES]]
        more = f" (+{len(entries) - SHOWN_ENTRIES})" if len(entries) > SHOWN_ENTRIES else ""
        rows.append((queue.name, len(entries), queue.capacity or None, " | ".join(shown) + more))
    for name, glance in chosen.others if chosen is not None else ():
        rows += [(f"{name}.{q.name}", q.entries, q.capacity or None, "") for q in glance.levels]
    return Answer(columns=("queue", "entries", "capacity", "contents"), rows=tuple(rows), name="queues")


def units(session: Session, rest: str) -> Answer:
    """Answer `units [C,R[..C,R]]`: what the units do."""
    names = {unit.id: unit.name for unit in session.description.units}
    chosen = _chosen(session, rest)
    rows: list[tuple[Any, ...]] = [
        (
            names[state.unit],
            state.status,
            state.since if state.since >= 0 else None,
            state.instruction if state.instruction >= 0 else None,
            state.detail,
        )
        for state in session.machine.unit_states()
        if chosen is None or state.unit in chosen.units
    ]
    for name, glance in chosen.others if chosen is not None else ():
        rows.append((name, glance.detail, None, None, glance.task))
    return Answer(
        columns=("unit", "status", "since", "instruction", "detail"), rows=tuple(rows), name="units"
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What lies in an area: units of the description, and the elements that have none (not watched)."""

    units: set[int]
    others: list[tuple[str, Glance]]


def _chosen(session: Session, rest: str) -> _Chosen | None:
    """Return what lies at a place or in a rectangle; None if none is given."""
    if not rest.strip():
        return None
    machine, fabric, area = session.machine, fabric_of(session), area_of(session, rest)
    if not isinstance(machine, HasElements):
        raise UsageError("the elements of this machine cannot be looked into one by one")
    found, others = set[int](), list[tuple[str, Glance]]()
    for row in range(area.row, area.row + area.rows):
        for column in range(area.column, area.column + area.columns):
            own = machine.units_of_element(column, row)
            found.update(own)
            if not own and len(others) < MOST_ELEMENTS:
                others.append((fabric.label(column, row), glance_at(machine, column, row)))
    return _Chosen(found, others)


def hazards(session: Session, rest: str) -> Answer:
    """Answer `hazards [C,R[..C,R]]`: hazards found so far, grouped by line."""
    columns = ("cycle", "unit", "instruction", "hazard", "level", "count", "detail", "mend")
    machine = session.machine
    names = labels_in(session, area_of(session, rest)) if rest.strip() else None
    if not looks(machine):
        note = "this machine does not look for hazards; none shown does not mean none there"
        return Answer(columns=columns, name="hazards", note=note)
    known = findings_of(machine)
    found = [h for h in known.hazards if names is None or h.unit.partition(".")[0] in names]
    rows: list[tuple[Any, ...]] = []
    for group in group_hazards(found):
        first = group.first
        index = first.instruction if first.instruction >= 0 else None
        row = (first.cycle, first.unit, index, first.kind, first.level, group.count, group.text, first.mend)
        rows.append(row)
    notes = [] if rows else ["none up to this cycle"]
    notes += [f"not checked: {text}" for text in known.not_checked]
    return Answer(columns=columns, rows=tuple(rows), name="hazards", note="; ".join(notes))


def semaphores(session: Session, rest: str) -> Answer:
    """Answer `semaphores`: their values, and who waits for them."""
    columns = ("semaphore", "value", "waits", "needs", "instruction", "updated_by")
    machine = session.machine
    if not isinstance(machine, HasSemaphores):
        return Answer(columns=columns, name="semaphores", note="this machine uses none")
    names = {unit.id: unit.name for unit in session.description.units}
    rows: list[tuple[Any, ...]] = []
    for state in machine.semaphores():
        own = state.name.removeprefix(f"{state.group}.")
        name = f"{state.group}.{own}" if state.group else own
        waits: tuple[Wait | None, ...] = state.waiting or (None,)
        for wait in waits:
            waiting: tuple[Any, ...] = (None, None, None)
            if wait is not None:
                index = wait.instruction if wait.instruction >= 0 else None
                waiting = (names.get(wait.unit, ""), f"{wait.comparison} {wait.needed}", index)
            rows.append((name, state.value, *waiting, state.use))
    return Answer(columns=columns, rows=tuple(rows), name="semaphores")


def dependencies(session: Session, rest: str) -> Answer:
    """Answer `deps INSTRUCTION`, or `deps UNIT` for the instruction that it runs or else runs next:
    who waits for whom."""
    word = words_of(rest, 1, 1)[0]
    listing = session.program.listing
    if word[:1] == "#" or word[:1].isdecimal():
        index = number_of(word.removeprefix("#"), "an instruction")
    else:
        index = instruction_at(session, unit_of(session, word))
        if index < 0:
            raise UsageError(f"{word} runs nothing now")
    if index >= len(listing):
        raise UsageError(f"instruction {index}: expected one below {len(listing)}")
    columns = ("kind", "source", "sink", "unit", "other")
    if not isinstance(listing, HasDependencies):
        return Answer({"instruction": index}, columns, name="dependencies", note="this program names none")
    names = {unit.id: unit.name for unit in session.description.units}
    rows: list[tuple[Any, ...]] = []
    for found in listing.dependencies_of(index):
        other = listing.describe(found.source if found.sink == index else found.sink)
        rows.append((found.kind, found.source, found.sink, names.get(other.unit, ""), other.text))
    pairs = {"instruction": index, "text": listing.describe(index).text}
    return Answer(pairs, columns, tuple(rows), "dependencies")


def digest(session: Session, rest: str) -> Answer:
    """Answer `digest`: the digest of the machine's state."""
    return Answer({"cycle": session.cycle, "digest": session.machine.digest()})


def info(session: Session, rest: str) -> Answer:
    """Answer `info`: program, machine and present cycle; `info b` lists the breakpoints."""
    if rest.strip() in ("b", "breakpoints"):
        return list_breakpoints(session, "")
    description, program = session.description, session.program
    pairs: dict[str, Any] = {
        "program": program.title,
        "target": description.target,
        "machine": description.title,
        "cycle": session.cycle,
        "time": time_of(session, session.cycle),
        "end_cycle": session.end_cycle,
        "is_finished": session.is_finished,
        "stop": str(session.stop.kind),
        "operators": len(program.graph.nodes),
        "instructions": len(program.listing),
        "units": len(description.units),
        "memories": [memory.name for memory in description.memories],
        "breakpoints": len(session.breakpoints.all),
        "recorded_to": session.trace.end_cycle if session.trace else None,
        "checkpoints": len(session.timeline.cycles),
    }
    return Answer(pairs)


def _dtype_at(session: Session, memory: Memory, address: int) -> str:
    for region in session.machine.regions(memory.id):
        if region.holds(address, memory.bank_bytes):
            return region.dtype
    return memory.dtype


def reports(session: Session, rest: str) -> Answer:
    """Answer `report [TITLE]`: one of the machine's tables, or their titles."""
    machine = session.machine
    tables = list(machine.reports()) if isinstance(machine, HasReports) else []
    tables += machine.empty_reports() if isinstance(machine, HasEmptyReports) else ()
    none = "" if tables else "this machine has nothing to report yet"
    if not rest:
        rows = tuple((table.title, len(table.rows)) for table in tables)
        return Answer(columns=("report", "rows"), rows=rows, name="reports", note=none)
    wanted = rest.casefold()
    # A title that begins with the word comes before one that only contains it.
    tables.sort(key=lambda table: not table.title.casefold().startswith(wanted))
    chosen = next((table for table in tables if wanted in table.title.casefold()), None)
    if chosen is None:
        known = ", ".join(table.title.partition(" (")[0] for table in tables)
        raise UsageError(f"no report {rest!r}; {none or f'there are {known}'}")
    note = "" if chosen.rows else f"it has no rows at cycle {session.cycle}"
    return Answer({"report": chosen.title}, chosen.columns, chosen.rows, "rows", note)
