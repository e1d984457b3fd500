"""List tasks and host calls for the debugger: one instruction each, registers as details."""

from bisect import bisect_right
from itertools import accumulate

import numpy as np

from npuviz.base.units import format_bytes
from npuviz.formats.rk3588.registers import registers
from npuviz.program.graph import Graph
from npuviz.program.instruction import DetailTable, Instruction, Operand
from npuviz.targets.rk3588.spec import RknnSpec
from npuviz.targets.rk3588.tables import Tables, Task
from npuviz.targets.rk3588.task.accesses import access_rows
from npuviz.targets.rk3588.task.cost import cost_of
from npuviz.targets.rk3588.task.host_cost import work_of
from npuviz.targets.rk3588.task.work import PRECISION_NAMES
from npuviz.targets.rk3588.view.description import PC, host_unit, unit_of

_METHODS = ("average", "maximum", "minimum", "pool")


class RknnListing:
    """The listing of a program; instruction i is task i, host calls follow."""

    def __init__(self, tables: Tables, spec: RknnSpec, graph: Graph | None = None) -> None:
        """Index the tasks, host calls and buffers of a program.

        graph  the graph whose operators the Host runs, to describe their work
        """
        self._graph = graph
        self._tables = tables
        self._spec = spec
        self._ddr = spec.cores
        self._nodes = np.array(
            [task.node for task in tables.tasks] + [host.node for host in tables.hosts], dtype=np.int32
        )
        units = [unit_of(task.core, PC) for task in tables.tasks] + [host_unit(spec)] * len(tables.hosts)
        self._units = np.array(units, dtype=np.int32)
        # Buffers by address, and the largest end of each one and those before it: some lie inside others.
        buffers = tables.buffers
        self._order = sorted(range(len(buffers)), key=lambda index: buffers[index].address)
        self._starts = [buffers[index].address for index in self._order]
        ends = (buffers[index].address + buffers[index].size_bytes for index in self._order)
        self._ends = list(accumulate(ends, max))
        written = [self._first_written(task) for task in tables.tasks]
        written += [(0, 0, -1)] * len(tables.hosts)
        self._written = np.array(written, dtype=np.int64).reshape(len(written), 3)

    def __len__(self) -> int:
        return len(self._nodes)

    # --- one instruction -------------------------------------------------------------------------------

    def describe(self, index: int) -> Instruction:
        """Decode one task or host call. Raises IndexError outside 0..len-1."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        node, unit = int(self._nodes[index]), int(self._units[index])
        if index >= len(self._tables.tasks):
            host = self._tables.hosts[index - len(self._tables.tasks)]
            work = work_of(self._graph, host) if self._graph is not None else None
            text = f"host {host.name}, {work.text if work else format_bytes(host.num_bytes)}"
            return Instruction(index, unit, "host", text, node)
        task = self._tables.tasks[index]
        opcode, text = _task_text(task)
        rows = access_rows(task, cost_of(task, self._spec))
        reads = tuple(self._operand(low, high) for write, low, high in rows if not write)
        writes = tuple(self._operand(low, high) for write, low, high in rows if write)
        return Instruction(index, unit, opcode, text, node, task.job, reads, writes)

    def _operand(self, low: int, high: int) -> Operand:
        low, high = min(low, 1 << 32), min(high, 1 << 32)
        return Operand(self._ddr, low, high - low, self._tensor_at(low))

    def _tensor_at(self, address: int) -> int:
        """Return the tensor of the first buffer that holds an address; -1 if there is none."""
        found: list[int] = []
        at = bisect_right(self._starts, address) - 1
        while at >= 0 and self._ends[at] > address:
            buffer = self._tables.buffers[self._order[at]]
            if address < buffer.address + buffer.size_bytes:
                found.append(self._order[at])
            at -= 1
        return self._tables.buffers[min(found)].tensor if found else -1

    def _first_written(self, task: Task) -> tuple[int, int, int]:
        for write, low, high in access_rows(task, cost_of(task, self._spec)):
            if write:
                operand = self._operand(low, high)
                return operand.address, operand.size_bytes, operand.tensor
        return 0, 0, -1

    def details_of(self, index: int) -> tuple[DetailTable, ...]:
        """Return the registers of a task, and which differ from the task before in the same group."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        if index >= len(self._tables.tasks):
            return ()
        task = self._tables.tasks[index]
        before = self._same_group_before(task)
        rows: list[tuple[str, ...]] = []
        known = registers().by_offset
        for offset, value in sorted(task.registers.items()):
            register = known.get(offset)
            block = register.block if register is not None else "?"
            name = register.name if register is not None else f"{offset:#06x}"
            fields = ""
            if register is not None:
                shown = [(field, field.extract(value)) for field in register.fields]
                fields = ", ".join(f"{f.name} {f.text(held)}" for f, held in shown if held or not f.reserved)
            old = "" if before is None else _difference(before.registers.get(offset), value)
            origin = "" if offset in task.changed else "inherited"
            rows.append((block, name, f"{value:#010x}", fields, old, origin))
        table = DetailTable(
            "Registers", ("block", "register", "value", "fields", "same group before", "written"), tuple(rows)
        )
        return (self._descriptor(task), table)

    def _same_group_before(self, task: Task) -> Task | None:
        """Return the task two before on the same core: the one that used this register group last."""
        mine = [other for other in self._tables.tasks[: task.index] if other.core == task.core]
        return mine[-2] if len(mine) >= 2 else None

    def _descriptor(self, task: Task) -> DetailTable:
        cost = cost_of(task, self._spec)
        rows = [
            ("stream", f"{task.stream:#010x}, {len(task.words)} words"),
            ("enable, interrupts", f"{task.enable_mask:#04x}, {task.interrupt_mask:#06x}"),
            ("job, core", f"{task.job}, {task.core}"),
            ("features", format_bytes(cost.feature_bytes)),
            ("weights", format_bytes(cost.weight_bytes)),
            ("written", format_bytes(cost.written_bytes)),
            ("CORE cycles", f"{cost.mac_cycles}"),
        ]
        conv = task.work.convolution
        if conv is not None and cost.factor > 0:
            kept = [name for name, is_kept in (("features", conv.keeps_data), ("weights", conv.keeps_weights))
                    if is_kept]  # fmt: skip
            banks = f"{conv.data_banks} for features, {conv.weight_banks} for weights"
            rows.append(("CBUF banks", banks + (f"; kept: {', '.join(kept)}" if kept else "")))
        if cost.problem:
            rows.append(("hangs", cost.problem))
        return DetailTable("Task", ("field", "value"), tuple(rows))

    # --- columns ---------------------------------------------------------------------------------------

    def nodes_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the graph nodes of instructions (int32, -1 none)."""
        return self._column(self._nodes, indices)

    def units_of(self, indices: np.ndarray) -> np.ndarray:
        """Return the units of instructions (int32, -1 none)."""
        return self._column(self._units, indices)

    def _column(self, column: np.ndarray, indices: np.ndarray) -> np.ndarray:
        found = np.full(len(indices), -1, dtype=np.int32)
        inside = (indices >= 0) & (indices < len(column))
        found[inside] = column[indices[inside]]
        return found

    def destinations_of(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first written range of each instruction."""
        table = np.tile(np.array([0, 0, -1], np.int64), (len(indices), 1))
        inside = (indices >= 0) & (indices < len(self))
        table[inside] = self._written[indices[inside]]
        return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].astype(np.int32)

    def ranges_of_node(self, node: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a graph node."""
        return _ranges(np.flatnonzero(self._nodes == node))

    def ranges_of_unit(self, unit: int) -> list[tuple[int, int]]:
        """Return the half-open instruction ranges of a unit."""
        return _ranges(np.flatnonzero(self._units == unit))


def _ranges(found: np.ndarray) -> list[tuple[int, int]]:
    if not len(found):
        return []
    cuts = np.flatnonzero(np.diff(found) > 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(found, cuts)]


def _difference(old: int | None, new: int) -> str:
    if old is None:
        return "not set"
    return "" if old == new else f"{old:#010x}"


def _task_text(task: Task) -> tuple[str, str]:
    """Return the mnemonic and the line of a task."""
    conv, output, pool = task.work.convolution, task.work.output, task.work.pooling
    if conv is not None and (output is None or not output.is_flying):
        opcode = "depthwise" if conv.is_depthwise else "convolution"
        kernel = f"{conv.kernel_height}x{conv.kernel_width}"
        made = conv.real_channels if conv.is_depthwise else conv.kernels
        text = (
            f"{opcode} {conv.real_channels}x{conv.height}x{conv.width} -> "
            f"{made}x{conv.out_height}x{conv.out_width} {kernel} stride "
            f"{conv.stride_y}x{conv.stride_x} {PRECISION_NAMES[conv.precision]}"
        )
        if output is not None:
            text += f" to {PRECISION_NAMES[output.precision_out]}"
        return opcode, text + _stages(task)
    if output is not None and output.is_flying:
        text = f"elementwise {output.channels}x{output.height}x{output.width}{_stages(task)}"
        return "elementwise", text
    if pool is not None:
        kernel = f"{pool.kernel_height}x{pool.kernel_width}"
        text = (
            f"pooling {_METHODS[pool.method]} {pool.in_channels}x{pool.in_height}x{pool.in_width} -> "
            f"{pool.out_height}x{pool.out_width} {kernel}"
        )
        return "pooling", text
    return "task", "task without an enabled block"


def _stages(task: Task) -> str:
    output = task.work.output
    if output is None:
        return ""
    words: list[str] = []
    if output.bs.alu >= 0:
        words.append("bias")
    if output.bs.has_mul or output.bn.has_mul:
        words.append("scale")
    if output.bs.has_relu or output.bn.has_relu:
        words.append("clip" if output.bs.relu_limit or output.bn.relu_limit else "relu")
    if not output.ew.is_bypassed:
        words.append("multiply" if output.ew.alu == -1 else "add" if output.ew.alu == 2 else "alu")
    if output.ew.has_lut:
        words.append("table")
    return f" + {', '.join(words)}" if words else ""
