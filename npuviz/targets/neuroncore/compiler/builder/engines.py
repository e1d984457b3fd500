"""Choose the engine of each instruction: the requested one, else the able engine that is done first."""

from npuviz.onnx.errors import CannotLower
from npuviz.targets.neuroncore.compiler.builder.validation import check_operands
from npuviz.targets.neuroncore.compiler.patterns.tile_view import DTYPE_CODES, View, packed_pattern
from npuviz.targets.neuroncore.compiler.streams.emitter import NO_IMMEDIATES, Emitter
from npuviz.targets.neuroncore.costs.facts import Pattern
from npuviz.targets.neuroncore.costs.instructions import allowed_engines, estimate
from npuviz.targets.neuroncore.isa import BITVEC, NUM_ENGINES, Alu, Engine, Flag, Opcode
from npuviz.targets.neuroncore.spec import NeuronSpec
from npuviz.targets.neuroncore.strides import merged

_ON_BITS = BITVEC | {Alu.BYPASS}
Views = tuple[View | None, ...]


class Engines:
    """Appends instructions, balanced by the estimated work of each engine and core since the node began."""

    def __init__(self, spec: NeuronSpec, emitter: Emitter) -> None:
        self._spec = spec
        self._emitter = emitter
        self._busy = [[0] * (NUM_ENGINES + 1) for _ in range(spec.num_cores)]  # base cycles
        self._known: dict[tuple[object, ...], tuple[tuple[Engine, int], ...]] = {}

    def begin(self) -> None:
        """Reset the estimated work to 0."""
        for busy in self._busy:
            busy[:] = [0] * len(busy)

    def run(
        self,
        opcode: Opcode,
        views: Views,
        *,
        engine: Engine | None = None,
        flags: int = 0,
        op0: int = 0,
        op1: int = 0,
        cmd: int = 0,
        imm: bytes = NO_IMMEDIATES,
        reads_target: bool = False,
    ) -> None:
        """Append an instruction; operands as for Emitter.instruction.

        Raises CannotLower if no engine, or not the one asked for, can run it.
        """
        self._emitter.instruction(
            self._choose(opcode, views, op0, op1, flags, engine),
            opcode,
            views,
            flags=flags,
            op0=op0,
            op1=op1,
            cmd=cmd,
            imm=imm,
            reads_target=reads_target,
        )

    def convert(self, dst: View, src: View) -> None:
        """Append a copy that casts."""
        self.run(Opcode.TENSOR_COPY, (dst, src))

    def run_pattern(
        self,
        opcode: Opcode,
        views: Views,
        dims: list[tuple[int, int]],
        *,
        flags: int = 0,
        op0: int = 0,
        imm: bytes,
    ) -> None:
        """Append a GpSimd instruction with a PATTERN as ARG0."""
        if not self._spec.has_pool:
            raise CannotLower(f"{opcode.name} needs GpSimd, which {self._spec.arch} does not have")
        self._emitter.instruction(
            Engine.POOL, opcode, views, flags=flags, op0=op0, imm=imm, pattern=packed_pattern(dims)
        )
        assert views[0] is not None
        self._busy[self._emitter.core][Engine.POOL] += views[0].free_size

    def run_shuffle(self, views: Views, order: bytes) -> None:
        """Append a STREAM_SHUFFLE of Vector; `order` are ARG0 and ARG1."""
        check_operands(Opcode.STREAM_SHUFFLE, views)
        self._emitter.instruction(Engine.DVE, Opcode.STREAM_SHUFFLE, views, reads_target=True, pattern=order)
        assert views[0] is not None
        self._busy[self._emitter.core][Engine.DVE] += views[0].free_size

    def run_on_pe(self, opcode: Opcode, views: Views, flags: int = 0, op0: int = 0, op1: int = 0) -> None:
        """Append an instruction that only PE has."""
        self._emitter.instruction(Engine.PE, opcode, views, flags=flags, op0=op0, op1=op1, accumulates=True)

    def _choose(
        self, opcode: Opcode, views: Views, op0: int, op1: int, flags: int, wanted: Engine | None
    ) -> Engine:
        key = (opcode, op0, op1, flags, *(view and _key(view) for view in views))
        options = self._known.get(key)
        if options is None:
            options = self._known[key] = self._options(opcode, views, op0, op1, flags)
        if wanted is not None:
            options = tuple(option for option in options if option[0] == wanted)
        if not options:
            name = f" on {wanted.name}" if wanted is not None else ""
            raise CannotLower(f"{opcode.name} of {_kinds(views)} is not possible{name} on {self._spec.arch}")
        busy = self._busy[self._emitter.core]
        engine, cycles = options[0]
        if len(options) > 1:
            engine, cycles = min(options, key=lambda option: busy[option[0]] + option[1])
        busy[engine] += cycles
        return engine

    def _options(
        self, opcode: Opcode, views: Views, op0: int, op1: int, flags: int
    ) -> tuple[tuple[Engine, int], ...]:
        check_operands(opcode, views)
        patterns = tuple(_pattern(view) if view is not None else None for view in views)
        spec = self._spec
        engines = allowed_engines(spec, opcode, patterns, op0, op1, flags)
        if flags & Flag.INTEGER and {op0, op1} <= _ON_BITS:
            # Integer numbers in operators on bits: no arithmetic, so Vector is exact too.
            plain = allowed_engines(spec, opcode, patterns, op0, op1, flags & ~Flag.INTEGER)
            engines += tuple(engine for engine in plain if engine not in engines)
        return tuple(
            (engine, estimate(spec, opcode, engine, patterns, op0, op1, flags)) for engine in engines
        )


def _key(view: View) -> bytes:
    packed = view.packed()
    return packed[:2] + packed[3:4] + packed[8:24]


def _pattern(view: View) -> Pattern:
    dims = merged(zip(view.shape, view.steps, strict=True))
    return Pattern(
        int(view.space),
        DTYPE_CODES[view.dtype],
        view.partitions,
        tuple(size for size, _ in dims),
        tuple(step for _, step in dims),
    )


def _kinds(views: Views) -> str:
    return ", ".join(f"{view.space.name} {view.dtype}" for view in views if view is not None)
