"""Inspector pages of operators and tensors."""

from typing import Any

import numpy as np

from npuviz.base.names import elide_end
from npuviz.base.units import format_count, format_shape
from npuviz.program.dtypes import numpy_dtype
from npuviz.program.graph import Node
from npuviz.program.tensor import Tensor
from npuviz.sim.machine import HasTensors, StillMemories
from npuviz.ui.bridge.still_answers import PENDING
from npuviz.ui.inspector.facts import InspectorSource
from npuviz.ui.inspector.page import (
    COMPUTING,
    Cell,
    Field,
    Page,
    Section,
    Table,
    address_cell,
    bytes_cell,
    count_cell,
    field,
    muted_cell,
    number_cell,
    remark,
    span_cells,
    text_cell,
)
from npuviz.ui.inspector.tables import report_row
from npuviz.ui.kit.trace_facts import node_cycles
from npuviz.workbench.selection import MemoryRange, Selection

MAX_ROWS = 64
MAX_READERS = 8
MAX_COUNTED = 1 << 24
"""Most elements that statistics of a tensor are computed from; larger tensors are sampled evenly."""
NUM_FIRST_VALUES = 12


def operator_page(source: InspectorSource, node: Node) -> Page:
    """Return the page of an operator."""
    sections = [
        Section("Run", _run_fields(source, node)),
        Section("Placement", _placement_fields(source, node), sentences=_notes(source, node.id)),
        Section("Inputs", table=_tensor_table(source, node.inputs, True)),
        Section("Outputs", table=_tensor_table(source, node.outputs, False)),
    ]
    found = (report_row(report, node.name) for report in source.reports())
    sections += [section for section in found if section is not None]
    if node.attributes:
        values = tuple(field(name, text_cell(_attribute(v))) for name, v in sorted(node.attributes.items()))
        sections.append(Section("Attributes", values))
    return Page("Operator", node.op_type, node.name, tuple(sections), node.op_type)


def trace_node_page(source: InspectorSource, node: int) -> Page:
    """Return the page of a node of a bundle, which knows only its name, type and times."""
    assert source.reader is not None
    schema = source.reader.schema
    op_type = schema.node_types[node] if node < len(schema.node_types) else ""
    run = Section("Run", _time_fields(source, node))
    return Page("Operator", op_type or "operator", schema.node_names[node], (run,), op_type)


def tensor_page(source: InspectorSource, tensor: Tensor) -> Page:
    """Return the page of a tensor."""
    size = tensor.num_elements * numpy_dtype(tensor.dtype).itemsize
    facts = [
        field("Shape", text_cell(format_shape(tensor.shape))),
        field("Type", text_cell(tensor.dtype)),
        field("Kind", text_cell(tensor.kind)),
        field("Elements", count_cell(tensor.num_elements)),
        field("Size", bytes_cell(size)),
    ]
    program = source.program
    allocation = program.memory_map.of_tensor(tensor.id) if program else None
    if allocation is not None:
        memory = source.memory(allocation.memory)
        held = MemoryRange(allocation.memory, allocation.address, allocation.size_bytes)
        place = text_cell(memory.name if memory else "memory")
        facts.append(field("Allocated", place, address_cell(allocation.address, Selection(memory=held))))
    readers = (source.consumers or {}).get(tensor.id, [])
    users = [field("Made by", source.node_cell(tensor.producer))] if tensor.producer >= 0 else []
    users += [
        field("Read by" if not i else "", source.node_cell(n)) for i, n in enumerate(readers[:MAX_ROWS])
    ]
    sections = [Section("", tuple(facts))]
    if users:
        sections.append(Section("Use", tuple(users)))
    sections.append(_values(source, tensor))
    producer = source.node(tensor.producer)
    return Page("Tensor", tensor.name, "", tuple(sections), producer.op_type if producer else "")


def _run_fields(source: InspectorSource, node: Node) -> tuple[Field, ...]:
    fields = list(_time_fields(source, node.id))
    if source.program is not None:
        ranges = source.program.listing.ranges_of_node(node.id)
        total = sum(end - first for first, end in ranges)
        cells = [count_cell(total)]
        if total:
            cells.append(source.instruction_cell(ranges[0][0]))
        fields.append(field("Instructions", *cells))
    return tuple(fields)


def _time_fields(source: InspectorSource, node: int) -> tuple[Field, ...]:
    times = source.times
    if times is None:
        return (field("Cycles", muted_cell("nothing is recorded")),)
    if not source.times_complete:
        return (field("Cycles", muted_cell("reading the trace\u2026")),)
    if not times.has_run(node):
        return (field("Cycles", muted_cell("has not run yet")),)
    start, end = int(times.first[node]), int(times.last[node])
    link = Selection(node=node, cycles=(start, end))
    spent = node_cycles(source.reader, node, (0, end)) if source.reader is not None else None
    measure = "unit cycles" if spent is not None else "cycles, summed over tracks"
    busy, waiting = spent if spent is not None else (int(times.busy[node]), int(times.waiting[node]))
    return (
        field("Cycles", *span_cells(start, end, source.frequency_hz, link)),
        field("Work", count_cell(busy, measure=measure)),
        field("Waiting", count_cell(waiting, measure=measure)),
    )


