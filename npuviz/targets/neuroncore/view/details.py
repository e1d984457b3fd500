"""Make tables about one instruction: operands, semaphores, cost, and all fields of its DMA descriptors."""

from collections.abc import Iterator

import numpy as np

from npuviz.base.units import format_share
from npuviz.program.instruction import DetailTable
from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.costs.instructions import issue_cycles, latency_cycles
from npuviz.targets.neuroncore.costs.table import cost_of
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Tables, Transfer
from npuviz.targets.neuroncore.text.disassembler import flag_names, immediates_text
from npuviz.targets.neuroncore.text.mnemonics import CONDITIONS, SPACES, UPDATES
from npuviz.targets.neuroncore.view.dma_shapes import DmaShapes

MAX_ROWS = 1000
"""Most rows of a descriptor table; a longer one is cut, and its last row says so."""


def details(
    tables: Tables, spec: NeuronSpec, index: int, core: int, host_cycles: int | None = None
) -> tuple[DetailTable, ...]:
    """Return all tables of an instruction that have rows; `host_cycles`: duration of a Host call."""
    record = tables.instructions[index]
    found = [
        _operands(record),
        _fields(record),
        _semaphores(tables, record, core),
        _cost(record, spec, host_cycles),
    ]
    transfer = int(tables.transfer_of[index])
    if transfer >= 0:
        chosen = tables.transfers[transfer]
        found += [_transfer(tables, spec, chosen), _descriptors(tables, spec, chosen)]
    return tuple(table for table in found if table.rows)


def _operands(record: np.void) -> DetailTable:
    rows: list[tuple[str, ...]] = []
    for name, operand in zip(isa.OPERAND_POSITIONS, record["operands"], strict=True):
        space = int(operand["space"])
        if space == isa.Space.NONE:
            continue
        first = int(operand["partition"])
        rows.append(
            (
                name,
                SPACES[space].upper(),
                isa.DTYPE_NAMES[int(operand["dtype"])],
                f"{first}..{first + int(operand['partitions']) - 1}",
                f"0x{int(operand['address']):x}",
                " x ".join(str(each) for each in operand["sizes"].tolist()),
                ", ".join(str(each) for each in operand["steps"].tolist()),
            )
        )
    columns = ("operand", "memory", "type", "partitions", "address", "sizes", "steps")
    return DetailTable("Operands", columns, tuple(rows))


def _fields(record: np.void) -> DetailTable:
    rows: list[tuple[str, ...]] = []
    if record["imm"].view(np.uint32).any():
        rows.append(("immediates", immediates_text(record)))
    if record["flags"]:
        rows.append(("flags", ", ".join(flag_names(int(record["flags"])))))
    if record["id"]:
        rows.append(("id", str(int(record["id"]))))
    return DetailTable("Fields", ("field", "value"), tuple(rows))


def _semaphores(tables: Tables, record: np.void, core: int) -> DetailTable:
    rows: list[tuple[str, ...]] = []
    for wait in record["waits"]:
        if wait["used"]:
            number = int(wait["semaphore"])
            letter = "E" if wait["used"] > 1 else "S"
            sign = CONDITIONS.get(int(wait["condition"]), "?")
            user = tables.semaphore_uses.get((core, number), "") if letter == "S" else ""
            text = "" if wait["condition"] == isa.Condition.ALWAYS else f"{sign} {int(wait['value'])}"
            rows.append(("wait", f"{letter}[{number}]", text, "before it starts", user))
    for update in record["updates"]:
        kind = int(update["kind"])
        if kind != isa.Update.NONE:
            letter, sign = UPDATES[kind]
            number = int(update["semaphore"])
            user = tables.semaphore_uses.get((core, number), "") if letter == "S" else ""
            when = "as it starts to read" if update["when"] == isa.When.READ else "when it is complete"
            value = f" {int(update['value'])}" if sign[-1] == "=" else ""
            rows.append(("update", f"{letter}[{number}]", f"{sign}{value}", when, user))
    return DetailTable("Semaphores", ("what", "name", "value", "when", "counts"), tuple(rows))


