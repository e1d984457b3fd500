"""Inspector pages of a fabric: an element with its state, and a word with its path."""

import numpy as np

from npuviz.base.units import format_count
from npuviz.sim.fabric import (
    FULL,
    PORT_NAMES,
    Area,
    FabricShape,
    HasElements,
    HasFabric,
    HasRoutes,
    HasWordPaths,
    HasWords,
    Hop,
    Level,
    WordPath,
    glance_at,
)
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page import (
    Cell,
    Field,
    Page,
    Section,
    Table,
    count_cell,
    field,
    listed,
    muted_cell,
    number_cell,
    remark,
    share_cell,
    text_cell,
)
from npuviz.ui.inspector.tables import detail_table
from npuviz.ui.kit.fabric_text import color_name, data_texts, state_name, way_text
from npuviz.workbench.selection import Selection

MAX_WORDS = 32
MAX_HOPS = 256
RUNNING_TEXT = "The machine runs; what happens here is shown when it stops."


def fabric_page(source: InspectorSource, selection: Selection) -> Page | None:
    """Return the page of the selected word or element; None if the machine has no such thing."""
    machine = source.session.machine if source.session is not None else None
    if not isinstance(machine, HasFabric):
        # A running machine must not be read: take its features from the description.
        is_known = source.description is not None and "routed fabric" in source.description.features
        if source.session is None and is_known and selection.element is not None:
            column, row = selection.element
            return Page("Element", f"{column}, {row}", "", (remark("", RUNNING_TEXT),))
        return None
    if selection.word is not None:
        page = _page_of_word(source, machine, selection.word)
        if page is not None:
            return page
    if selection.element is None:
        return None
    column, row = selection.element
    shape = machine.fabric
    if not (0 <= column < shape.columns and 0 <= row < shape.rows):
        return None
    return _element_page(source, machine, column, row)


def _page_of_word(source: InspectorSource, machine: HasFabric, word: int) -> Page | None:
    """Return the page of a word: its path if the machine records paths, else where it is now."""
    path = machine.word_path(word) if isinstance(machine, HasWordPaths) else None
    if path is not None:
        return _word_page(source, machine.fabric, path)
    if not isinstance(machine, HasWords):
        return None
    shape, words = machine.fabric, machine.words(machine.fabric.whole)
    found = words[words["id"] == word]
    if not len(found):
        return None
    row = found[0]
    facts = _data_facts(shape, int(row["color"]), int(row["data"]))
    sender = int(row["source_column"]), int(row["source_row"])
    here = int(row["column"]), int(row["row"])
    facts.append(field("From", text_cell(shape.label(*sender), Selection(element=sender))))
    facts.append(field("Now at", text_cell(shape.label(*here), Selection(element=here))))
    role = "warning" if row["waits"] else ""
    way = ("held back, wants " if row["waits"] else "") + way_text(int(row["port"]))
    facts.append(field("Way", text_cell(way, role=role)))
    if len(found) > 1:
        facts.append(field("Parts under way", count_cell(len(found))))
    kind = f"Control {shape.word}" if row["control"] else shape.word.capitalize()
    return Page(kind, data_texts(int(row["data"]))[0], "", (Section("", tuple(facts)),))


def _data_facts(shape: FabricShape, color: int, data: int) -> list[Field]:
    raw, number, single, halves = data_texts(data)
    facts = [field("Color", text_cell(color_name(shape, color)))] if color >= 0 else []
    return [
        *facts,
        field("Data", number_cell(raw)),
        field("As number", number_cell(number)),
        field("As float32", number_cell(single)),
        field("As 2 float16", number_cell(halves)),
    ]