def _placement_fields(source: InspectorSource, node: Node) -> tuple[Field, ...]:
    place = source.program.placement.get(node.id, "") if source.program else ""
    description = source.description
    named = [u for u in description.units if place in (u.name, u.group)] if description and place else []
    is_estimated = any(unit.estimated for unit in named) or _is_on_host(source, node.id)
    link = Selection(unit=named[0].id) if len(named) == 1 else None
    return (
        field("Runs on", Cell(place or "\u2013", link, is_estimated=is_estimated)),
        *((field("Cost", Cell("assumed", is_estimated=True)),) if is_estimated else ()),
        *_reason_fields(source, node.id),
    )


def _reason_fields(source: InspectorSource, node: int) -> tuple[Field, ...]:
    """Return which limit keeps an operator on the Host, the value found, and what would lift it."""
    notes = source.program.notes if source.program else ()
    reason = next((note.reason for note in notes if note.node == node and note.reason is not None), None)
    if reason is None:
        return ()
    rows = (("Limit", reason.limit), ("Found", reason.found), ("To lift it", reason.change))
    return tuple(field(name, text_cell(text)) for name, text in rows if text)


def _is_on_host(source: InspectorSource, node: int) -> bool:
    notes = source.program.notes if source.program else ()
    return any(note.node == node and note.code == "host-operator" for note in notes)


def _notes(source: InspectorSource, node: int) -> tuple[Cell, ...]:
    notes = source.program.notes if source.program else ()
    return tuple(
        text_cell(note.text, role="warning" if note.severity == "warning" else "text-muted")
        for note in notes
        if note.node == node
    )


def _tensor_table(source: InspectorSource, tensors: tuple[int, ...], are_inputs: bool) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for index in tensors[:MAX_ROWS]:
        tensor = source.tensor(index)
        if tensor is None:
            rows.append((muted_cell("absent"), *(text_cell("") for _ in range(3))))
            continue
        if are_inputs:
            other = source.node_cell(tensor.producer) if tensor.producer >= 0 else text_cell(tensor.kind)
            further = []
        else:
            readers = (source.consumers or {}).get(index, [])
            other = source.node_cell(readers[0]) if readers else text_cell(tensor.kind)
            further = [source.node_cell(reader) for reader in readers[1:MAX_READERS]]
            if len(readers) > MAX_READERS:
                further.append(text_cell(f"and {len(readers) - MAX_READERS} more", Selection(tensor=index)))
        rows.append(
            (source.tensor_cell(index), text_cell(format_shape(tensor.shape)), text_cell(tensor.dtype), other)
        )
        rows += [(text_cell(""), text_cell(""), text_cell(""), cell) for cell in further]
    headers = ("Tensor", "Shape", "Type", "From" if are_inputs else "To")
    return Table(headers, tuple(rows), max(0, len(tensors) - MAX_ROWS))


def _attribute(value: Any) -> str:
    """Return an attribute as one short line."""
    if isinstance(value, np.ndarray):
        return f"array {format_shape(value.shape)} {value.dtype}"
    if isinstance(value, bytes):
        return elide_end(value.decode("utf-8", "replace"), 200)
    if isinstance(value, list | tuple):
        return elide_end("[" + ", ".join(_attribute(item) for item in value[:64]) + "]", 200)
    if isinstance(value, float):
        return f"{value:.7g}"
    return elide_end(str(value), 200)


def _values(source: InspectorSource, tensor: Tensor) -> Section:
    array: np.ndarray | None = None
    if source.session is not None:
        found = source.ask(("tensor", tensor.id), lambda still: _tensor_of(still, tensor.id))
        if found is PENDING:
            return remark("Values now", COMPUTING)
        array = found
    if array is None and source.program is not None:
        array = source.program.graph.constants.get(tensor.id)
    if array is None:
        is_still = source.session is not None
        why = "The machine keeps no values of it." if is_still else "Shown while the machine stands still."
        return remark("Values now", why)
    return Section("Values now", value_fields(array))


def _tensor_of(still: StillMemories, tensor: int) -> np.ndarray | None:
    return still.tensor(tensor) if isinstance(still, HasTensors) else None


def value_fields(array: np.ndarray) -> tuple[Field, ...]:
    """Return minimum, mean, maximum, zeros and the first values of an array."""
    flat = array.reshape(-1)
    if not flat.size:
        return (field("Elements", count_cell(0)),)
    step = -(-flat.size // MAX_COUNTED)
    numbers = flat[::step].astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    fields: list[Field] = []
    if finite.size:
        for label, value in (("Minimum", finite.min()), ("Mean", finite.mean()), ("Maximum", finite.max())):
            fields.append(field(label, number_cell(f"{float(value):.6g}")))
    if finite.size < numbers.size:
        bad = count_cell(int(numbers.size - finite.size))
        fields.append(field("Not finite", Cell(bad.text, is_number=True, role="error")))
    fields.append(field("Zeros", count_cell(int((numbers == 0).sum()))))
    if step > 1:
        fields.append(field("Counted", text_cell(f"every {format_count(step)}th element")))
    first = "  ".join(f"{float(v):.6g}" for v in flat[:NUM_FIRST_VALUES].astype(np.float64))
    more = "  \u2026" if flat.size > NUM_FIRST_VALUES else ""
    fields.append(field("First", number_cell(first + more)))
    return tuple(fields)
