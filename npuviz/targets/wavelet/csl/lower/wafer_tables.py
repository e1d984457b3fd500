"""Collect the tables that all PE programs of one wafer share: code, functions, operation rows, shapes,
places, texts.

Sharing makes a program for each of 225 PEs cheap: a function that reads the same compile-time values on two
PEs is lowered once, and both programs point at the same code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from npuviz.targets.wavelet.csl.lower.emitter import Row
from npuviz.targets.wavelet.csl.syntax import tree
from npuviz.targets.wavelet.csl.syntax.tree import SourceFile, Span
from npuviz.targets.wavelet.kernels import isa
from npuviz.targets.wavelet.wafer import Function, SourcePlace, Symbol

SHAPE_WORDS = 8


@dataclass
class WaferTables:
    """Tables that grow while PE programs are lowered; `freeze` makes the arrays. Equal rows are kept once."""

    code: list[Row] = field(default_factory=list[Row])
    functions: list[Function | None] = field(default_factory=list["Function | None"])
    operations: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    shapes: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    places: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])
    messages: dict[str, int] = field(default_factory=dict[str, int])
    symbols: dict[tuple[object, ...], Symbol] = field(default_factory=dict[tuple[object, ...], Symbol])
    variables: dict[SourceFile, tuple[str, ...]] = field(default_factory=dict[SourceFile, "tuple[str, ...]"])
    lengths: dict[int, int] = field(default_factory=dict[int, int])
    """Function index -> number of its instructions."""

    def variable_names(
        self, file: SourceFile, declarations: Mapping[str, tree.Variable | tree.Function]
    ) -> tuple[str, ...]:
        """Return the names of the `var`s of a file, in order."""
        names = self.variables.get(file)
        if names is None:
            names = self.variables[file] = tuple(
                name
                for name, node in declarations.items()
                if isinstance(node, tree.Variable) and node.kind == "var"
            )
        return names

    def operation(self, row: dict[int, int]) -> int:
        """Return the index of an operation row given as column -> word; missing words mean "absent"."""
        words = [0] * isa.OPERATION_WORDS
        for column in _ABSENT:
            words[column] = -1
        for column, value in row.items():
            words[column] = value
        return self.operations.setdefault(tuple(words), len(self.operations))

    def shape(self, *words: int) -> int:
        """Return the index of a row of the shape table; missing words are 0."""
        return self.shapes.setdefault(words + (0,) * (SHAPE_WORDS - len(words)), len(self.shapes))

    def tensor_shape(self, extents: Sequence[int], strides: Sequence[int]) -> int:
        """Return the row of a mem4d: extents outermost first with 1 in front, strides innermost first with 0
        behind."""
        missing = 4 - len(extents)
        return self.shape(*([1] * missing), *extents, *strides, *([0] * missing))

    def place(self, at: Span) -> int:
        """Return the index of a source place."""
        return self.places.setdefault((at.file, at.line, at.column), len(self.places))

    def source_place(self, at: Span) -> SourcePlace:
        """Return the source place of a node."""
        return SourcePlace(at.file, at.line, at.column)

    def message(self, text: str) -> int:
        """Return the index of a text for assertions and faults."""
        return self.messages.setdefault(text, len(self.messages))

    def reserve_function(self) -> int:
        """Reserve an index for a function whose code comes later (it may call itself)."""
        self.functions.append(None)
        return len(self.functions) - 1

    def freeze(self) -> "FrozenTables":
        """Return the tables in the form that PE programs hold."""
        return FrozenTables(
            np.array(self.code, np.int64).reshape(-1, isa.CODE_WORDS),
            tuple(function for function in self.functions if function is not None),
            np.array(list(self.operations), np.int64).reshape(-1, isa.OPERATION_WORDS),
            np.array(list(self.shapes), np.int64).reshape(-1, SHAPE_WORDS),
            tuple(SourcePlace(*place) for place in self.places),
            tuple(self.messages),
            self.lengths,
        )


@dataclass(frozen=True)
class FrozenTables:
    """The tables that every PeProgram of the wafer refers to, the same objects for all."""

    code: np.ndarray
    functions: tuple[Function, ...]
    operations: np.ndarray
    shapes: np.ndarray
    places: tuple[SourcePlace, ...]
    messages: tuple[str, ...]
    lengths: dict[int, int]


_ABSENT = (
    *(isa.O_RESULT, isa.O_ACTIVATE, isa.O_UNBLOCK, isa.O_CONTROL_ID, isa.O_INDEX, isa.O_UT),
    *(isa.O_PRIORITY, isa.O_SHAPE, isa.O_DST, isa.O_A, isa.O_B, isa.O_C),
)
