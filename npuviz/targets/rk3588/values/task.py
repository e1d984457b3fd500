"""Execute one task: what it fetches, computes and writes, from its registers alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuviz.targets.rk3588.tables import Task
from npuviz.targets.rk3588.values.core import convolve
from npuviz.targets.rk3588.values.cubes import Strides, element_type, write_cube
from npuviz.targets.rk3588.values.dpu import Context, main_input, process
from npuviz.targets.rk3588.values.lookup_table import tables_by_task
from npuviz.targets.rk3588.values.memory import Memory, ValueFault
from npuviz.targets.rk3588.values.operands import fetched_features, weight_bytes
from npuviz.targets.rk3588.values.ppu import pooled, pooling_input


@dataclass(frozen=True, slots=True)
class Origin:
    """The addresses from which a task's features and weights in CBUF were loaded, -1: by no task."""

    features: int
    weights: int


class Tasks:
    """Execute tasks of a program, with what they inherit from earlier tasks of their core.

    A task that keeps features or weights in CBUF reads them at the address from which the last task of its
    core that loaded any took them. Assumed: that memory has not changed since.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._tables = tables_by_task(tasks)
        self._origins: dict[int, Origin] = {}
        features: dict[int, int] = {}
        weights: dict[int, int] = {}
        for task in tasks:
            conv = task.work.convolution
            if conv is None:
                continue
            if not conv.keeps_data:
                features[task.core] = conv.feature_address
            if not conv.keeps_weights:
                weights[task.core] = conv.weight_address
            self._origins[task.index] = Origin(features.get(task.core, -1), weights.get(task.core, -1))

    def _origin(self, task: Task) -> Origin:
        origin = self._origins[task.index]
        for kind, address in (("features", origin.features), ("weights", origin.weights)):
            if address < 0:
                raise ValueFault(f"CBUF_CON0 keeps the {kind} of the task before, but no task loaded any")
        return origin

    def operand(self, memory: Memory, number: int, kind: str) -> np.ndarray:
        """Return the bytes (uint8) that CNA of a task fetches or keeps: "features" or "weights".

        Empty for a task without a convolution. Raises ValueFault.
        """
        task = self._tasks[number]
        conv = task.work.convolution
        if conv is None:
            return np.zeros(0, np.uint8)
        origin = self._origin(task)
        if kind == "weights":
            return np.array(weight_bytes(memory, conv, origin.weights))
        return fetched_features(memory, conv, origin.features, task.registers)

    def run(self, memory: Memory, number: int) -> None:
        """Execute a task. Raises ValueFault; nothing is written then."""
        task = self._tasks[number]
        work, registers = task.work, task.registers
        values: np.ndarray | None = None
        if work.convolution is not None and (work.output is None or not work.output.is_flying):
            origin = self._origin(task)
            values = convolve(memory, work.convolution, (origin.features, origin.weights), registers)
        output = work.output
        if output is not None:
            context = Context(registers, memory, output, self._tables.get(number))
            if values is None:
                if not output.is_flying:
                    raise ValueFault("the DPU waits for a CORE that is not enabled")
                values = main_input(context)
            values = process(context, values)
            if output.to_memory:
                write_cube(memory, output.address, values, context.strides, "DPU output")
        pool = work.pooling
        if pool is not None:
            if pool.is_flying or values is None:
                values = pooling_input(memory, pool, registers)
            values = pooled(values.astype(element_type(pool.precision, "PPU"), copy=False), pool, registers)
            write_cube(
                memory, pool.address, values, Strides(pool.surface_stride, pool.out_width), "PPU output"
            )
