"""Turn log entries into plans: decode instructions in blocks and call the planning function of the opcode."""

from collections.abc import Callable, Mapping

import numpy as np

from npuviz.program.graph import Graph
from npuviz.sim.replay.contents import Report
from npuviz.targets.neuroncore.isa import NUM_ENGINES, Opcode
from npuviz.targets.neuroncore.tables import Tables
from npuviz.targets.neuroncore.values import (
    accumulating,
    generators,
    gpsimd,
    indirection,
    matrix,
    microscaling,
    vector,
)
from npuviz.targets.neuroncore.values import reduction as reduce
from npuviz.targets.neuroncore.values.chip import Chip
from npuviz.targets.neuroncore.values.host import plan_host_call, tensor_homes
from npuviz.targets.neuroncore.values.memory import ValueFault
from npuviz.targets.neuroncore.values.plan import Build, Ins, Plan
from npuviz.targets.neuroncore.values.transfer import TRANSPOSE_ORDER, plan_transfer

COMPUTING: Mapping[int, Callable[[Build], Plan]] = {
    Opcode.NC_MATMUL: matrix.nc_matmul,
    Opcode.NC_TRANSPOSE: matrix.nc_transpose,
    Opcode.ACTIVATION: matrix.activation,
    Opcode.TENSOR_COPY: vector.tensor_copy,
    Opcode.TENSOR_COPY_PREDICATED: vector.tensor_copy_predicated,
    Opcode.TENSOR_TENSOR: vector.tensor_tensor,
    Opcode.TENSOR_SCALAR: vector.tensor_scalar,
    Opcode.SCALAR_TENSOR_TENSOR: vector.scalar_tensor_tensor,
    Opcode.TENSOR_TENSOR_SCAN: reduce.tensor_tensor_scan,
    Opcode.TENSOR_REDUCE: reduce.tensor_reduce,
    Opcode.BN_STATS: reduce.bn_stats,
    Opcode.BN_AGGR: reduce.bn_aggr,
    Opcode.RECIPROCAL: vector.reciprocal,
    Opcode.MEMSET: vector.memset,
    Opcode.MAX8: gpsimd.max8,
    Opcode.FIND_INDEX8: gpsimd.find_index8,
    Opcode.MATCH_REPLACE8: gpsimd.match_replace8,
    Opcode.STREAM_SHUFFLE: gpsimd.stream_shuffle,
    Opcode.IOTA: gpsimd.iota,
    Opcode.AFFINE_SELECT: gpsimd.affine_select,
    Opcode.GATHER: gpsimd.gather,
    Opcode.PARTITION_REDUCE: gpsimd.partition_reduce,
    Opcode.TENSOR_SCALAR_CUMULATIVE: accumulating.tensor_scalar_cumulative,
    Opcode.RANGE_SELECT: accumulating.range_select,
    Opcode.SELECT_REDUCE: accumulating.select_reduce,
    Opcode.TENSOR_SCALAR_REDUCE: accumulating.tensor_scalar_reduce,
    Opcode.EXPONENTIAL: accumulating.exponential,
    Opcode.LOCAL_GATHER: gpsimd.local_gather,
    Opcode.INDIRECT_COPY: indirection.indirect_copy,
    Opcode.SEQUENCE_BOUNDS: gpsimd.sequence_bounds,
    Opcode.NONZERO_WITH_COUNT: gpsimd.nonzero_with_count,
    Opcode.TOPK: gpsimd.topk,
    Opcode.QUANTIZE_MX: microscaling.quantize_mx,
    Opcode.NC_MATMUL_MX: microscaling.nc_matmul_mx,
    Opcode.RNG: generators.rng,
}
"""Opcode -> planning function. Control instructions and triggers change no memory."""

_BLOCK = 256
_MAX_BLOCKS = 64
_MAX_PLANS = 1 << 11
_FIELDS = ("opcode", "engine", "flags", "op0", "op1", "cmd", "id", "imm")
_OPERAND_FIELDS = ("space", "dtype", "partition", "partitions", "address", "sizes", "steps")


