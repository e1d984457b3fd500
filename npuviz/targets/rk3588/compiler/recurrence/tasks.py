"""Make the tasks of a recurrent layer's steps: products with the state, and work of the DPU alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from npuviz.formats.rk3588.conv_task import ConvTask
from npuviz.formats.rk3588.tensor_layout import aligned, packing
from npuviz.onnx.errors import CannotLower
from npuviz.onnx.semantics.recurrence import Recurrence
from npuviz.onnx.semantics.windows import WindowAxis
from npuviz.program.dtypes import numpy_dtype
from npuviz.targets.rk3588.compiler.builder import Builder, filled_up
from npuviz.targets.rk3588.compiler.dpu import Operand, Stages
from npuviz.targets.rk3588.compiler.dpu_task import DPU_ENABLES, Move, Plane, move_words, with_table
from npuviz.targets.rk3588.compiler.layers import Layer
from npuviz.targets.rk3588.compiler.lookup_table import ActivationTable
from npuviz.targets.rk3588.compiler.operators.conv import conv_words, enables_of, pack_dense
from npuviz.targets.rk3588.compiler.recurrence.gates import Gates, fits
from npuviz.targets.rk3588.compiler.steps import HALF, SINGLE
from npuviz.targets.rk3588.compiler.tiles.tiling import Shape, tiles
from npuviz.targets.rk3588.tables import Buffer
from npuviz.targets.rk3588.task.work import ATOM_BYTES

_LANES = packing(HALF).channels


@dataclass(frozen=True)
class Part:
    """Some channels of a cube of rows, from one row on, that a task reads or writes.

    at  channel, row
    """

    cube: Buffer
    at: tuple[int, int] = (0, 0)

    @property
    def address(self) -> int:
        """Address of the first atom."""
        channel, row = self.at
        lanes = packing(self.cube.dtype).channels
        return self.cube.address + (channel // lanes * self.cube.shape[0] + row) * ATOM_BYTES

    def operand(self, alu: int) -> Operand:
        """Return the part as an operand of EW."""
        return Operand(self.address, alu, self.cube.shape[0], numpy_dtype(self.cube.dtype).itemsize)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights as CORE wants them: where they lie, their kernels, and the bias that BS adds to the sums."""

    address: int
    kernels: int
    bias: Buffer | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Hidden values before a step.

    cell  of an LSTM, None: zeros;  rest  what is to be added to it, None: nothing
    """

    hidden: Part
    cell: Part | None = None
    rest: Part | None = None


Step = Callable[[int, State, Part | None, bool], State]
"""(step's number, state before it, where its hidden values go (None: they are not used), whether CBUF has the
weights of the step before) -> state after it."""


@dataclass(frozen=True)
class Direction:
    """One direction of a layer.

    number   of the direction
    given    products of the inputs, (steps * batch, gates) in fp32, from a channel on
    """

    b: Builder
    layer: Layer
    gates: Gates
    number: int
    given: tuple[Buffer, int]

    @property
    def form(self) -> Recurrence:
        """The operator."""
        return self.gates.form

    @property
    def width(self) -> int:
        """Channels of a gate in memory."""
        return self.gates.width

    @cached_property
    def stored(self) -> int:
        """Channels of the state in memory."""
        return aligned(self.form.hidden, _LANES)

    @cached_property
    def stays(self) -> bool:
        """Whether all weights of the state stay in CBUF from step to step, beside a batch of states."""
        return fits(self.gates, self.b.spec)

    def name(self, what: str) -> str:
        """Return the name of a buffer."""
        return f"{self.layer.head.name or self.layer.head.op_type} {what}"

    def cube(self, name: str, channels: int, dtype: str = SINGLE) -> Buffer:
        """Make a cube for one batch, with zeros at first."""
        return self.b.cleared(self.name(name), (self.form.batch, channels), dtype)

    def input_at(self, step: int, channel: int = 0) -> Part:
        """Return the products of the input from a channel on."""
        cube, first = self.given
        return Part(cube, (first + channel, step * self.form.batch))

    def move(
        self,
        source: Part,
        target: Part,
        channels: int,
        stages: Stages = Stages(),  # noqa: B008
        table: ActivationTable | None = None,
    ) -> None:
        """Add a task of the DPU alone. table  follows the stages"""
        size = (channels, self.form.batch, 1)
        dtypes = (source.cube.dtype, target.cube.dtype)
        planes = [Plane(part.cube.shape[0]) for part in (source, target)]
        words = move_words(Move(size, (source.address, target.address), dtypes, planes[0], planes[1]), stages)
        if table is not None:
            words = with_table(
                words, table, self.b.needs_table(0, table), to_half=target.cube.dtype == HALF,
                keeps_operand=stages.operand is not None,
            )  # fmt: skip
        self.b.task(self.layer.head.id, 0, words, DPU_ENABLES)

    def multiply(
        self,
        source: Part,
        target: Part,
        weights: Weights,
        stages: Stages,
        table: ActivationTable | None,
        keeps: bool,
    ) -> None:
        """Multiply the state of one batch with weights. keeps  those still in CBUF are not fetched again"""
        batch = self.form.batch
        base = ConvTask(
            in_dtype=HALF, out_dtype=target.cube.dtype, width=1, height=batch, channels=self.stored,
            kernels=weights.kernels, out_height=batch, layer_height=source.cube.shape[0],
            surface_stride=target.cube.shape[0], real_channels=self.stored, quantised=True,
            feature_address=source.address, weight_address=weights.address,
            output_address=target.address,
        )  # fmt: skip
        alone = replace(self.b.spec, cores=1)
        cut = tiles(alone, base, Shape(WindowAxis(batch, batch), WindowAxis(1, 1)))
        for tile in cut:
            task = replace(tile.task, weight_reuse=True) if len(cut) == 1 and keeps else tile.task
            moved = task.output_address - target.address
            operand = stages.operand
            part = replace(
                stages,
                bias_address=None if weights.bias is None else weights.bias.address,
                operand=None if operand is None else replace(operand, address=operand.address + moved),
            )
            words = conv_words(task, part)
            if table is not None:
                words = with_table(
                    words, table, self.b.needs_table(0, table), to_half=target.cube.dtype == HALF,
                    keeps_operand=operand is not None,
                )  # fmt: skip
            self.b.task(self.layer.head.id, 0, words, enables_of(part))

    def weights(self) -> Weights:
        """Make the weights of the state for all gates."""
        full = np.zeros((self.gates.kernels, self.stored), np.float32)
        full[:, : self.form.hidden] = self.gates.spread(self.form.again[self.number])
        packed = pack_dense(as_half(full)[:, :, None, None], packing(HALF).kernels)
        return Weights(self.b.constant(self.name(f"R {self.number}"), packed).address, len(full))

    def part_of(self, weights: Weights, first: int, kernels: int, bias: np.ndarray | None = None) -> Weights:
        """Return some of the kernels, with a bias of their hidden values."""
        sums = None
        if bias is not None and np.any(bias):
            values = np.zeros(kernels, np.float32)
            values[: len(bias)] = bias
            sums = self.b.constant(self.name(f"R bias {self.number}"), filled_up(values), "bias")
        return Weights(weights.address + 2 * first * self.stored, kernels, sums)


def as_half(values: np.ndarray) -> np.ndarray:
    """Return weights in fp16. Raises CannotLower for weights that it cannot hold."""
    if np.abs(values).max(initial=0) > np.finfo(np.float16).max:
        raise CannotLower("weights that fp16 cannot hold")
    return values.astype(np.float16)


Begins = Sequence[Buffer | None]
"""Hidden values and cell before the first step, as rows of all directions; None: zeros."""
