"""Collect the moves of transfers, and plan transfers with HBM addresses from an index: gather and scatter."""

from collections.abc import Sequence

import numpy as np

from npuviz.program.dtypes import numpy_dtype
from npuviz.sim.replay.contents import Report
from npuviz.targets.neuroncore.isa import DTYPE_NAMES, SRC1, Flag, Space
from npuviz.targets.neuroncore.strides import merged
from npuviz.targets.neuroncore.tables import SBUF, Access, Descriptor, Transfer
from npuviz.targets.neuroncore.values.chip import Chip, HbmArray
from npuviz.targets.neuroncore.values.element_types import converted
from npuviz.targets.neuroncore.values.memory import Dims, Mask, ValueFault
from npuviz.targets.neuroncore.values.plan import Ins, Plan, Step

Kinds = tuple[np.dtype, np.dtype]
"""The element types that a cast reads and writes."""


class Moves:
    """Collects the steps of a transfer's descriptors, with what they read and write."""

    def __init__(self, chip: Chip, core: int, order: tuple[int, ...]) -> None:
        self.chip = chip
        self.core = core
        self.order = order
        self.steps: list[Step] = []
        self.reads: list[Mask] = []
        self.marks: list[Mask] = []
        self.writes: list[np.ndarray] = []
        self.arrays: list[HbmArray] = []

    def source(self, access: Access, dims: Dims, dtype: np.dtype) -> np.ndarray:
        """Return a view of a source, and note it as read."""
        view, masks = self.chip.access(self.core, access, dims, dtype)
        self.reads += masks
        return view

    def target(self, access: Access, dims: Dims, dtype: np.dtype) -> np.ndarray:
        """Return a view of a target, and note it as written; a shared variable is copied before."""
        if 0 <= access.variable < len(self.chip.variables):
            array = self.chip.variables[access.variable]
            self.chip.own(array)
            self.arrays.append(array)
        view, masks = self.chip.access(self.core, access, dims, dtype)
        self.marks += masks
        self.writes.append(view)
        return view

    def plan(self) -> Plan:
        """Return the plan of all steps."""
        steps = tuple(self.steps)

        def run() -> None:
            for step in steps:
                step()

        return Plan(
            steps[0] if len(steps) == 1 else run,
            tuple(self.reads),
            tuple(self.marks),
            tuple(self.writes),
            tuple(dict.fromkeys(self.arrays)),
        )


def byte_dims(access: Access) -> Dims:
    """Return the dimensions (size, step) of an access, outermost first; the last one counts bytes."""
    return list(zip(reversed(access.sizes), reversed(access.steps), strict=True))


def plan_indexed(moves: Moves, transfer: Transfer, ins: Ins, report: Report) -> Plan:
    """Plan a gather or scatter: the HBM address for SBUF partition p is moved by SRC1[p] * imm0 bytes.

    Indices are read when the transfer completes, like its data.
    """
    chip, core = moves.chip, transfer.core
    is_gather = ins.has(Flag.GATHER_SOURCE)
    space, dtype, partition, partitions, address, sizes, steps = ins.operands[SRC1]
    if space not in (Space.SBUF, Space.PSUM) or dtype >= len(DTYPE_NAMES):
        raise ValueFault("the index operand is missing")
    index = chip.sram(core, space).operand(dtype, partition, partitions, address, sizes, steps)
    moves.reads.append(index.mask)
    row_bytes = int(ins.number(0))
    rows = _indexed_rows(moves, transfer, is_gather)
    if not rows:
        raise ValueFault("nothing to move")
    first = min(row[0] for row in rows)
    if max(row[0] for row in rows) - first >= partitions or index.count != 1:
        raise ValueFault(f"{partitions} x {index.count} indices do not fit the partitions that are moved")
    skips, values = ins.has(Flag.SKIP_OUT_OF_BOUNDS), index.view.reshape(partitions)
    variable = rows[0][2].variable
    array = chip.variables[variable]
    item = max(1, array.dtype.itemsize)
    total = array.size // item
    if not is_gather:
        chip.own(array)
        moves.arrays.append(array)
        moves.writes.append(array.flat)
        if array.written is not None:
            moves.marks.append(Mask(array.written))

    def run() -> None:
        for lane, local, remote, kinds in rows:
            moved = int(values[lane - first]) * row_bytes
            try:
                view = array.access(remote.offset + moved, merged(byte_dims(remote)), np.dtype(np.uint8))[0]
            except ValueFault:
                if not skips:
                    row, place = int(values[lane - first]), (remote.offset + moved) // item
                    report(
                        "out-of-bounds",
                        f"instruction {ins.index}: row {row} of {array.variable.name!r}: "
                        f"index {place} is out of bounds for axis 0 with size {total}",
                    )
                continue
            to, source = (local, view) if is_gather else (view, local)
            np.copyto(to, (source if kinds is None else _cast(source, *kinds)).reshape(to.shape))

    moves.steps.append(run)
    return moves.plan()


def _cast(source: np.ndarray, from_kind: np.dtype, to_kind: np.dtype) -> np.ndarray:
    """Return the bytes of a view of bytes after a cast of its elements to another type."""
    elements = np.ascontiguousarray(source).reshape(-1).view(from_kind)
    return converted(elements, to_kind).view(np.uint8)


def _indexed_rows(
    moves: Moves, transfer: Transfer, is_gather: bool
) -> Sequence[tuple[int, np.ndarray, Access, Kinds | None]]:
    """Return (partition, bytes in SBUF, pattern in HBM without the index, types of a cast) of each row."""
    found: list[tuple[int, np.ndarray, Access, Kinds | None]] = []
    size = moves.chip.spec.sbuf_partition_bytes
    kind = np.dtype(np.uint8)
    for descriptor in transfer.descriptors:
        remote, local = descriptor.sources[0], descriptor.to
        if not is_gather:
            remote, local = local, remote
        if descriptor.op not in ("copy", "cast") or local.variable != SBUF or remote.variable == SBUF:
            raise ValueFault("only copies and casts between SBUF and HBM take an index")
        kinds = _kinds(descriptor)
        each, made = (kinds[0].itemsize, kinds[1].itemsize) if kinds else (1, 1)
        source = descriptor.sources[0]
        if source.num_bytes * made != descriptor.to.num_bytes * each or source.num_bytes % each:
            raise ValueFault(
                f"{descriptor.op} of {source.num_bytes} bytes to {descriptor.to.num_bytes} bytes"
            )
        lanes = local.sizes[-1] if abs(local.steps[-1]) >= size else 1
        if lanes > 1 and remote.sizes[-1] != lanes:
            raise ValueFault("both sides of an indexed copy need the partitions as their last dimension")
        take = moves.target if is_gather else moves.source
        for lane in range(lanes):
            own, other = (_row(local, lane), _row(remote, lane)) if lanes > 1 else (local, remote)
            found.append((own.offset // size, take(own, merged(byte_dims(own)), kind), other, kinds))
    return found


def _kinds(descriptor: Descriptor) -> Kinds | None:
    if descriptor.op == "copy":
        return None
    try:
        return numpy_dtype(descriptor.sources[0].dtype), numpy_dtype(descriptor.to.dtype)
    except ValueError as error:
        raise ValueFault(str(error)) from None


def _row(access: Access, row: int) -> Access:
    """Return the access of one step of the outermost dimension."""
    sizes, steps = (access.sizes[:-1], access.steps[:-1]) if len(access.sizes) > 1 else ((1,), (1,))
    return Access(access.variable, access.offset + row * access.steps[-1], steps, sizes, access.dtype)