def _cost(record: np.void, spec: NeuronSpec, host_cycles: int | None) -> DetailTable:
    row = cost_of(int(record["opcode"]), int(record["engine"]))
    if row is None:
        return DetailTable("Cost", (), ())
    one = np.array([record])
    issue = int(issue_cycles(one, spec)[0]) if host_cycles is None else host_cycles
    return DetailTable(
        "Cost (estimated)",
        ("figure", "engine cycles", "rule", "source"),
        (
            ("issue", str(issue), row.text, row.source),
            ("latency", str(int(latency_cycles(one, spec)[0])), "", "see presets.py"),
        ),
    )


def _transfer(tables: Tables, spec: NeuronSpec, transfer: Transfer) -> DetailTable:
    queue = tables.queue_sets[transfer.queue]
    shape = DmaShapes(spec, tables.queue_sets).of(transfer)
    rows = [
        ("id", str(transfer.id)),
        ("trigger", transfer.trigger),
        ("queue set", f"{queue.name} of {isa.ENGINE_NAMES[queue.owner]}, {queue.num_queues} queues"),
        ("descriptors", str(len(transfer.descriptors))),
        ("bytes", str(sum(each.to.num_bytes for each in transfer.descriptors))),
        ("elements", f"{shape.descriptors} of {shape.size_text} bytes"),
        ("efficiency", f"{format_share(shape.efficiency, 0)} of the engines' peak rate"),
    ]
    if transfer.semaphore >= 0:
        rows.append(("semaphore", f"S[{transfer.semaphore}] += {queue.num_queues} at the end"))
    if transfer.event >= 0:
        rows.append(("event", f"E[{transfer.event}] is set at the end"))
    if transfer.remote_semaphores:
        rows.append(("other core", ", ".join(f"S[{each}]" for each in transfer.remote_semaphores)))
    if transfer.first_queue:
        rows.append(("placement", "first queue of the set only"))
    return DetailTable("DMA transfer", ("field", "value"), tuple(rows))


def _descriptors(tables: Tables, spec: NeuronSpec, transfer: Transfer) -> DetailTable:
    rows: list[tuple[str, ...]] = []
    for number, descriptor in enumerate(transfer.descriptors):
        if len(rows) >= MAX_ROWS:
            rest = len(transfer.descriptors) - number
            rows.append((f"... {rest} more", *[""] * 11))
            break
        rows += _descriptor_rows(tables, spec, number, descriptor)
    columns = (
        "descriptor", "op", "side", "variable", "offset", "sizes", "steps", "type", "scale", "constant",
        "transpose", "bytes",
    )  # fmt: skip
    return DetailTable("DMA descriptors", columns, tuple(rows))


def _descriptor_rows(
    tables: Tables, spec: NeuronSpec, number: int, descriptor: Descriptor
) -> Iterator[tuple[str, ...]]:
    constant = "" if descriptor.constant is None else f"{descriptor.constant:g}"
    shape = " x ".join(str(each) for each in descriptor.transpose_shape)
    transpose = f"{shape} of {descriptor.element_size} bytes" if shape else ""
    sides = [("to", descriptor.to, "", constant, transpose)]
    for place, source in enumerate(descriptor.sources):
        scale = f"{descriptor.scales[place]:g}" if place < len(descriptor.scales) else ""
        name = "from" if len(descriptor.sources) == 1 else f"from {place}"
        sides.append((name, source, scale, "", ""))
    for side, access, scale, constant_text, transpose_text in sides:
        yield (
            str(number),
            descriptor.op,
            side,
            access_name(tables, access),
            offset_text(spec, access),
            " x ".join(str(each) for each in access.sizes),
            ", ".join(str(each) for each in access.steps),
            access.dtype,
            scale,
            constant_text,
            transpose_text,
            str(access.num_bytes),
        )


def access_name(tables: Tables, access: Access) -> str:
    """Return the name of the accessed variable, or SBUF."""
    return "SBUF" if access.variable == SBUF else tables.variables[access.variable].name


def offset_text(spec: NeuronSpec, access: Access) -> str:
    """Return the byte offset as text; in SBUF partition and byte."""
    if access.variable != SBUF:
        return f"0x{access.offset:x}"
    partition, byte = divmod(access.offset, spec.sbuf_partition_bytes)
    return f"[{partition}, 0x{byte:x}]"
