"""Check that the parts of a loaded program fit each other and the machine, before it runs."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from npuviz.base.errors import FormatError
from npuviz.targets.neuroncore import isa
from npuviz.targets.neuroncore.activation_tables import TABLE_SETS
from npuviz.targets.neuroncore.costs.table import cost_of
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Transfer, Variable
from npuviz.targets.neuroncore.text.mnemonics import op_names

WAIT_EVENT = 2
"""`used` of a wait for an event."""

Fail = Callable[[int, str, str, str], None]
"""Function (index, field, expected, found) that raises the FormatError of an instruction."""


def check_program(instructions: np.ndarray, spec: NeuronSpec, num_nodes: int, fail: Fail) -> None:
    """Check an engine's instructions against the machine; branch targets count from the program's start."""
    _check_opcodes(instructions, num_nodes, fail)
    _check_semaphores(instructions, spec, fail)
    operands = instructions["operands"]
    sizes, steps = operands["sizes"].astype(np.int64), operands["steps"].astype(np.int64)
    item = np.array(isa.DTYPE_BYTES, np.int64)[operands["dtype"]]
    reach = (sizes - 1) * steps
    first = operands["address"].astype(np.int64)
    low = first + np.minimum(reach, 0).sum(axis=2) * item
    high = first + (np.maximum(reach, 0).sum(axis=2) + 1) * item
    for space, limit in (
        (isa.Space.SBUF, spec.sbuf_partition_bytes),
        (isa.Space.PSUM, spec.psum_partition_bytes),
    ):
        wrong = (operands["space"] == space) & ((low < 0) | (high > limit))
        for index, position in np.argwhere(wrong)[:1].tolist():
            found = f"bytes {int(low[index, position])} to {int(high[index, position]) - 1}"
            name = isa.OPERAND_POSITIONS[position]
            fail(index, name, f"{space.name} bytes within a partition of {limit}", found)


def _check_opcodes(instructions: np.ndarray, num_nodes: int, fail: Fail) -> None:
    pairs = instructions["opcode"].astype(np.int64) * 8 + instructions["engine"]
    for pair in np.unique(pairs).tolist():
        opcode, engine = divmod(pair, 8)
        where = np.flatnonzero(pairs == pair)
        if cost_of(opcode, engine) is None:
            name, unit = isa.Opcode(opcode).name.lower(), isa.ENGINE_NAMES[engine]
            fail(int(where[0]), "opcode", f"an instruction of {unit}", name)
        for field, names in zip(("op0", "op1"), op_names(opcode), strict=False):
            numbers = instructions[field][where]
            for at in np.flatnonzero(~np.isin(numbers, list(names)))[:1].tolist():
                fail(int(where[at]), field, "a known operator", str(int(numbers[at])))
    for opcode, limit, what in (
        (isa.Opcode.BRANCH, len(instructions) + 1, "an instruction of the program"),
        (isa.Opcode.TABLE_LOAD, len(TABLE_SETS), "a known table set"),
        (isa.Opcode.HOST_CALL, num_nodes, "a node of the graph"),
    ):
        wrong = (instructions["opcode"] == opcode) & (instructions["id"] >= limit)
        for index in np.flatnonzero(wrong)[:1].tolist():
            fail(index, "id", what, str(int(instructions["id"][index])))


def _check_semaphores(instructions: np.ndarray, spec: NeuronSpec, fail: Fail) -> None:
    waits, updates = instructions["waits"], instructions["updates"]
    kind = updates["kind"]
    is_event = (kind == isa.Update.EVENT_SET) | (kind == isa.Update.EVENT_CLEAR)
    for field, rows, used, events in (
        ("wait", waits, waits["used"] > 0, waits["used"] == WAIT_EVENT),
        ("update", updates, kind != isa.Update.NONE, is_event),
    ):
        limit = np.where(events, spec.num_events, spec.num_semaphores)
        wrong = used & (rows["semaphore"] >= limit)
        for index, place in np.argwhere(wrong)[:1].tolist():
            found = str(int(rows["semaphore"][index, place]))
            fail(index, field, f"a number below {int(limit[index, place])}", found)


def check_transfer(
    transfer: Transfer, variables: Mapping[int, Variable], spec: NeuronSpec, num_cores: int, where: str
) -> None:
    """Check a transfer's semaphores, event and bounds. Raises FormatError."""
    place = f"transfer {transfer.id}"
    for number in (transfer.semaphore, *transfer.remote_semaphores):
        if not -1 <= number < spec.num_semaphores:
            raise FormatError(
                where, field=place, expected=f"a semaphore below {spec.num_semaphores}", found=str(number)
            )
    if not -1 <= transfer.event < spec.num_events:
        raise FormatError(
            where, field=place, expected=f"an event below {spec.num_events}", found=str(transfer.event)
        )
    if transfer.remote_semaphores and num_cores < 2:
        raise FormatError(where, field=place, expected="no remote semaphores on one core", found="some")
    for descriptor in transfer.descriptors:
        for access in (descriptor.to, *descriptor.sources):
            _check_access(access, variables, spec, where, place)
        _check_counts(descriptor, where, place)


def _check_access(
    access: Access, variables: Mapping[int, Variable], spec: NeuronSpec, where: str, place: str
) -> None:
    if not access.sizes or len(access.sizes) != len(access.steps) or min(access.sizes) < 1:
        found = f"{len(access.sizes)} sizes, {len(access.steps)} steps"
        raise FormatError(where, field=place, expected="as many sizes of at least 1 as steps", found=found)
    if access.variable == SBUF:
        name, limit = "SBUF", spec.num_partitions * spec.sbuf_partition_bytes
    elif access.variable in variables:
        variable = variables[access.variable]
        name, limit = variable.name, variable.size_bytes
    else:
        found = f"var_id {access.variable + 1}"
        raise FormatError(where, field=place, expected="a declared variable", found=found)
    reach = [(size - 1) * step for size, step in zip(access.sizes, access.steps, strict=True)]
    low = access.offset + sum(each for each in reach if each < 0)
    high = access.offset + sum(each for each in reach if each > 0)
    if low < 0 or high >= limit:
        raise FormatError(
            where,
            field=place,
            expected=f"bytes inside {name[:100]} of {limit} bytes",
            found=f"bytes {low} to {high}",
        )


def _check_counts(descriptor: Descriptor, where: str, place: str) -> None:
    """Check that each source of a copy or transpose has as many bytes as the target."""
    if descriptor.op not in ("copy", "transpose"):
        return
    wanted = prod(descriptor.to.sizes)
    for source in descriptor.sources:
        if prod(source.sizes) != wanted:
            found = f"{prod(source.sizes)} from, {wanted} to"
            raise FormatError(where, field=place, expected="equal byte counts", found=found)
