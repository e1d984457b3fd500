"""Append computing instructions of Scalar, Vector, GpSimd and PE, named as in NKI."""

from collections.abc import Sequence

import numpy as np

from npuviz.base.errors import SimulationError
from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.builder.dma import Dma
from npuviz.targets.neuroncore.compiler.builder.engines import Engines
from npuviz.targets.neuroncore.compiler.builder.hbm import Hbm
from npuviz.targets.neuroncore.compiler.patterns.hbm_view import HbmView
from npuviz.targets.neuroncore.compiler.patterns.tile_view import View, packed_order
from npuviz.targets.neuroncore.compiler.streams.emitter import floats, immediates
from npuviz.targets.neuroncore.isa import (
    BITVEC,
    VECTOR_BLOCK,
    Activation,
    Alu,
    Engine,
    Flag,
    MxFormat,
    Opcode,
    ReduceCmd,
    Space,
)
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.strides import merged

_WORDS = frozenset(("int32", "uint32"))
Operand = float | int | View
"""A number, or a view [P,1] with a value for each partition."""


class Instructions:
    """Appends instructions that compute on tiles in SBUF and PSUM."""

    def __init__(self, spec: NeuronSpec, hbm: Hbm, dma: Dma, engines: Engines) -> None:
        self._spec = spec
        self._hbm = hbm
        self._dma = dma
        self._engines = engines
        self._columns: dict[int, HbmView] = {}

    def take_back(self, length: int) -> None:
        """Forget the variables from `length` on, which were removed."""
        self._columns = {bits: view for bits, view in self._columns.items() if view.variable < length}

    def activation(
        self,
        dst: View,
        src: View,
        func: Activation,
        *,
        scale: float | View = 1.0,
        bias: float | View = 0.0,
        alpha: float = 0.0,
        cmd: ReduceCmd = ReduceCmd.IDLE,
        accumulators: View | None = None,
    ) -> None:
        """Emit dst = func(src * scale + bias), on Scalar.

        alpha         slope of PRELU
        cmd           operation on the 128 accumulators; accumulators [P,1] receives them afterwards
        A number as bias becomes a constant column where the generation has no immediate bias (v2).
        """
        if func == Activation.RECIPROCAL and not self._spec.has_reciprocal_bias and bias != 0.0:
            raise CannotLower(f"reciprocal with a bias is not possible on {self._spec.arch}")
        if not isinstance(bias, View) and bias != 0.0 and not self._spec.has_bias_immediate:
            bias = self._column(bias)[src.partition : src.partition + src.partitions]
        views = (
            dst,
            src,
            None,
            scale if isinstance(scale, View) else None,
            bias if isinstance(bias, View) else None,
            accumulators,
        )
        numbers = (
            1.0 if isinstance(scale, View) else float(scale),
            0.0 if isinstance(bias, View) else float(bias),
            float(alpha),
        )
        self._engines.run(Opcode.ACTIVATION, views, op0=func, cmd=cmd, imm=floats(*numbers))

    def _column(self, value: float) -> View:
        """Return a float32 view [128,1] filled with a number, loaded once and cached."""
        bits = np.float32(value).view(np.int32).item()
        home = self._columns.get(bits)
        if home is None:
            array = np.full((128, 1), value, dtype=np.float32)
            home = self._columns[bits] = self._hbm.constant(array, f"column.{value:g}.{len(self._columns)}")
        return self._dma.fetch(home)

    def copy(self, dst: View, src: View, engine: Engine | None = None, integer: bool = False) -> None:
        """Emit dst = src, cast; any shapes of equally many elements a partition.

        integer  truncate and extend integers of different widths instead of converting them through fp32
        """
        self._engines.run(Opcode.TENSOR_COPY, (dst, src), engine=engine, flags=Flag.INTEGER * integer)

    def tensor_tensor(
        self,
        dst: View,
        a: View,
        b: View,
        op: Alu,
        engine: Engine | None = None,
        integer: bool | None = None,
    ) -> None:
        """Emit dst = a op b.

        integer  whether arithmetic is exact (by GpSimd); None: where both are 32-bit integers
        """
        flags = 0
        if integer is None:
            integer = a.dtype in _WORDS and b.dtype in _WORDS
        if integer and op not in BITVEC:
            flags = Flag.INTEGER
        self._engines.run(Opcode.TENSOR_TENSOR, (dst, a, b), op0=op, engine=engine, flags=flags)

    def tensor_scalar(
        self,
        dst: View,
        src: View,
        op0: Alu,
        x0: Operand,
        op1: Alu = Alu.BYPASS,
        x1: Operand = 0.0,
        reverse0: bool = False,
        reverse1: bool = False,
        engine: Engine | None = None,
        integer: bool = False,
    ) -> None:
        """Emit dst = (src op0 x0) op1 x1; reverseN swaps the operands of opN.

        integer  numbers are int32 bit patterns and arithmetic is exact (by GpSimd)
        """
        flags = Flag.INTEGER * integer | Flag.REVERSE0 * reverse0 | Flag.REVERSE1 * reverse1
        self._engines.run(
            Opcode.TENSOR_SCALAR,
            (dst, src, None, _view(x0), _view(x1)),
            op0=op0,
            op1=op1,
            flags=flags,
            imm=immediates((_number(x0), _number(x1), 0), integer),
            engine=engine,
        )

    def scalar_tensor_tensor(
        self,
        dst: View,
        src: View,
        op0: Alu,
        x0: Operand,
        op1: Alu,
        other: View,
        reverse0: bool = False,
        reverse1: bool = False,
        integer: bool = False,
    ) -> None:
        """Emit dst = (src op0 x0) op1 other; reverseN swaps the operands of opN."""
        self._engines.run(
            Opcode.SCALAR_TENSOR_TENSOR,
            (dst, src, other, _view(x0)),
            op0=op0,
            op1=op1,
            flags=Flag.REVERSE0 * reverse0 | Flag.REVERSE1 * reverse1 | Flag.INTEGER * integer,
            imm=immediates((_number(x0), 0, 0), integer),
        )

    def tensor_reduce(
        self, dst: View, src: View, op: Alu, axes: int, negate: bool = False, integer: bool = False
    ) -> None:
        """Emit dst = op over the `axes` innermost free dimensions of src, negated if asked.

        integer  exact arithmetic (by GpSimd); always so for 32-bit integers
        """
        flags = Flag.NEGATE * negate
        if op not in BITVEC and (integer or src.dtype in _WORDS):
            flags |= Flag.INTEGER
        if not 1 <= axes <= len(src.shape):
            raise SimulationError(f"tensor_reduce over {axes} of {len(src.shape)} free dimensions")
        arranged, cmd = src.for_reduction(axes)
        self._engines.run(Opcode.TENSOR_REDUCE, (dst, arranged), op0=op, cmd=cmd, flags=flags)

    def scan(
        self,
        dst: View,
        a: View,
        b: View,
        op0: Alu,
        op1: Alu,
        initial: Operand = 0.0,
        integer: bool = False,
        reverse: tuple[bool, bool] = (False, False),
    ) -> None:
        """Emit r[i] = (a[i] op0 r[i-1]) op1 b[i] along each partition; r[-1] = initial. `reverse` swaps the
        operands of op0 and of op1.
        """
        views = (dst, a, b, _view(initial))
        imm = immediates((_number(initial), 0, 0), integer)
        flags = Flag.INTEGER * integer | Flag.REVERSE0 * reverse[0] | Flag.REVERSE1 * reverse[1]
        self._engines.run(Opcode.TENSOR_TENSOR_SCAN, views, op0=op0, op1=op1, imm=imm, flags=flags)

    def copy_predicated(self, dst: View, src: View, predicate: View) -> None:
        """Emit dst = src where predicate is not 0, else unchanged."""
        self._engines.run(Opcode.TENSOR_COPY_PREDICATED, (dst, src, predicate), reads_target=True)

    def memset(self, dst: View, value: float | int, engine: Engine | None = None) -> None:
        """Emit dst = value; exact for integers."""
        is_word = dst.dtype in _WORDS
        flags = int(Flag.INTEGER) if is_word else 0
        imm = immediates((value, 0, 0), is_word)
        self._engines.run(Opcode.MEMSET, (dst,), engine=engine, flags=flags, imm=imm)

    def reciprocal(self, dst: View, src: View) -> None:
        """Emit dst = 1 / src, precise (Vector)."""
        self._engines.run(Opcode.RECIPROCAL, (dst, src))

    def max8(self, dst: View, src: View) -> None:
        """Emit dst [P,8]: the eight largest of each partition, falling."""
        self._engines.run(Opcode.MAX8, (dst, src))

    def find_index8(self, dst: View, src: View, values: View) -> None:
        """Emit dst [P,8] uint32: first index of each of values [P,8] in src."""
        self._engines.run(Opcode.FIND_INDEX8, (dst, src, values))

    def match_replace8(
        self, dst: View, src: View, values: View, replacement: float, places: View | None = None
    ) -> None:
        """Emit dst = src with the first of each of values [P,8] replaced; places [P,8] receives their
        indices.
        """
        views = (dst, src, values, None, None, places)
        self._engines.run(Opcode.MATCH_REPLACE8, views, imm=floats(replacement))

    def bn_stats(self, dst: View, src: View) -> None:
        """Emit dst [P,6]: count, mean, variance * count of the even, then of the odd elements."""
        self._engines.run(Opcode.BN_STATS, (dst, src))

    def bn_aggr(self, dst: View, src: View) -> None:
        """Emit dst [P,2]: mean and variance of groups (count, mean, variance * count)."""
        self._engines.run(Opcode.BN_AGGR, (dst, src))

    def iota(self, dst: View, base: int, steps: Sequence[int], channel_multiplier: int = 0) -> None:
        """Emit dst = base + channel_multiplier * partition + sum of index * step; one step a free
        dimension.
        """
        dims = _pattern_dims(dst.shape, steps)
        imm = immediates((base, channel_multiplier, 0), True)
        self._engines.run_pattern(Opcode.IOTA, (dst,), dims, flags=int(Flag.INTEGER), imm=imm)

    def affine_select(
        self,
        dst: View,
        src: View,
        base: int,
        steps: Sequence[int],
        channel_multiplier: int,
        op: Alu,
        fill: float,
    ) -> None:
        """Emit dst = src where (the expression of iota) op 0, else fill."""
        dims = _pattern_dims(dst.shape, steps)
        imm = floats(base, channel_multiplier, fill)
        self._engines.run_pattern(Opcode.AFFINE_SELECT, (dst, src), dims, op0=op, imm=imm)

    def gather_free(self, dst: View, src: View, index: View) -> None:
        """Emit dst[p, i] = src[p, index[p, i]] (GpSimd)."""
        self._engines.run(Opcode.GATHER, (dst, src, index))

    def partition_reduce(self, dst: View, src: View, op: Alu, integer: bool = False) -> None:
        """Emit dst [1, N] = op over the partitions of src (GpSimd); exact for 32-bit integers."""
        flags = Flag.INTEGER * (integer or src.dtype in _WORDS)
        self._engines.run(Opcode.PARTITION_REDUCE, (dst, src), op0=op, flags=flags)

    def accumulating(
        self,
        opcode: Opcode,
        dst: View,
        sources: Sequence[View],
        *,
        arguments: tuple[Operand, Operand] = (0.0, 0.0),
        ops: tuple[Alu, Alu] = (Alu.BYPASS, Alu.BYPASS),
        cmd: ReduceCmd = ReduceCmd.IDLE,
        result: View | None = None,
        start: float = 0.0,
        flags: int = 0,
    ) -> None:
        """Append a Vector instruction that uses the accumulators; `result` [P,1] receives them afterwards.

        opcode     tensor_scalar_cumulative, range_select, select_reduce, tensor_scalar_reduce, exponential
        arguments  numbers or one value a partition: ARG0 and ARG1;  start  imm2
        """
        first, second = arguments
        views = (dst, *sources, *(None,) * (2 - len(sources)), _view(first), _view(second), result)
        self._engines.run(
            opcode, views, op0=ops[0], op1=ops[1], cmd=cmd, flags=flags,
            imm=floats(_number(first), _number(second), start),
        )  # fmt: skip

    def local_gather(self, dst: View, src: View, index: View, each: int, count: int) -> None:
        """Emit dst = `each` elements of src at each of `count` indices that 16 partitions hold (GpSimd)."""
        imm = immediates((each, count, 0), True)
        self._engines.run(Opcode.LOCAL_GATHER, (dst, src, index), flags=int(Flag.INTEGER), imm=imm)

    def indirect_copy(
        self, dst: View, src: View, index: View, count: int, group: int, scatters: bool
    ) -> None:
        """Emit dst = src at `count` offsets in `group` partitions of `index`; or dst at those = src (v4)."""
        flags = int(Flag.INTEGER | Flag.SCATTER_TARGET * scatters)
        imm = immediates((count, group, 0), True)
        self._engines.run(Opcode.INDIRECT_COPY, (dst, src, index), flags=flags, imm=imm)

    def sequence_bounds(self, dst: View, src: View) -> None:
        """Emit dst [1, 2N]: first and end of the run of equal src [1, N] around each element (GpSimd)."""
        self._engines.run(Opcode.SEQUENCE_BOUNDS, (dst, src))

    def nonzero_with_count(self, dst: View, src: View, offset: int, padding: int) -> None:
        """Emit dst [P, N+1] = positions of src that are not 0, plus offset; padding; their count (GpSimd)."""
        imm = immediates((offset, padding, 0), True)
        self._engines.run(Opcode.NONZERO_WITH_COUNT, (dst, src), flags=int(Flag.INTEGER), imm=imm)

    def topk(self, dst: View, places: View, src: View, count: int) -> None:
        """Emit dst [P,K] = the largest of `count` elements of src in each 16 partitions, rising; their
        numbers.
        """
        imm = immediates((count, 0, 0), True)
        views = (dst, src, None, None, None, places)
        self._engines.run(Opcode.TOPK, views, flags=int(Flag.INTEGER), imm=imm)

    def random_bits(self, dst: View, seed: int, count: int, engine: Engine | None = None) -> None:
        """Emit dst = the random bits of draw `count` from a seed."""
        imm = immediates((seed, count, 0), True)
        self._engines.run(Opcode.RNG, (dst,), engine=engine, flags=int(Flag.INTEGER), imm=imm)

    def quantize_mx(self, dst: View, src: View, scales: View, form: MxFormat) -> None:
        """Emit dst [P, N/4] = src [P, N] packed, with the scales of 8 partitions and 4 elements (Vector,
        v4).
        """
        self._engines.run(Opcode.QUANTIZE_MX, (dst, src, None, None, None, scales), op0=form)

    def matmul_mx(
        self,
        dst_psum: View,
        stationary: View,
        moving: View,
        scales: tuple[View, View],
        how: tuple[int, int, bool],
    ) -> None:
        """Emit dst [M,N] = or += stationary [K,M] ^T @ moving [K,N] of packed elements (PE, v4).

        how  formats of stationary and moving, whether to accumulate
        """
        views = (dst_psum, stationary, moving, *scales)
        self._engines.run_on_pe(
            Opcode.NC_MATMUL_MX, views, flags=Flag.ACCUMULATE * how[2], op0=how[0], op1=how[1]
        )

    def matmul(
        self,
        dst_psum: View,
        stationary: View,
        moving: View,
        accumulate: bool,
        double_row: bool = False,
        hints: int = 0,
    ) -> None:
        """Emit dst [M,N] = (or, accumulating, +=) stationary [K,M] ^T @ moving [K,N], on PE; in fp32.

        double_row  every partition holds two rows of K, one after the other: [K,2,M], [K,2,N]; fp8, v3+
        hints       flags that make fp32 cheaper
        """
        each = 2 if double_row else 1
        count, rows = stationary.partitions, stationary.free_size // each
        columns = moving.free_size // each
        spec = self._spec
        if (
            moving.partitions != count
            or dst_psum.partitions != rows
            or dst_psum.free_size != columns
            or count > spec.matmul_max_contraction
            or rows > spec.matmul_max_stationary
            or columns > spec.matmul_max_moving
            or dst_psum.tile.space != Space.PSUM
            or stationary.tile.space != Space.SBUF
            or moving.tile.space != Space.SBUF
        ):
            raise SimulationError(
                f"matmul of {stationary!r} and {moving!r} to {dst_psum!r}: shapes do not fit"
            )
        self._check_banks(dst_psum)
        flags = Flag.ACCUMULATE * accumulate | Flag.DOUBLE_ROW * double_row | hints
        self._engines.run_on_pe(Opcode.NC_MATMUL, (dst_psum, stationary, moving), flags=flags)

    def _check_banks(self, dst_psum: View) -> None:
        """Raise SimulationError if a result of PE lies in more banks than one instruction can write."""
        bank = self._spec.psum_bank_bytes
        _, _, low, high = dst_psum.box()
        most = max(1, 2 * self._spec.matmul_max_moving // bank)
        if (high - 1) // bank - low // bank >= most:
            raise SimulationError(
                f"{dst_psum!r}: PE writes {most} PSUM bank{'s' * (most > 1)} of {bank} bytes at most, "
                f"these are bytes {low} to {high - 1}"
            )

    def transpose(self, dst_psum: View, src: View) -> None:
        """Emit dst [F,P] = src [P,F] ^T on PE (dst in PSUM, of the type of src or fp32)."""
        if dst_psum.partitions != src.free_size or dst_psum.free_size != src.partitions:
            raise SimulationError(f"transpose of {src!r} to {dst_psum!r}: shapes do not fit")
        self._check_banks(dst_psum)
        self._engines.run_on_pe(Opcode.NC_TRANSPOSE, (dst_psum, src))

    def transpose_on_vector(self, dst: View, src: View) -> None:
        """Emit dst [F,P] = src [P,F] ^T on Vector, an instruction for each 32 x 32; any memory."""
        rows, columns = src.partitions, src.free_size
        if dst.partitions != columns or dst.free_size != rows:
            raise SimulationError(f"transpose of {src!r} to {dst!r}: shapes do not fit")
        if max(rows, columns) <= VECTOR_BLOCK:
            self._engines.run(Opcode.NC_TRANSPOSE, (dst, src), engine=Engine.DVE)
            return
        dst, src = dst.reshape(rows), src.reshape(columns)
        for row in range(0, rows, VECTOR_BLOCK):
            down = slice(row, min(row + VECTOR_BLOCK, rows))
            for column in range(0, columns, VECTOR_BLOCK):
                along = slice(column, min(column + VECTOR_BLOCK, columns))
                self._engines.run(
                    Opcode.NC_TRANSPOSE, (dst[along, down], src[down, along]), engine=Engine.DVE
                )

    def stream_shuffle(self, dst: View, src: View, order: Sequence[int]) -> None:
        """Emit partition p of dst = partition order[p % 32] of src, both of the same quadrant of 32."""
        self._engines.run_shuffle((dst, src), packed_order(order))


def _pattern_dims(shape: tuple[int, ...], steps: Sequence[int]) -> list[tuple[int, int]]:
    if len(steps) != len(shape):
        raise SimulationError(f"{len(steps)} steps for the free dimensions {shape}")
    return merged(zip(shape, steps, strict=True))


def _view(operand: Operand) -> View | None:
    return operand if isinstance(operand, View) else None


def _number(operand: Operand) -> float:
    return 0.0 if isinstance(operand, View) else operand
