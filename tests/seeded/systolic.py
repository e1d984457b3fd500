"""Broken systolic programs: compiled ones with an edge, a move, an entry or a layer changed."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from npuviz.sim.machine import Machine
from npuviz.targets.systolic.isa import UNIT_KIND_OF, UNIT_KINDS
from npuviz.targets.systolic.kernels import program_records as tk
from npuviz.targets.systolic.machine.machine import SystolicMachine
from npuviz.targets.systolic.machine.payload import Payload
from npuviz.targets.systolic.tables import SystolicTables
from tests.seeded.seed import Seed, sample

MACHINE = "systolic"
MODELS = ("tiny_cnn", "tiny_transformer")
ORDER = frozenset({"early-read", "early-overwrite", "unordered-writes", "unwritten"})
_KINDS = UNIT_KIND_OF
Change = Callable[[SystolicTables], SystolicTables]


def _base(model: str) -> SystolicMachine:
    machine = sample(MACHINE, model)
    assert isinstance(machine, SystolicMachine)
    return machine


def _tables(model: str) -> SystolicTables:
    payload = _base(model).program.payload
    assert isinstance(payload, Payload)
    return payload.tables


def _with(model: str, change: Change) -> Callable[[], Machine]:
    def make() -> Machine:
        base = _base(model)
        payload = base.program.payload
        assert isinstance(payload, Payload)
        tables = change(payload.tables)
        return SystolicMachine(
            base._engine.spec, replace(base.program, payload=replace(payload, tables=tables))
        )

    return make


def _coded(change: Callable[[np.ndarray], None]) -> Change:
    def made(tables: SystolicTables) -> SystolicTables:
        code = tables.code.copy()
        change(code)
        return replace(tables, code=code)

    return made


def rows(code: np.ndarray, kind: str) -> np.ndarray:
    """Code rows that a kind of unit executes."""
    return np.flatnonzero(_KINDS[code[:, tk.CODE.op]] == UNIT_KINDS.index(kind))


def seeds() -> Iterator[Seed]:
    """All of them."""
    for model in MODELS:
        yield from _edges(model)
        yield from _moves(model)


def _edges(model: str) -> Iterator[Seed]:
    """An edge of the program left out: the layer does not wait for the one that makes its input."""
    edges = _tables(model).edges
    for number in (0, len(edges) // 2, len(edges) - 1):
        if len(edges) > number >= 0:

            def change(tables: SystolicTables, number: int = number) -> SystolicTables:
                return replace(tables, edges=np.delete(tables.edges, number, axis=0))

            a, b = edges[number].tolist()
            yield Seed(f"{model}: layer {b} does not wait for {a}", MACHINE, "an edge between layers removed",
                       ORDER, _with(model, change))  # fmt: skip


def _moves(model: str) -> Iterator[Seed]:
    code = _tables(model).code
    loads, stores, works = rows(code, "LD"), rows(code, "ST"), rows(code, "EX")
    first, store = int(loads[0]), int(stores[0])

    def wrong_entry(code: np.ndarray) -> None:
        code[first, tk.CODE.dst] = code[int(loads[1]), tk.CODE.dst]

    def behind(code: np.ndarray) -> None:
        code[first, tk.CODE.offset] += 1 << 24

    def before(code: np.ndarray) -> None:
        code[store, tk.CODE.offset] -= 1 << 24

    def too_large(code: np.ndarray) -> None:
        code[first, tk.CODE.size] = 1 << 26

    def other_operand(code: np.ndarray) -> None:
        first, count = _tables(model).tiles[0, [tk.TILE.code, tk.TILE.count]].tolist()
        mine = [row for row in works.tolist() if first <= row < first + count]
        entry = code[mine[0], tk.CODE.src0]
        chosen = [row for row in mine if code[row, tk.CODE.src0] == entry]
        code[chosen, tk.CODE.src0] = code[mine[0], tk.CODE.src1]

    def half_stored(code: np.ndarray) -> None:
        code[stores, tk.CODE.n0] = (code[stores, tk.CODE.n0] + 1) // 2

    def never_stored(code: np.ndarray) -> None:
        code[stores, tk.CODE.tensor] = -1

    order = ORDER | {"fault", "deadlock"}
    yield Seed(f"{model}: load {first} fills another entry", MACHINE, "an uninitialised read", order,
               _with(model, _coded(wrong_entry)))  # fmt: skip
    yield Seed(f"{model}: load {first} behind its tensor", MACHINE, "out of bounds",
               frozenset({"out-of-bounds"}), _with(model, _coded(behind)))  # fmt: skip
    yield Seed(f"{model}: store {store} before its tensor", MACHINE, "out of bounds",
               frozenset({"out-of-bounds"}), _with(model, _coded(before)))  # fmt: skip
    yield Seed(f"{model}: load {first} larger than its half", MACHINE, "capacity",
               frozenset({"capacity", "fault"}), _with(model, _coded(too_large)))  # fmt: skip
    if (code[stores, tk.CODE.n0] > 1).any():
        yield Seed(f"{model}: half of the rows are stored", MACHINE, "a result left out",
                   frozenset({"incomplete"}), _with(model, _coded(half_stored)))  # fmt: skip
    if len(works) and works[0] < int(_tables(model).tiles[0, [tk.TILE.code, tk.TILE.count]].sum()):
        yield Seed(f"{model}: an operand used twice", MACHINE, "a dead transfer",
                   frozenset({"dead-transfer"}), _with(model, _coded(other_operand)))  # fmt: skip
    yield Seed(f"{model}: results are not stored", MACHINE, "an uninitialised read", order,
               _with(model, _coded(never_stored)))  # fmt: skip