def _element_page(source: InspectorSource, machine: HasFabric, column: int, row: int) -> Page:
    shape, area = machine.fabric, Area(column, row, 1, 1)
    state = int(machine.element_states(area)[0, 0])
    sections: list[Section] = []
    levels: tuple[Level, ...] = ()
    facts: list[Field] = []
    if isinstance(machine, HasElements):
        glance = glance_at(machine, column, row)
        state, levels = glance.state, glance.levels
        facts += [field("Task", text_cell(glance.task))] if glance.task else []
        why = "Now" if glance.task else "Because"
        facts += [field(why, text_cell(glance.detail))] if glance.detail else []
    role = shape.states[state].role if 0 <= state < len(shape.states) else ""
    facts.insert(0, field("State", text_cell(state_name(shape, state), role=role)))
    sections.append(Section("Now", tuple(facts)))
    sections += listed("Queues", ("Queue", "Entries", "Color"), levels, lambda each: _level_row(shape, each))
    if isinstance(machine, HasWords):
        sections += _words_here(shape, machine, area)
    if isinstance(machine, HasElements):
        for table in machine.element_details(column, row):
            sections += detail_table(table)
    if isinstance(machine, HasRoutes):
        sections += _routes(shape, machine, area)
    sections.append(Section(_load_title(shape), _loads(machine, area)))
    if isinstance(machine, HasElements):
        sections.append(_units(source, machine.units_of_element(column, row), (column, row)))
    place = f"column {column}, row {row} of the fabric"
    if not _is_in(shape.program, column, row):
        place += ", outside the program"
    return Page(shape.element, shape.label(column, row), place, tuple(sections))


def _is_in(area: Area, column: int, row: int) -> bool:
    return 0 <= column - area.column < area.columns and 0 <= row - area.row < area.rows


def _level_row(shape: FabricShape, level: Level) -> tuple[Cell, ...]:
    of = f" / {level.capacity}" if level.capacity else ""
    share = level.entries / level.capacity if level.capacity else -1.0
    entries = Cell(f"{level.entries}{of}", is_number=True, fraction=min(share, 1.0))
    return text_cell(level.name), entries, text_cell(_color(shape, level.color))


def _color(shape: FabricShape, color: int) -> str:
    return color_name(shape, color) if color >= 0 else "\u2013"


def _words_here(shape: FabricShape, machine: HasWords, area: Area) -> list[Section]:
    """List the words in the router and on its outputs."""

    def row(word: np.void) -> tuple[Cell, ...]:
        link = Selection(word=int(word["id"]), element=(area.column, area.row))
        way = ("held back, " if word["waits"] else "") + way_text(int(word["port"]))
        return (
            text_cell(data_texts(int(word["data"]))[0], link),
            text_cell(_color(shape, int(word["color"]))),
            text_cell(way, role="warning" if word["waits"] else ""),
        )

    title = f"{shape.word.capitalize()}s here"
    return listed(title, ("Data", "Color", "Way"), machine.words(area), row, MAX_WORDS)


def _routes(shape: FabricShape, machine: HasRoutes, area: Area) -> list[Section]:
    """List how the router is set for every color that has a route here."""

    def row(found: tuple[int, np.void]) -> tuple[Cell, ...]:
        color, route = found
        ways = tuple(text_cell(_ports(int(route[name]))) for name in ("inputs", "outputs"))
        position = int(route["position"])
        switch = f"{position + 1} of {int(route['positions'])}" if position >= 0 else ""
        closed = bool(route["closed"])
        state = text_cell("closed" if closed else switch, role="warning" if closed else "")
        return text_cell(color_name(shape, color)), *ways, state

    found = [(color.id, route) for color in shape.colors for route in machine.routes(color.id, area)]
    return listed("Routes", ("Color", "From", "To", "Position"), found, row)


def _ports(bits: int) -> str:
    found = [name.capitalize() for port, name in enumerate(PORT_NAMES) if bits >> port & 1]
    return ", ".join(found) or "\u2013"


def _load_title(shape: FabricShape) -> str:
    span = f"last {format_count(shape.load_cycles)} cycles" if shape.load_cycles else "since the start"
    return f"Load of its outputs, {span}"