def _nothing() -> None:
    return None


NOTHING = Plan(_nothing)


class Planner:
    """Makes plans of log entries when first needed, and caches them.

    homes   graph tensor -> the variable that holds it
    report  receives the hazards that plans find while they run
    """

    def __init__(
        self,
        tables: Tables,
        graph: Graph,
        chip: Chip,
        report: Report,
        transpose_order: tuple[int, ...] = TRANSPOSE_ORDER,
    ) -> None:
        self._tables = tables
        self._graph = graph
        self._chip = chip
        self._report = report
        self._order = transpose_order
        self._core_of = np.zeros(len(tables.instructions), np.int64)
        for number, (first, end) in enumerate(tables.sequencers.tolist()):
            self._core_of[first:end] = min(number // NUM_ENGINES, tables.num_cores - 1)
        self.homes = tensor_homes(chip)
        # In compiled graphs integers wrap on purpose, and operators are checked as a whole.
        self._watches_integers = any(node.domain == "nki" for node in graph.nodes)
        self._plans: dict[int, Plan] = {}
        self._blocks: dict[int, list[Ins]] = {}

    def plan(self, entry: int) -> Plan:
        """Return the plan of a log entry. Raises ValueFault for an instruction that cannot be executed."""
        found = self._plans.get(entry)
        if found is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            found = self._plans[entry] = self._make(entry)
        return found

    def forget(self) -> None:
        """Drop all plans, because arrays have been replaced."""
        self._plans.clear()

    def instruction(self, index: int) -> Ins:
        """Return an instruction as plain values."""
        block, place = divmod(index, _BLOCK)
        found = self._blocks.get(block)
        if found is None:
            if len(self._blocks) >= _MAX_BLOCKS:
                self._blocks.clear()
            found = self._blocks[block] = self._decode(block * _BLOCK)
        return found[place]

    def _decode(self, first: int) -> list[Ins]:
        rows = self._tables.instructions[first : first + _BLOCK]
        columns = [np.ascontiguousarray(rows[name]).tolist() for name in _FIELDS]
        bits = np.ascontiguousarray(rows["imm"]).view(np.int32).tolist()
        parts = [np.ascontiguousarray(rows["operands"][name]).tolist() for name in _OPERAND_FIELDS]
        operands = [list(zip(*row, strict=True)) for row in zip(*parts, strict=True)]
        indices = range(first, first + len(rows))
        cores = self._core_of[first : first + _BLOCK].tolist()
        return [Ins(*row) for row in zip(indices, cores, *columns, bits, operands, strict=True)]

    def _make(self, entry: int) -> Plan:
        index = entry if entry >= 0 else -1 - entry
        if not 0 <= index < len(self._tables.instructions):
            raise ValueFault(f"instruction {index} does not exist")
        ins = self.instruction(index)
        if entry < 0:
            number = int(self._tables.transfer_of[index])
            if number < 0:
                raise ValueFault(f"instruction {index} triggers no transfer")
            return self._transfer(number, ins)
        compute = COMPUTING.get(ins.opcode)
        if compute is not None:
            return compute(Build(self._chip, ins, self._report, self._watches_integers))
        if ins.opcode == Opcode.HOST_CALL:
            return self._watched(
                lambda: plan_host_call(self._chip, self._graph, ins, self.homes, self._report)
            )
        if ins.opcode == Opcode.TABLE_LOAD:
            sets, core, number = self._chip.table_sets, ins.core, ins.id

            def load() -> None:
                sets[core] = number

            return Plan(load, loads_table=core)
        return NOTHING

    def _transfer(self, number: int, ins: Ins) -> Plan:
        transfer = self._tables.transfers[number]
        return self._watched(lambda: plan_transfer(self._chip, transfer, ins, self._report, self._order))

    def _watched(self, make: Callable[[], Plan]) -> Plan:
        """Make a plan; if that copied a shared array, drop the older plans, which are stale."""
        before = self._chip.num_private
        made = make()
        if self._chip.num_private != before:
            self._plans.clear()
        return made