def _loads(machine: HasFabric, area: Area) -> tuple[Field, ...]:
    loads = machine.link_loads(area)[0, 0]
    return tuple(
        field(name.capitalize(), share_cell(int(load) / FULL))
        for name, load in zip(PORT_NAMES, loads, strict=True)
    )


def _units(source: InspectorSource, units: tuple[int, ...], element: tuple[int, int]) -> Section:
    """List links to the units of an element and their tracks, or say how to record them."""
    tracks = source.description.tracks if source.description is not None else ()
    rows: list[tuple[Cell, ...]] = []
    for unit in units:
        found = source.unit(unit)
        if found is None:
            continue
        track = next((t.id for t in tracks if t.unit == unit and t.kind == "interval"), None)
        link = Selection(unit=unit, track=track, element=element)
        rows.append((text_cell(found.name, link), muted_cell(found.doc)))
    if rows:
        return Section("In the timeline", table=Table(("Unit", "What"), tuple(rows)))
    text = "Not recorded. Open the program with --set watch=column,row to record this element."
    return remark("In the timeline", text)


def _word_page(source: InspectorSource, shape: FabricShape, path: WordPath) -> Page:
    hops = path.hops
    sections = [Section("", tuple(_data_facts(shape, path.color, path.data)))]
    if hops:
        sections.append(Section("Way", _way_facts(source, shape, path)))
        headers = ("Cycle", "Where", "What", "Source")
        sections += listed("Hops", headers, hops, lambda hop: _hop_row(source, shape, path, hop), MAX_HOPS)
    kind = f"Control {shape.word}" if path.control else shape.word.capitalize()
    return Page(
        kind,
        data_texts(path.data)[0],
        f"color {color_name(shape, path.color)}" if path.color >= 0 else "",
        tuple(sections),
    )


def _way_facts(source: InspectorSource, shape: FabricShape, path: WordPath) -> tuple[Field, ...]:
    hops = path.hops
    first, last = hops[0], hops[-1]
    taken = [hop for hop in hops if hop.kind == "taken"]
    dropped = [hop for hop in hops if hop.kind == "dropped"]
    facts = [field("From", _place(shape, path, first))]
    if taken:
        facts.append(field("Taken by", *(_place(shape, path, hop) for hop in taken[:8])))
    if dropped:
        facts.append(field("Dropped in", *(_place(shape, path, hop) for hop in dropped[:8])))
    if path.is_under_way:
        facts.append(field("State", text_cell("under way", role="accent")))
        facts.append(field("So far", count_cell(source.cycle - first.cycle, measure="cycles")))
    else:
        facts.append(field("Took", count_cell(last.cycle - first.cycle, measure="cycles")))
    moved = sum(hop.kind == "hop" for hop in hops)
    facts.append(field("Hops", count_cell(moved)))
    waited = sum(hop.waited for hop in hops)
    held = Cell(f"{format_count(waited)} cycles", is_number=True, role="warning" if waited else "")
    facts.append(field("Held back", held))
    return tuple(facts)


def _place(shape: FabricShape, path: WordPath, hop: Hop) -> Cell:
    return text_cell(shape.label(hop.column, hop.row), Selection(word=path.id, element=(hop.column, hop.row)))


def _hop_row(source: InspectorSource, shape: FabricShape, path: WordPath, hop: Hop) -> tuple[Cell, ...]:
    what = hop.kind if hop.kind != "hop" else way_text(hop.port)
    if hop.waited:
        what += f", waited {hop.waited}"
    origin = text_cell(hop.source)
    if hop.instruction >= 0:
        link = source.instruction_cell(hop.instruction)
        origin = text_cell(hop.source, link.link) if hop.source else link
    role = "warning" if hop.waited else ""
    return count_cell(hop.cycle), _place(shape, path, hop), text_cell(what, role=role), origin
